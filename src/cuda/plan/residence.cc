// SPDX-License-Identifier: MIT
// How many leaves of a pass are unrolled, and where the row is between passes.
#include <algorithm>
#include <bit>

#include "cuda/plan/passes.h"

namespace ebb::cuda {
namespace {

bool has_place(const Program& p, const std::vector<char>& needed) {
  for (std::size_t v = 0; v < needed.size(); ++v) {
    if (needed[v] && p.instrs[v].kind == Instr::Kind::place) return true;
  }
  return false;
}

// A placed value changes one element of the row's results. If no sum depends on it, all elements are computed without
// it, and the thread that stored that element stores it again: looking for it everywhere costs three instructions per
// element.
bool is_placed_by_owner(const Program& p, const KernelPlan& plan, const PassPlan& pass) {
  if (plan.long_row || plan.shares_rows() || !plan.vectors || pass.outputs.empty()) return false;
  if (!has_place(p, pass.needed) || !pass.checks.empty()) return false;
  std::vector<char> added(p.instrs.size());
  for (const std::int32_t v : pass.reductions) need(p, plan, instr(p, v).arg[0], added);
  for (const std::int32_t v : pass.sums) need(p, plan, instr(p, v).arg[0], added);
  for (const KeptValue& k : pass.keeps) need(p, plan, k.value, added);
  return !has_place(p, added);
}

// Several leaves at a time where none can be missing, so that more of their loads are in flight: not more than fit
// registers and the instruction cache.
void unroll_elements(const Program& p, const GpuModel& model, const KernelPlan& plan, PassPlan& pass) {
  int bytes = 0, packs = 0;
  for (const Operand& o : p.operands) {
    if (o.kind != Operand::Kind::memory) continue;
    bytes += kLeaf * static_cast<int>(size_of(o.dtype));
    const bool wide = plan.width * static_cast<int>(size_of(o.dtype)) == 32;
    if (wide && plan.access(o.strides, o.dtype) == Access::pack) packs += 32;
  }
  pass.shares_loads = packs >= model.shared_load_bytes && pass.instructions <= model.shared_load_instructions;
  pass.unroll = model.unrolled_leaves;
  while (pass.unroll > 1 &&
         (pass.unroll * bytes > model.bytes_in_flight || pass.unroll * pass.instructions > model.unrolled_instructions))
    pass.unroll /= 2;
}

// As many rows at a time as have their loads in flight, and as many per thread as leave enough threads: operands that
// repeat in every row are loaded once for all of them.
void walk_rows(const Program& p, const GpuModel& model, KernelPlan& plan, const PassPlan& pass) {
  std::int64_t bytes = 0;
  for (const std::int32_t o : pass.ahead)
    bytes += plan.width * static_cast<std::int64_t>(size_of(p.operands[at(o)].dtype));
  const auto floor = [](std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, n))));
  };
  const std::int64_t rows = plan.rows.elements();
  std::int64_t leaves = (plan.columns.elements() + plan.width - 1) / plan.width;
  const bool narrow = plan.width <= 2 && leaves * rows >= 2 * model.walking_threads;
  const std::int64_t in_flight = floor(std::min(model.walking_bytes_in_flight / std::max<std::int64_t>(1, bytes),
                                                narrow ? model.walking_rows_of_few : model.walking_rows_in_flight));
  if (plan.tails && leaves >= model.packs_of_warps) leaves = (leaves + 31) / 32 * 32;
  plan.row_packs = leaves;
  plan.row_unroll = static_cast<int>(in_flight);
  const std::int64_t most = plan.width == kLeaf ? model.most_rows_of_eight : model.most_thread_rows;
  plan.thread_rows = std::clamp(floor(leaves * rows / model.walking_threads), in_flight, std::max(in_flight, most));
  // The threads of a block have neighbouring rows.
  plan.row_step =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>((kThreads + leaves - 1) / leaves)));
  const std::int64_t band = plan.row_step * plan.thread_rows;
  plan.strips = (rows + band - 1) / band * plan.row_step;
  plan.launch.min_blocks = model.blocks_of_walks;
  plan.launch.blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>((leaves * plan.strips + kThreads - 1) / kThreads, 1, model.most_blocks));
}

// Counts everything that is read: all leaves may be in flight at once.
std::int64_t chunks_read(const Program& p) {
  std::int64_t read = 0;
  for (const Operand& o : p.operands) {
    if (o.kind == Operand::Kind::memory && o.level == Level::full) read += chunks_of(o.dtype);
  }
  return read;
}

// Whether a thread's part of the row, or a first round of it, fits in registers next to its computation. Its shared
// memory is free as soon as the first pass is over, so that the next row is loaded during all others. Leaves without
// room in shared memory belong to that round, and come from memory (or the cache they were prefetched to) once.
bool may_hold(const Program& p, const GpuModel& model, const KernelPlan& plan) {
  if (holds_rows_of_group(model, plan)) return true;
  const std::int64_t slots = std::min<std::int64_t>(kLeaves, plan.slots);
  if (plan.skewed && plan.slots > kLeaves) return false;  // the next row is loaded after the last pass
  if (plan.slots - plan.staged_slots > slots || !plan.vectors || plan.long_row || plan.chunk_warps > 0) return false;
  const bool fits = plan.staged_chunks * slots <= model.most_held || holds_wide_row(p, model, plan);
  if (!fits || chunks_read(p) * slots > model.most_read) return false;
  return std::all_of(plan.passes.begin(), plan.passes.end(), [&](const PassPlan& pass) {
    return pass.found.empty() &&
           pass.instructions * kLeaf * static_cast<double>(slots) <= 2 * model.written_out_instructions;
  });
}

}  // namespace

