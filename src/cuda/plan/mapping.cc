// SPDX-License-Identifier: MIT
// How threads share elements, and which operands of a row are copied to shared memory.
#include <algorithm>
#include <bit>

#include "core/ceil_div.h"
#include "cuda/plan/passes.h"

namespace ebb::cuda {
namespace {

using Kind = Instr::Kind;

unsigned blocks_for(std::int64_t n, const GpuModel& model) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(n, 1, model.most_blocks));
}

bool has_kind(const Program& p, Kind kind) {
  return std::any_of(p.instrs.begin(), p.instrs.end(), [&](const Instr& i) { return i.kind == kind; });
}

Mapping mapping_of(const Program& p, bool full) {
  const bool by_row = has_kind(p, Kind::reduce) || has_kind(p, Kind::pick) || has_kind(p, Kind::place);
  if (has_kind(p, Kind::columns)) {
    const bool row_values =
        has_kind(p, Kind::total) || std::any_of(p.outputs.begin(), p.outputs.end(),
                                                [&](const Output& o) { return instr(p, o.value).level == Level::row; });
    const bool row_checks = std::any_of(p.instrs.begin(), p.instrs.end(), [](const Instr& i) {
      return i.kind == Kind::compute && i.op == Op::check && i.level == Level::row;
    });
    return by_row || row_values || row_checks ? Mapping::row_groups : Mapping::columns;
  }
  bool rows = by_row;
  if (full) {
    // A thread per element reaches every row only where rows have elements, and counts rows as often as they have.
    for (const Instr& i : p.instrs) rows |= i.kind == Kind::total && instr(p, i.arg[0]).level != Level::full;
    rows |= p.columns() == 0;
  }
  if (!rows) return Mapping::elements;
  return p.columns() <= kSegment ? Mapping::lanes_per_row : Mapping::block_per_row;
}

std::int64_t elements_before(const Program& p, int dimension) {
  std::int64_t n = 1;
  for (int d = 0; d < dimension; ++d) n *= p.dims[static_cast<std::size_t>(d)];
  return n;
}

// Whether threads may walk down the columns of a sweep of elements.
bool may_walk_down(const Program& p) {
  if (has_kind(p, Kind::total) || p.rows() * p.columns() == 0) return false;
  return std::none_of(p.outputs.begin(), p.outputs.end(), [&](const Output& o) {
    return instr(p, o.value).level == Level::row;  // stored once for all columns
  });
}

// The first dimension of the columns where operands repeat from row to row; 0: none. Among several such operands, the
// one with the shortest rows counts.
int columns_that_repeat(const Program& p, const GpuModel& model) {
  int from = 0;
  for (const Operand& o : p.operands) {
    if (o.kind != Operand::Kind::memory || o.level != Level::full) continue;
    int first = 0;
    const auto size = [&](int d) { return p.dims[static_cast<std::size_t>(d)]; };
    while (first < static_cast<int>(p.dims.size()) && (o.strides[first] == 0 || size(first) == 1)) ++first;
    if (first < static_cast<int>(p.dims.size())) from = std::max(from, first);
  }
  return elements_before(p, from) < model.fewest_walked_rows ? 0 : from;
}

// The first dimension of lines that do not follow each other in memory (rows with room behind them, slices) and that
// packs do not divide; 0: none. Among all elements they would be taken one by one; as columns they are taken in packs,
// the last of them shorter.
int columns_of_odd_lines(const Program& p, const GpuModel& model) {
  const Walk walk = make_walk(p, 0, static_cast<int>(p.dims.size()), "", "");
  if (walk.sizes.size() < 2 || walk.sizes.back() < model.odd_columns) return 0;
  bool wide = true, lines = true;
  const auto look = [&](DType dtype, const Strides& strides) {
    wide = wide && size_of(dtype) >= 4;
    const std::int64_t inner = strides[walk.last.back()];
    lines = lines && (inner == 0 || inner == 1);
  };
  for (const Operand& o : p.operands) {
    if (o.kind == Operand::Kind::memory) look(o.dtype, o.strides);
  }
  for (const Output& o : p.outputs) look(o.dtype, o.strides);
  if (!lines || walk.sizes.back() % (wide ? 4 : kLeaf) == 0) return 0;
  const int from = walk.last[walk.last.size() - 2] + 1;
  return elements_before(p, from) < model.fewest_walked_rows ? 0 : from;
}

