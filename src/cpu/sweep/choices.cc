// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/model/cpu_model.h"
#include "cpu/sweep/code.h"

// Choices that follow from a sweep's program and shape alone.
namespace ebb::cpu {
namespace {

constexpr std::int64_t kRowsOfAVector = 16;

// Worth keeping for a later stage rather than computing again.
bool expensive(const Instr& i) { return i.kind == Instr::Kind::compute && info(i.op).costly; }

}  // namespace

// The operands of a cheap value are needed as late as the value itself.
std::vector<std::int32_t> give_scratch(CompiledSweep& sweep) {
  const Program& p = sweep.program;
  std::vector<std::int32_t> scratch(p.instrs.size(), -1);
  if (!sweep.long_rows) return scratch;
  std::vector<int> needed(p.instrs.size(), -1);
  for (std::size_t v = p.instrs.size(); v-- > 0;) {
    const Instr& i = p.instrs[v];
    if (i.stage == p.stages) continue;
    int latest = std::max<int>(needed[v], i.stage);
    if (i.level == Level::full && latest > i.stage && expensive(i)) {
      scratch[v] = static_cast<std::int32_t>(sweep.scratch_bytes.size());
      sweep.scratch_bytes.push_back(size_of(i.type));
      latest = i.stage;
    }
    if (i.level != Level::full) latest = i.stage;
    if (i.kind == Instr::Kind::load) continue;
    for (std::int32_t a : i.arg) {
      if (a >= 0) needed[a] = std::max(needed[a], latest);
    }
  }
  return scratch;
}

std::vector<char> find_summed_products(const Program& p, const TileKernels& kernels) {
  std::vector<int> uses(p.instrs.size(), 0);
  for (const Instr& i : p.instrs) {
    if (i.kind == Instr::Kind::load) continue;
    for (std::int32_t a : i.arg) {
      if (a >= 0) ++uses[a];
    }
  }
  for (const Output& o : p.outputs) uses[o.value] += 2;
  std::vector<char> found(p.instrs.size(), 0);
  for (const Instr& i : p.instrs) {
    const bool reduces = i.kind == Instr::Kind::reduce || i.kind == Instr::Kind::total;
    if (!reduces || i.op != Op::sum || !kernels.dot(i.type)) continue;
    const Instr& x = p.instrs[i.arg[0]];
    if (x.level != Level::full || x.kind != Instr::Kind::compute || uses[i.arg[0]] != 1 || x.stage != i.stage) continue;
    auto full = [&](std::int32_t v) { return p.instrs[v].level == Level::full; };
    if (x.op == Op::square || (x.op == Op::mul && full(x.arg[0]) && full(x.arg[1]))) found[i.arg[0]] = 1;
  }
  return found;
}

// Where most memory of the sweep has rows as neighbours. What asks for positions in the order of the space (checks,
// sums of columns) keeps tiles as they are.
std::int64_t upright_rows(const Program& p) {
  const std::int64_t rows = p.rows(), columns = p.columns();
  const CpuModel& model = cpu_model();
  if (p.row_dims == 0 || columns < 2 || columns > kTile || rows < model.sweep_upright_least_rows) return 0;
  bool totals = false;
  for (const Instr& i : p.instrs) {
    if (i.kind == Instr::Kind::columns) return 0;
    if (i.kind == Instr::Kind::compute && i.op == Op::check && i.level == Level::full) return 0;
    totals = totals || i.kind == Instr::Kind::total;
  }
  const std::size_t n = p.dims.size(), r = n - static_cast<std::size_t>(p.row_dims);
  int upright = 0, lying = 0;
  const auto look = [&](const Strides& strides) {
    const Layout row = layout_of(p.dims, 0, r, strides), column = layout_of(p.dims, r, n, strides);
    if (row.rank > 0 && row.strides[row.rank - 1] == 1 && row.sizes[row.rank - 1] >= model.sweep_upright_least_rows)
      ++upright;
    if (column.rank > 0 && column.strides[column.rank - 1] == 1) ++lying;
  };
  for (const Instr& i : p.instrs) {
    if (i.kind != Instr::Kind::load || i.level != Level::full) continue;
    const Operand& o = p.operands[i.arg[0]];
    if (o.kind == Operand::Kind::memory) look(o.strides);
  }
  for (const Output& o : p.outputs) {
    if (p.instrs[o.value].level == Level::full) look(o.strides);
  }
  if (upright <= lying) return 0;
  const std::int64_t together = rows_per_block(rows, columns);
  const std::int64_t wanted = std::clamp<std::int64_t>(
      model.sweep_upright_tile / columns / kRowsOfAVector * kRowsOfAVector, kRowsOfAVector, kTile);
  if (!totals) return std::min(wanted, rows);
  // Parts of a total are whole tiles.
  const std::int64_t blocks = rows_per_part(rows, columns) / together;
  std::int64_t most = 1;
  for (std::int64_t k = 1; k <= blocks && k * together <= std::max(wanted, together); ++k) {
    if (blocks % k == 0) most = k;
  }
  return most * together >= 2 ? most * together : 0;
}

void divide_into_tasks(CompiledSweep& s) {
  if (s.flat) {
    s.tiles = (s.elements + s.tile - 1) / s.tile;
  } else {
    s.tiles = s.long_rows ? s.rows : (s.rows + s.rows_per_tile - 1) / s.rows_per_tile;
  }
  if (!s.column_reduces.empty() || (!s.flat && !s.totals.empty())) {
    // A task is a part of the sum, which must not depend on what else is in the sweep.
    s.tiles_per_task = rows_per_part(s.rows, s.columns) / s.rows_per_tile;
  } else {
    std::int64_t cost = 1;  // of an element, in quarter nanoseconds or so
    for (const Instr& i : s.program.instrs) cost += i.level != Level::full ? 0 : expensive(i) ? 6 : 1;
    const CpuModel& model = cpu_model();
    const std::int64_t elements_per_tile = std::max<std::int64_t>(1, s.long_rows ? s.columns : s.tile);
    s.tiles_per_task = std::max<std::int64_t>(1, model.sweep_task_cost / (cost * elements_per_tile));
    s.tiles_per_task = std::max(s.tiles_per_task, (s.tiles + model.sweep_most_tasks - 1) / model.sweep_most_tasks);
  }
  // Rows without columns are work only where each has a number of its own.
  const auto of_rows = [&](const Output& o) { return s.program.instrs[o.value].level == Level::row; };
  const bool rows_count = std::any_of(s.program.outputs.begin(), s.program.outputs.end(), of_rows) ||
                          std::any_of(s.totals.begin(), s.totals.end(), [](const Total& t) { return t.of_rows; });
  if (s.elements == 0 && !rows_count) s.tiles = 0;
  s.tasks = s.tiles == 0 ? 0 : (s.tiles + s.tiles_per_task - 1) / s.tiles_per_task;
}

}  // namespace ebb::cpu
