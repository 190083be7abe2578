// SPDX-License-Identifier: MIT
// The work of each pass over the elements or over a row, and the options for doing it.
#include "cuda/plan/passes.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "core/format_error.h"

namespace ebb::cuda {

bool varies_by_row(const Program& p, const Operand& operand) {
  for (int d = 0; d < static_cast<int>(p.dims.size()) - p.row_dims; ++d) {
    if (operand.strides[d] != 0 && p.dims[static_cast<std::size_t>(d)] > 1) return true;
  }
  return false;
}

namespace {

using Kind = Instr::Kind;

std::int32_t count(const Program& p) { return static_cast<std::int32_t>(p.instrs.size()); }

PassPlan pass_of_elements(const Program& p, const KernelPlan& plan) {
  PassPlan pass;
  pass.needed.resize(p.instrs.size());
  for (std::int32_t v = 0; v < count(p); ++v) {
    const Instr& i = instr(p, v);
    if (i.level == Level::scalar || in_epilogue(p, i)) continue;
    pass.needed[at(v)] = 1;
    if (is_check(i)) pass.checks.push_back(v);
  }
  for (std::size_t o = 0; o < p.outputs.size(); ++o) {
    const Instr& i = instr(p, p.outputs[o].value);
    if (!in_epilogue(p, i) && i.level != Level::scalar) pass.outputs.push_back(o);
  }
  pass.reductions = plan.totals;
  for (std::size_t o = 0; o < p.operands.size() && plan.together > 1; ++o) {
    const Operand& operand = p.operands[o];
    if (operand.kind == Operand::Kind::memory && operand.level != Level::scalar)
      pass.ahead.push_back(static_cast<std::int32_t>(o));
  }
  if (plan.mapping != Mapping::down_rows || !plan.vectors) return pass;
  for (std::size_t o = 0; o < p.operands.size(); ++o) {
    const Operand& operand = p.operands[o];
    if (operand.kind != Operand::Kind::memory || operand.level == Level::scalar) continue;
    const auto number = static_cast<std::int32_t>(o);
    if (plan.repeats(operand.strides)) {
      pass.of_columns.push_back(number);
    } else if (plan.access(operand.strides, operand.dtype) != Access::one) {
      pass.ahead.push_back(number);
    }
  }
  return pass;
}

PassPlan pass_of_columns(const Program& p, const KernelPlan& plan) {
  PassPlan pass;
  pass.needed.resize(p.instrs.size());
  for (std::int32_t v = 0; v < count(p); ++v) {
    if (instr(p, v).level == Level::full && is_check(instr(p, v))) pass.checks.push_back(v);
  }
  pass.sums = plan.column_sums;
  for (std::size_t o = 0; o < p.outputs.size(); ++o) {
    if (instr(p, p.outputs[o].value).level == Level::full) pass.outputs.push_back(o);
  }
  for (const std::int32_t v : roots_of(p, pass)) need(p, plan, v, pass.needed);
  for (std::int32_t v = 0; v < count(p) && plan.vectors; ++v) {
    const Instr& i = instr(p, v);
    if (!pass.needed[static_cast<std::size_t>(v)] || i.kind != Kind::load || i.level != Level::full) continue;
    const Operand& o = p.operands[static_cast<std::size_t>(i.arg[0])];
    bool same = o.kind == Operand::Kind::memory;  // also if there is at most one row: its address names no row
    for (int d = 0; d < static_cast<int>(p.dims.size()) - p.row_dims; ++d) same = same && o.strides[d] == 0;
    if (same) pass.of_columns.push_back(i.arg[0]);
  }
  return pass;
}

PassPlan pass_of_stage(const Program& p, const KernelPlan& plan, int stage) {
  PassPlan pass;
  pass.needed.resize(p.instrs.size());
  const auto belongs = [&](std::int32_t v) { return instr(p, v).level == Level::full && instr(p, v).stage == stage; };
  for (std::int32_t v = 0; v < count(p); ++v) {
    const Instr& i = instr(p, v);
    if (i.kind == Kind::reduce && i.stage == stage) pass.reductions.push_back(v);
    if (i.kind == Kind::total && belongs(i.arg[0])) pass.reductions.push_back(v);
    if (i.kind == Kind::columns && std::max<int>(0, instr(p, i.arg[0]).stage) == stage) pass.sums.push_back(v);
    if (is_check(i) && belongs(v)) pass.checks.push_back(v);
  }
  for (std::size_t o = 0; o < p.outputs.size(); ++o) {
    if (belongs(p.outputs[o].value)) pass.outputs.push_back(o);
  }
  for (const std::int32_t v : roots_of(p, pass)) need(p, plan, v, pass.needed);
  return pass;
}

// The operand of halves whose maximum v is, if its neighbours come unconverted: halves compare in pairs.
// -1: v is something else.
std::int32_t halves_of_maximum(const Program& p, const KernelPlan& plan, std::int32_t v) {
  if (instr(p, v).kind != Kind::reduce || instr(p, v).op != Op::max || !plan.vectors) return -1;
  std::int32_t from = instr(p, v).arg[0];
  while (instr(p, from).kind == Kind::compute && instr(p, from).op == Op::copy) from = instr(p, from).arg[0];
  if (instr(p, from).kind != Kind::load) return -1;
  const std::int32_t operand = instr(p, from).arg[0];
  const Operand& o = p.operands[at(operand)];
  const bool pairs = o.kind == Operand::Kind::memory && is_half(o.dtype) && instr(p, v).type == RegType::f32 &&
                     plan.access(o.strides, o.dtype) == Access::pack;
  return pairs ? operand : -1;
}

bool has_softmax(const KernelPlan& plan) {
  return std::any_of(plan.passes.begin(), plan.passes.end(),
                     [](const PassPlan& pass) { return !pass.softmax.empty(); });
}

}  // namespace

std::int64_t KernelPlan::parts_before(int stage) const {
  std::int64_t count = 0;
  for (int s = 0; s < stage; ++s)
    count += static_cast<std::int64_t>(passes[static_cast<std::size_t>(s)].reductions.size());
  return count;
}

// Elements that one thread reads for another (of a pick or a place) may have been overwritten by another block.
std::int64_t blocks_of_row(const Program& p, const GpuModel& model, const KernelPlan& usual) {
  if (usual.mapping != Mapping::block_per_row || usual.first_pass < 0 || p.rows() == 0 ||
      p.rows() > model.most_shared_rows || usual.segments < model.shared_segments)
    return 1;
  // A picked element is read by all blocks before any stores results, which may replace it.
  const bool stores_at_once = !usual.passes[static_cast<std::size_t>(usual.first_pass)].outputs.empty();
  for (const Instr& i : p.instrs) {
    if (i.kind == Kind::pick && (i.stage > 0 || stores_at_once)) return 1;
  }
  for (const PassPlan& pass : usual.passes) {
    for (const SoftmaxSum& e : pass.softmax) {
      if (e.place >= 0) return 1;
    }
  }
  return std::min(ceil_div(model.blocks_of_shared_rows, p.rows()), ceil_div(usual.segments, kThreads / 32));
}

bool in_epilogue(const Program& p, const Instr& i) {
  return i.stage >= p.stages || i.kind == Kind::total || i.kind == Kind::columns || i.level == Level::column;
}

bool is_found(const std::vector<KeptValue>& values, std::int32_t v) {
  return std::any_of(values.begin(), values.end(), [&](const KeptValue& k) { return k.value == v; });
}

void need(const Program& p, const KernelPlan& plan, std::int32_t v, std::vector<char>& needed,
          const std::vector<KeptValue>& found) {
  if (v < 0 || needed[at(v)]) return;
  const Instr& i = instr(p, v);
  if (i.level == Level::scalar || in_epilogue(p, i)) return;
  if (!plan.without_rows() && i.level != Level::full) return;
  needed[at(v)] = 1;
  if (i.kind == Kind::load || is_found(found, v)) return;
  for (const std::int32_t a : i.arg) need(p, plan, a, needed, found);
}

std::vector<std::int32_t> roots_of(const Program& p, const PassPlan& pass) {
  std::vector<std::int32_t> roots;
  for (const std::int32_t v : pass.reductions) roots.push_back(instr(p, v).arg[0]);
  for (const std::int32_t v : pass.sums) roots.push_back(instr(p, v).arg[0]);
  for (const std::int32_t v : pass.checks) roots.insert(roots.end(), {v, instr(p, v).arg[1]});
  for (const std::size_t o : pass.outputs) roots.push_back(p.outputs[o].value);
  return roots;
}

void choose_passes(const Program& p, const GpuModel&, KernelPlan& plan) {
  for (std::int32_t v = 0; v < count(p); ++v) {
    const Instr& i = instr(p, v);
    if (is_check(i) || i.kind == Kind::pick || i.kind == Kind::place) plan.checks.push_back(v);
    if (i.kind == Kind::total) plan.totals.push_back(v);
    if (i.kind == Kind::columns) plan.column_sums.push_back(v);
    plan.finishes |= in_epilogue(p, i);
    plan.finish.columns |= i.level == Level::column;
  }
  const bool of_columns_alone = std::all_of(
      p.instrs.begin(), p.instrs.end(), [&](const Instr& i) { return !in_epilogue(p, i) || i.level == Level::column; });
  plan.whole_columns = plan.mapping == Mapping::columns && plan.groups == 1 && of_columns_alone;
  plan.finishes &= !plan.whole_columns;
  if (plan.without_rows()) {
    plan.passes.push_back(pass_of_elements(p, plan));
  } else if (plan.mapping == Mapping::columns) {
    plan.passes.push_back(pass_of_columns(p, plan));
  } else {
    for (int stage = 0; stage < p.stages; ++stage) plan.passes.push_back(pass_of_stage(p, plan, stage));
  }
  for (std::size_t k = 0; k < plan.passes.size(); ++k) {
    PassPlan& pass = plan.passes[k];
    for (const std::int32_t v : pass.reductions) pass.half_maxima.push_back(halves_of_maximum(p, plan, v));
    pass.checks_at_once = !pass.checks.empty() && std::any_of(p.outputs.begin(), p.outputs.end(), [&](const Output& o) {
      return instr(p, o.value).level == Level::full && instr(p, o.value).stage < instr(p, pass.checks[0]).stage;
    });
    if (pass.empty()) continue;
    plan.launch.launches += plan.shares_rows() && plan.first_pass >= 0;
    if (plan.first_pass < 0) plan.first_pass = static_cast<int>(k);
    plan.last_pass = static_cast<int>(k);
  }
  if (!plan.shares_rows()) return;
  plan.ends_rows = !plan.totals.empty() || std::any_of(p.outputs.begin(), p.outputs.end(), [&](const Output& o) {
    return instr(p, o.value).level == Level::row && !in_epilogue(p, instr(p, o.value));
  });
  plan.launch.launches += plan.ends_rows;
}

// Values read only by roundings to halves are computed to 2^-15 by quick functions. A divisor shared by all elements of
// a sweep or a row also has its reciprocal in f64; quotients are then products that are rounded once.
void choose_precision(const Program& p, const GpuModel&, KernelPlan& plan) {
  const std::size_t n = p.instrs.size();
  const bool all_halves =
      std::any_of(p.outputs.begin(), p.outputs.end(), [](const Output& o) { return is_half(o.dtype); }) &&
      std::all_of(p.outputs.begin(), p.outputs.end(),
                  [](const Output& o) { return is_half(o.dtype) || !is_floating(o.dtype); });
  plan.coarse.assign(n, 1);
  if (!all_halves) {
    for (const Output& o : p.outputs) plan.coarse[at(o.value)] &= is_half(o.dtype);
    for (std::int32_t v = count(p); v-- > 0;) {
      const Instr& i = instr(p, v);
      if (is_check(i)) plan.coarse[at(v)] = 0;
      if (plan.coarse[at(v)] || i.kind == Kind::load || (i.kind == Kind::round && is_half(i.dtype))) continue;
      for (const std::int32_t u : i.arg) {
        if (u >= 0) plan.coarse[at(u)] = 0;
      }
    }
  }
  plan.by_reciprocal.resize(n);
  plan.divides.resize(n);
  plan.is_exponent.resize(n);
  plan.only_added.resize(n);
  for (std::int32_t v = 0; v < count(p); ++v) {
    const Instr& i = instr(p, v);
    const Level level = i.kind != Kind::load && i.arg[1] >= 0 ? instr(p, i.arg[1]).level : Level::full;
    if (is_power(i) && level == Level::scalar) plan.is_exponent[at(i.arg[1])] = 1;
    if (i.kind == Kind::compute && i.op == Op::div && i.type == RegType::f32 && i.level == Level::full &&
        !plan.coarse[at(v)] && !in_epilogue(p, i) &&
        (level == Level::scalar || (level == Level::row && !plan.without_rows())))
      plan.by_reciprocal[at(v)] = plan.divides[at(i.arg[1])] = 1;
    // Only a summand: -0 does as well as 0, and the compiler can leave it out.
    if (i.kind != Kind::place || i.type != RegType::f32) continue;
    plan.only_added[at(v)] =
        std::none_of(p.outputs.begin(), p.outputs.end(), [&](const Output& o) { return o.value == v; }) &&
        std::all_of(p.instrs.begin(), p.instrs.end(), [&](const Instr& user) {
          if (user.kind == Kind::load || std::find(user.arg.begin(), user.arg.end(), v) == user.arg.end()) return true;
          return user.kind == Kind::compute && user.op == Op::add && user.arg[0] != user.arg[1];
        });
  }
}

KernelPlan plan_kernel(const Program& program, const GpuModel& model, Alignment alignment) {
  const auto complete = [&](KernelPlan plan) {
    plan.alignment = alignment;
    for (const auto choose : {choose_mapping, choose_passes, choose_precision, choose_kept, choose_softmax,
                              choose_unrolling, choose_residence, choose_forms, choose_rare_arms, choose_launch})
      choose(program, model, plan);
    return plan;
  };
  KernelPlan usual = complete({});
  const std::int64_t row_blocks = blocks_of_row(program, model, usual);
  if (row_blocks == 1) return usual;
  KernelPlan shared;
  shared.row_blocks = row_blocks;
  shared.shares_softmax = has_softmax(usual);
  return complete(std::move(shared));
}

}  // namespace ebb::cuda