// Words of a thread's registers for operands that repeat in every row.
std::int64_t repeated_words(const Program& p, const KernelPlan& plan) {
  std::int64_t words = 0;
  for (const Operand& o : p.operands) {
    if (o.kind != Operand::Kind::memory || o.level == Level::scalar || !plan.repeats(o.strides)) continue;
    if (strides_along(plan.columns, o.strides) != 0) words += plan.width * (size_of(o.dtype) > 4 ? 2 : 1);
  }
  return words;
}

// Operands of level full that a pass over the row reads after the first that does, or after the first pass at all.
std::vector<std::int32_t> read_later(const Program& p, bool than_the_first_pass) {
  std::vector<int> first(p.operands.size(), than_the_first_pass ? 0 : -1);
  std::vector<char> again(p.operands.size());
  std::vector<char> seen;
  // Marks the passes that need value v, recursively.
  const auto need = [&](auto&& self, std::int32_t v, int pass) -> void {
    if (v < 0 || instr(p, v).level != Level::full || seen[at(v)]) return;
    seen[at(v)] = 1;
    if (instr(p, v).kind == Kind::load) {
      int& f = first[at(instr(p, v).arg[0])];
      if (f < 0) f = pass;
      if (f != pass) again[at(instr(p, v).arg[0])] = 1;
      return;
    }
    for (const std::int32_t a : instr(p, v).arg) self(self, a, pass);
  };
  for (int stage = 0; stage < p.stages; ++stage) {
    seen.assign(p.instrs.size(), 0);
    for (const Instr& i : p.instrs) {
      const bool here = i.kind == Kind::reduce ? i.stage == stage
                                               : (i.kind == Kind::total || i.kind == Kind::columns) &&
                                                     std::max<int>(0, instr(p, i.arg[0]).stage) == stage;
      if (here) need(need, i.arg[0], stage);
    }
    for (const Output& o : p.outputs) {
      if (instr(p, o.value).stage == stage) need(need, o.value, stage);
    }
  }
  std::vector<std::int32_t> result;
  for (std::size_t o = 0; o < p.operands.size(); ++o) {
    if (again[o]) result.push_back(static_cast<std::int32_t>(o));
  }
  return result;
}

// A thread that takes single elements takes several, as far apart as a block is long, so that enough bytes are on their
// way: as many as leave short code.
int elements_together(const Program& p, const GpuModel& model) {
  std::int64_t bytes = 0, instructions = 1;
  for (const Operand& o : p.operands) {
    if (o.kind == Operand::Kind::memory && o.level != Level::scalar)
      bytes += static_cast<std::int64_t>(size_of(o.dtype));
  }
  for (const Instr& i : p.instrs) {
    if (i.level != Level::scalar && i.kind != Kind::load)
      instructions += i.kind == Kind::compute && info(i.op).costly ? 16 : 1;
  }
  const std::int64_t most = std::min(model.single_bytes_in_flight / std::max<std::int64_t>(1, bytes),
                                     model.single_instructions / instructions);
  return static_cast<int>(
      std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(most, 1, model.most_singles))));
}

std::int64_t element_bytes(RegType t) { return t == RegType::f32 ? 4 : 8; }

// Most bytes of sums of segments that are not in static shared memory: a pass may compute the reductions of two
// stages.
std::int64_t parts_behind_row(const Program& p, const GpuModel& model, const KernelPlan& plan) {
  std::vector<std::int64_t> count(static_cast<std::size_t>(p.stages) + 1);
  for (const Instr& i : p.instrs) {
    const bool of_row = i.kind == Kind::reduce || (i.kind == Kind::total && instr(p, i.arg[0]).level == Level::full);
    const int stage = i.kind == Kind::reduce ? i.stage : of_row ? std::max<int>(0, instr(p, i.arg[0]).stage) : 0;
    count[static_cast<std::size_t>(stage)] += of_row;
  }
  std::int64_t most = 0;
  for (std::size_t s = 0; s + 1 < count.size(); ++s) most = std::max(most, count[s] + count[s + 1]);
  const std::int64_t bytes = bytes_of_parts(most, plan.parts_room);
  return bytes > model.static_parts ? bytes : 0;
}