bool holds_rows_of_group(const GpuModel& model, const KernelPlan& plan) {
  return plan.mapping == Mapping::row_groups && plan.chunk_warps == 0 && plan.vectors && !plan.staged.empty() &&
         plan.all_staged() && plan.slots <= kLeaves && plan.staged_chunks * plan.slots <= model.most_held_of_groups;
}

// Half of a thread's registers hold its part of the row: for rows that leave no room for another block, which would
// otherwise keep memory busy. Decided before values are kept, which it replaces: no pass has more instructions than all
// values together.
bool holds_wide_row(const Program& p, const GpuModel& model, const KernelPlan& plan) {
  const std::int64_t held = plan.staged_chunks * plan.slots;
  const bool by_row = plan.mapping == Mapping::lanes_per_row || plan.mapping == Mapping::block_per_row;
  auto instructions = static_cast<double>(p.outputs.size());
  for (std::size_t v = 0; v < p.instrs.size(); ++v) {
    if (p.instrs[v].level == Level::full || p.instrs[v].kind == Instr::Kind::reduce)
      instructions += instructions_of(p, static_cast<std::int32_t>(v), false);
  }
  if (instructions * static_cast<double>(kLeaf * plan.slots) > 2 * model.written_out_instructions) return false;
  return by_row && plan.staged.size() == 1 && plan.all_staged() && plan.vectors && plan.slots <= kLeaves &&
         held > model.most_held && held <= model.most_held_of_one && chunks_read(p) * plan.slots <= model.most_read &&
         plan.launch.bound_threads <= model.resident_threads / 2 &&
         2 * plan.row_bytes > model.limits.shared_of_multiprocessor;
}

void choose_unrolling(const Program& p, const GpuModel& model, KernelPlan& plan) {
  for (PassPlan& pass : plan.passes) {
    for (std::size_t v = 0; v < p.instrs.size(); ++v) {
      if (pass.needed[v]) pass.instructions += instructions_of(p, static_cast<std::int32_t>(v), plan.coarse[v] != 0);
    }
    pass.instructions += static_cast<double>(pass.reductions.size() + pass.sums.size() + pass.outputs.size());
    if (plan.mapping == Mapping::elements) {
      unroll_elements(p, model, plan, pass);
    } else if (plan.mapping == Mapping::down_rows) {
      walk_rows(p, model, plan, pass);
    } else if (plan.mapping == Mapping::columns) {
      const bool functions = std::any_of(p.instrs.begin(), p.instrs.end(), [](const Instr& i) {
        return i.level == Level::full && i.kind == Instr::Kind::compute && info(i.op).costly;
      });
      std::int64_t bytes = 1;  // of a row, per thread
      for (const Operand& o : p.operands) {
        if (o.kind == Operand::Kind::memory && o.level == Level::full && varies_by_row(p, o))
          bytes += plan.width * static_cast<std::int64_t>(size_of(o.dtype));
      }
      const auto rows =
          static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(model.column_bytes_in_flight / bytes) | 1));
      plan.row_unroll = std::clamp(rows, 1, functions ? model.rows_in_flight_of_functions : model.rows_in_flight);
      plan.launch.min_blocks = model.blocks_of_columns;
    } else {
      pass.unroll = unrolled_leaves(model, pass.instructions);
      pass.placed_by_owner = is_placed_by_owner(p, plan, pass);
    }
  }
}

void choose_residence(const Program& p, const GpuModel& model, KernelPlan& plan) {
  if (plan.staged.empty()) return;
  // Where one pass follows that of a softmax, rows of more than one round stay in shared memory: another wait for
  // registers would cost more.
  const bool stays = plan.slots > kLeaves && plan.first_pass >= 0 &&
                     !plan.passes[static_cast<std::size_t>(plan.first_pass)].softmax.empty();
  const std::int64_t rest = plan.slots - plan.staged_slots, rest_chunks = plan.staged_chunks * rest;
  plan.residence = Residence::shared;
  if (!stays && may_hold(p, model, plan)) {
    plan.residence = Residence::registers;
    plan.held_leaves = std::min<std::int64_t>(plan.slots, kLeaves);
    if (plan.first_pass >= 0) plan.passes[static_cast<std::size_t>(plan.first_pass)].takes_row = true;
    const int most = model.resident_threads / plan.launch.bound_threads;
    plan.launch.min_blocks = holds_wide_row(p, model, plan) ? most / 2 : std::min(plan.launch.min_blocks, most);
  } else if (stays && rest > 0 && plan.vectors && !plan.long_row && rest_chunks <= model.most_rest) {
    plan.residence = Residence::shared_and_registers;
    plan.held_leaves = (rest_chunks <= model.few_rest ? model.few_rest : model.most_rest) / plan.staged_chunks;
  }
  if (plan.first_round() && plan.slots > kLeaves) {
    for (PassPlan& pass : plan.passes) pass.unroll = std::min(pass.unroll, model.unrolled_beside_registers);
  }
}

}  // namespace ebb::cuda