void stage_rows(const Program& p, const GpuModel& model, KernelPlan& plan) {
  const GpuLimits& limits = model.limits;
  std::int64_t slot_bytes = 0;
  // A warp that goes from row to row on its own would wait for operands first read by its last pass.
  for (const std::int32_t o : read_later(p, plan.chunk_warps > 0)) {
    const Operand& operand = p.operands[at(o)];
    if (operand.kind != Operand::Kind::memory || size_of(operand.dtype) < 2) continue;
    if (plan.access(operand.strides, operand.dtype) != Access::pack) continue;
    if (!varies_by_row(p, operand)) continue;  // all rows read the same: it stays in the caches
    plan.staged.push_back(o);
    slot_bytes += kLeaf * static_cast<std::int64_t>(size_of(operand.dtype)) * plan.launch.threads;
  }
  // With few warps none can continue while others wait: some operands are read again instead.
  const auto warps = [&] {
    const std::int64_t bytes = plan.slots * slot_bytes + model.shared_of_sums;
    return limits.shared_of_multiprocessor / bytes * (plan.launch.threads / 32);
  };
  while (plan.staged.size() > 1 && plan.mapping == Mapping::block_per_row && warps() < model.fewest_warps) {
    slot_bytes -=
        kLeaf * static_cast<std::int64_t>(size_of(p.operands[at(plan.staged.back())].dtype)) * plan.launch.threads;
    plan.staged.pop_back();
  }
  std::int64_t room = limits.shared - kSharedOfText - parts_behind_row(p, model, plan);
  if (plan.mapping == Mapping::row_groups) {
    for (const Instr& i : p.instrs) {
      if (i.kind == Kind::columns) plan.kept_bytes += plan.slots * kLeaf * element_bytes(i.type) * plan.launch.threads;
    }
    plan.kept_on_chip = plan.kept_bytes <= (limits.shared - kSharedOfText) / model.shared_of_kept_sums ||
                        plan.kept_bytes + plan.slots * slot_bytes <= room;
    if (plan.kept_on_chip) room -= plan.kept_bytes;
  }
  if (plan.staged.empty()) return;
  plan.staged_slots = std::clamp<std::int64_t>(room / slot_bytes, 0, plan.slots);
  if (model.leaves_that_fit * plan.staged_slots < plan.slots) {
    plan.staged_slots = 0;
    plan.staged.clear();
  }
  plan.row_bytes = plan.staged_slots * slot_bytes;
}

void divide_rows(const GpuModel& model, KernelPlan& plan, std::int64_t rows, std::int64_t most_groups) {
  const std::int64_t most = std::clamp(most_groups, model.fewest_groups, model.most_groups);
  plan.group_rows = std::max<std::int64_t>(1, ceil_div(ceil_div(rows, kChunkRows), most)) * kChunkRows;
  plan.groups = ceil_div(rows, plan.group_rows);
}

// Few columns: with a thread per column and group of neighbouring rows, a warp would read a few bytes here and a few
// there, and there would be few threads. So the threads of a block take neighbouring chunks of rows, each every
// row_step-th, and there are as many groups as that needs. Chunks are added as in any other sum of columns.
void share_rows(const GpuModel& model, KernelPlan& plan, std::int64_t rows, std::int64_t columns) {
  const std::int64_t leaves = ceil_div(columns, plan.width), chunks = ceil_div(rows, kChunkRows);
  plan.row_step = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(chunks, 1, ceil_div(kThreads, leaves)))));
  const std::int64_t most = std::max<std::int64_t>(1, model.narrow_column_threads / leaves / plan.row_step);
  const std::int64_t bands = std::clamp<std::int64_t>(ceil_div(chunks, plan.row_step), 1, most);
  plan.group_rows = std::max<std::int64_t>(1, ceil_div(chunks, bands * plan.row_step)) * kChunkRows;
  plan.groups = ceil_div(rows, plan.row_step * plan.group_rows) * plan.row_step;
}

// Blocks that loop over the rows of a group, on 128 multiprocessors.
std::int64_t groups_of_long_rows(const Program& p, const GpuModel& model) {
  std::int64_t bytes = 1;
  for (const Instr& i : p.instrs) {
    if (i.kind == Kind::columns) bytes += element_bytes(i.type) * p.columns();
  }
  for (const Operand& o : p.operands) {
    if (o.kind == Operand::Kind::memory && o.level == Level::full && varies_by_row(p, o))
      bytes += static_cast<std::int64_t>(size_of(o.dtype)) * p.columns();
  }
  return 128 * std::clamp<std::int64_t>(model.group_shared / bytes, 1, model.most_blocks_of_groups);
}

// Short rows with sums over rows: as many warps as a group has chunks of rows, up to eight.
void divide_group(const Program& p, const GpuModel& model, std::int64_t columns, KernelPlan& plan) {
  if (columns == 0 || columns > kSegment) return;
  const std::int64_t slots = ceil_div(columns, 32 * kLeaf);
  std::int64_t words = 0;
  for (const Instr& i : p.instrs) {
    if (i.kind == Kind::columns) words += slots * kLeaf * element_bytes(i.type) / 4;
  }
  if (words > model.most_sum_words) return;
  divide_rows(model, plan, p.rows(), model.group_blocks);
  plan.chunk_warps = static_cast<int>(std::min(model.chunk_warps, plan.group_rows / kChunkRows));
  plan.slots = slots;
  plan.launch.bound_threads = 32 * plan.chunk_warps;
  plan.launch.threads = static_cast<unsigned>(plan.launch.bound_threads);
  plan.launch.min_blocks = model.warps_of_sums / plan.chunk_warps;
}

// As many warps as divide a row's segments most evenly.
void divide_row(const GpuModel& model, KernelPlan& plan, std::int64_t columns, std::int64_t most_warps) {
  const std::int64_t rounds = std::max<std::int64_t>(1, ceil_div(plan.segments, most_warps));
  const std::int64_t warps = std::max<std::int64_t>(1, ceil_div(plan.segments, rounds));
  plan.launch.threads = static_cast<unsigned>(32 * warps);
  plan.slots = plan.segments == 1 ? ceil_div(columns, 32 * kLeaf)
               : plan.long_row    ? kLeaves * ceil_div(plan.segments, kGroup) * ceil_div(kGroup, warps)
                                  : kLeaves * rounds;
  plan.launch.bound_threads = warps <= 8 ? 256 : warps <= 16 ? 512 : 1024;
  plan.launch.min_blocks = model.resident_threads / plan.launch.bound_threads;
}

// Register bound for as many blocks as have room: those of a group's rows are small.
void bound_groups(const GpuModel& model, KernelPlan& plan) {
  if (plan.mapping != Mapping::row_groups) return;
  const std::int64_t shared = plan.row_bytes + (plan.kept_on_chip ? plan.kept_bytes : 0) + model.shared_of_sums;
  plan.launch.bound_threads = static_cast<int>(std::bit_ceil(plan.launch.threads));
  plan.launch.min_blocks =
      static_cast<int>(std::clamp<std::int64_t>(model.limits.shared_of_multiprocessor / shared, 1,
                                                std::max(1, model.resident_threads / plan.launch.bound_threads)));
}

// Rows of an odd length begin at any address. Loaded by single elements, a cross-entropy of 32,001 classes reached 19 %
// of copy bandwidth, and loaded into registers and shifted 44 %.
void choose_skew(const Program& p, const GpuModel& model, KernelPlan& plan) {
  if (plan.staged.empty() || !plan.all_staged() || !plan.vectors || plan.long_row || plan.lanes < 32) return;
  if (plan.columns.sizes.size() > 1) return;
  const bool aligned = std::all_of(plan.staged.begin(), plan.staged.end(), [&](std::int32_t o) {
    const Operand& operand = p.operands[at(o)];
    return plan.alignment == Alignment::sixteen && plan.may_align(operand.strides, operand.dtype);
  });
  const std::int64_t rounds = ceil_div(plan.slots, kLeaves), warps = plan.launch.threads / 32;
  const std::int64_t more = 16 * rounds * warps * static_cast<std::int64_t>(plan.staged.size());
  const std::int64_t kept = plan.kept_on_chip ? plan.kept_bytes : 0;
  if (aligned || plan.row_bytes + more + kept + parts_behind_row(p, model, plan) > model.limits.shared - kSharedOfText)
    return;
  plan.skewed = true;
  plan.row_bytes += more;
}

}  // namespace

bool KernelPlan::repeats(const Strides& strides) const {
  return std::all_of(rows.last.begin(), rows.last.end(), [&](int d) { return strides[d] == 0; });
}

Access KernelPlan::access(const Strides& strides, DType dtype) const {
  if (!vectors) return Access::each;
  const std::int64_t inner = strides_along(line(), strides);
  if (inner == 0) return Access::one;
  return inner == 1 && static_cast<std::size_t>(width) * size_of(dtype) >= 4 ? Access::pack : Access::each;
}

bool KernelPlan::may_align(const Strides& strides, DType dtype) const {
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t step = std::min<std::int64_t>(16, width * bytes);
  for (const Walk* w : {&elements, &rows, &columns}) {
    if (mapping == Mapping::elements && w == &columns) continue;
    for (std::size_t d = 0; d < w->sizes.size(); ++d) {
      if (w == &line() && d + 1 == w->sizes.size()) continue;
      if (strides[w->last[d]] * bytes % step != 0) return false;
    }
  }
  return true;
}

void choose_mapping(const Program& p, const GpuModel& model, KernelPlan& plan) {
  const int dims = static_cast<int>(p.dims.size()), row_dims = dims - p.row_dims;
  const std::int64_t rows = p.rows(), columns = p.columns();
  plan.full = std::any_of(p.instrs.begin(), p.instrs.end(), [](const Instr& i) { return i.level == Level::full; });
  plan.mapping = mapping_of(p, plan.full);
  int walked_from = 0;
  if (plan.mapping == Mapping::elements && plan.full && may_walk_down(p)) {
    walked_from = columns_that_repeat(p, model);
    if (walked_from == 0) walked_from = columns_of_odd_lines(p, model);
  }
  if (walked_from > 0) plan.mapping = Mapping::down_rows;
  const int columns_from = walked_from > 0 ? walked_from : row_dims;
  if (plan.mapping == Mapping::elements) {
    plan.elements = make_walk(p, 0, plan.full ? dims : row_dims, "e", "e");
  } else {
    plan.rows = make_walk(p, 0, columns_from, "row", "r");
  }
  plan.columns = make_walk(p, columns_from, dims, "col", "c");

  const bool totals = has_kind(p, Kind::total);
  const std::int64_t n = plan.mapping == Mapping::elements ? plan.elements.elements() : plan.columns.elements();
  // Sums need leaves; everything else takes 16 bytes at once.
  const bool free_width = plan.mapping == Mapping::columns || (plan.without_rows() && !totals);
  if (free_width) {
    // Many arrays of four bytes per element, as in an optimiser, take too many registers otherwise.
    std::size_t wide = 0, narrow = 0;
    const auto count = [&](DType d) { ++(size_of(d) >= 4 ? wide : narrow); };
    // One number per column or row is in the caches, and does not count.
    const auto repeats = [&](const Operand& o) {
      std::int64_t size = 1;
      for (int d = 0; d < dims; ++d) size *= o.strides[d] != 0 ? p.dims[static_cast<std::size_t>(d)] : 1;
      return model.worth_counting * size < rows * columns;
    };
    for (const Operand& o : p.operands) {
      if (o.kind == Operand::Kind::memory && !repeats(o)) count(o.dtype);
    }
    for (const Output& o : p.outputs) count(o.dtype);
    if (narrow == 0 || (plan.without_rows() && wide >= model.many_wide_arrays)) plan.width = 4;
    if (plan.mapping == Mapping::down_rows) {
      if (repeated_words(p, plan) > model.most_repeated_words) plan.width = 4;
      // Short rows are taken in packs that end with them.
      while (plan.width > 1 && n < model.odd_columns && n % plan.width != 0) plan.width /= 2;
    }
    // So do sums of columns, each in f64 next to the open one of a chunk; and few columns would be too few threads.
    const auto sums =
        std::count_if(p.instrs.begin(), p.instrs.end(), [](const Instr& i) { return i.kind == Kind::columns; });
    const bool few = model.most_groups * ceil_div(columns, plan.width) < model.column_threads;
    if (plan.mapping == Mapping::columns && (sums >= model.many_column_sums || few)) plan.width = 4;
    while (plan.mapping == Mapping::columns && plan.width > 1 && columns < model.odd_columns &&
           columns % plan.width != 0)
      plan.width /= 2;
  }
  const std::vector<std::int64_t>& sizes = plan.line().sizes;
  plan.vectors = sizes.size() < 2 || sizes.back() % plan.width == 0;
  if (!plan.vectors && free_width) {
    plan.width = 1;
    plan.vectors = true;
  }
  plan.tails = n % plan.width != 0;
  plan.small = n < (std::int64_t{1} << 31) - 2 * kSegment;

  if (plan.mapping == Mapping::down_rows) return;
  if (plan.mapping == Mapping::elements) {
    // A block has a chunk: segments l, l + 32, ... l + 224 of a group, for one l.
    plan.segments = ceil_div(n, kSegment);
    const std::int64_t rest = plan.segments % kGroup;
    plan.parts = plan.segments / kGroup * (kGroup / kChunk) + (rest <= 32 ? rest : ceil_div(rest, 32 * kChunk) * 32);
    if (!totals && plan.width == 1) plan.together = elements_together(p, model);
    plan.launch.blocks =
        blocks_for(totals ? plan.parts : ceil_div(n, kThreads * plan.width * std::int64_t{plan.together}), model);
    return;
  }
  plan.parts = rows;
  plan.segments = ceil_div(columns, kSegment);
  if (plan.mapping == Mapping::columns && columns > 0 && columns < model.odd_columns) {
    share_rows(model, plan, rows, columns);
  } else if (plan.mapping == Mapping::row_groups || plan.mapping == Mapping::columns) {
    divide_rows(model, plan, rows,
                plan.mapping == Mapping::columns
                    ? model.column_threads / std::max<std::int64_t>(1, ceil_div(columns, plan.width))
                    : groups_of_long_rows(p, model));
  }
  if (plan.mapping == Mapping::columns) {
    plan.launch.blocks = blocks_for(ceil_div(ceil_div(columns, plan.width) * plan.groups, kThreads), model);
    return;
  }
  if (plan.mapping == Mapping::lanes_per_row) {
    const auto leaves = static_cast<unsigned>(ceil_div(columns, kLeaf));
    plan.lanes = leaves <= 1 ? 1 : static_cast<int>(std::min(32u, std::bit_ceil(leaves)));
    plan.slots = plan.lanes < 32 ? 1 : ceil_div(columns, 32 * kLeaf);
    stage_rows(p, model, plan);
    plan.launch.blocks = blocks_for(ceil_div(rows, kThreads / plan.lanes), model);
  } else if (plan.mapping == Mapping::row_groups && (divide_group(p, model, columns, plan), plan.chunk_warps > 0)) {
    stage_rows(p, model, plan);
    plan.launch.blocks = blocks_for(plan.groups, model);
  } else if (plan.shares_rows()) {
    plan.slots = 2 * kLeaves;
    plan.launch.min_blocks = model.resident_threads / kThreads;
    plan.launch.blocks = static_cast<unsigned>(rows * plan.row_blocks);
    return;
  } else {
    plan.long_row = plan.segments > kGroup;
    plan.parts_room = plan.segments > 128 ? kGroup : plan.segments > 8 ? 128 : 8;
    divide_row(model, plan, columns,
               plan.segments <= model.segments_of_few_warps ? model.warps_of_row : model.warps_of_long_row);
    KernelPlan staged = plan;
    stage_rows(p, model, staged);
    if (2 * staged.row_bytes >
        model.limits.shared_of_multiprocessor) {  // a single block per multiprocessor has all its warps
      divide_row(model, plan, columns, model.warps_of_long_row);
      staged = plan;
      stage_rows(p, model, staged);
    }
    plan = staged;
    bound_groups(model, plan);
    plan.launch.blocks = plan.mapping == Mapping::row_groups
                             ? blocks_for(plan.groups, model)
                             : static_cast<unsigned>(std::clamp<std::int64_t>(rows, 1, model.most_blocks_of_rows));
  }
  choose_skew(p, model, plan);
  // Rows of three blocks that fit on a multiprocessor together overlap better than those of two.
  const std::int64_t shared = plan.row_bytes + (plan.kept_on_chip ? plan.kept_bytes : 0) + kSharedOfText;
  const int three = model.overlapping_blocks;
  if (!plan.staged.empty() && plan.launch.bound_threads == 512 &&
      three * shared <= model.limits.shared_of_multiprocessor)
    plan.launch.min_blocks = three;
  for (const std::int32_t o : plan.staged) plan.staged_chunks += chunks_of(p.operands[at(o)].dtype);
}

}  // namespace ebb::cuda
