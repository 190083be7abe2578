// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdlib>

#include "cpu/model/cpu_model.h"
#include "cpu/sweep/code.h"

// Choices that follow from a sweep's program and shape alone.
namespace ebb::cpu {
namespace {

// Rows that are neighbours in memory, for most of what the sweep accesses: those of the last row dimensions that step
// by less than any column does. 1: columns are neighbours, or nothing is.
std::int64_t rows_beside(const Program& p) {
  const std::size_t n = p.dims.size(), r = n - static_cast<std::size_t>(p.row_dims);
  std::int64_t found = 1;
  int for_rows = 0, for_columns = 0;
  const auto look = [&](const Strides& strides) {
    std::int64_t least = 0;  // step of a column
    for (std::size_t d = r; d < n; ++d) {
      const std::int64_t step = std::abs(strides[static_cast<int>(d)]);
      if (p.dims[d] > 1 && step > 0) least = least == 0 ? step : std::min(least, step);
    }
    std::int64_t beside = 1;
    for (std::size_t d = r; d-- > 0;) {
      if (p.dims[d] > 1 && strides[static_cast<int>(d)] != beside) break;
      beside *= p.dims[d];
    }
    if (least == 1) ++for_columns;
    if (beside == 1 || beside > least) return;
    ++for_rows;
    found = found == 1 ? beside : std::min(found, beside);
  };
  for (const Instr& i : p.instrs) {
    if (i.kind != Instr::Kind::load || i.level != Level::full) continue;
    const Operand& o = p.operands[i.arg[0]];
    if (o.kind == Operand::Kind::memory) look(o.strides);
  }
  for (const Output& o : p.outputs) {
    if (p.instrs[o.value].level == Level::full) look(o.strides);
  }
  return for_rows > for_columns ? found : 1;
}

// Worth keeping for a later stage rather than recomputing?
bool expensive(const Instr& i) { return i.kind == Instr::Kind::compute && info(i.op).costly; }

}  // namespace

// The operands of a cheap value are needed as late as the value itself.
std::vector<std::int32_t> give_scratch(CompiledSweep& sweep) {
  const Program& p = sweep.program;
  std::vector<std::int32_t> scratch(p.instrs.size(), -1);
  if (!sweep.long_rows) return scratch;
  // Strips of very long rows would not stay in a cache.
  if (sweep.upright() && sweep.rows_per_tile * sweep.columns > cpu_model().sweep_strip_elements) return scratch;
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

std::int32_t copied_from(const Program& p, std::int32_t v) {
  const auto is_copy = [&](const Instr& i) {
    if (i.kind != Instr::Kind::compute || i.op != Op::copy || i.arg[0] < 0) return false;
    return p.instrs[i.arg[0]].level == i.level && p.instrs[i.arg[0]].type == i.type;
  };
  while (is_copy(p.instrs[v])) v = p.instrs[v].arg[0];
  return v;
}

std::int64_t column_step(const CompiledSweep& s, const Strides& strides) {
  const Program& p = s.program;
  const std::size_t n = p.dims.size(), r = n - static_cast<std::size_t>(p.row_dims);
  std::int64_t beside = 1;
  std::size_t outer = r;
  while (outer > 0 && beside < s.beside) {
    if (p.dims[--outer] > 1 && strides[static_cast<int>(outer)] != beside) return -1;
    beside *= p.dims[outer];
  }
  const Layout columns = layout_of(p.dims, r, n, strides);
  if (columns.rank != 1) return -1;
  if (s.strips) return columns.strides[0] >= 0 ? columns.strides[0] : -1;
  const Layout runs = layout_of(p.dims, 0, outer, strides);
  const bool follow = runs.rank == 0 || (runs.rank == 1 && runs.strides[0] == beside * s.columns);
  return follow && columns.strides[0] == beside ? beside : -1;
}

// Whether all tensors of the space can be accessed in place.
template <class Readable>
static bool all_memory(const Program& p, Readable&& readable) {
  for (const Instr& i : p.instrs) {
    if (i.kind != Instr::Kind::load || i.level != Level::full) continue;
    const Operand& o = p.operands[i.arg[0]];
    if (o.kind == Operand::Kind::memory && !readable(o.strides)) return false;
  }
  return std::all_of(p.outputs.begin(), p.outputs.end(),
                     [&](const Output& o) { return p.instrs[o.value].level != Level::full || readable(o.strides); });
}

// A sweep of reductions only, which needs no tiles if all of its memory can be read in place.
template <class Readable>
static bool only_sums_memory(const Program& p, Readable&& readable) {
  for (std::int32_t v = 0; v < static_cast<std::int32_t>(p.instrs.size()); ++v) {
    const Instr& i = p.instrs[v];
    if (i.kind == Instr::Kind::pick) return false;
    if (i.level != Level::full || copied_from(p, v) != v) continue;
    if (i.kind != Instr::Kind::load) return false;
    const Operand& o = p.operands[i.arg[0]];
    const bool numbers = is_register(o.dtype, i.type) || (is_half(o.dtype) && i.type == RegType::f32);
    if (o.kind != Operand::Kind::memory || !numbers || !readable(o.strides)) return false;
  }
  return std::none_of(p.outputs.begin(), p.outputs.end(),
                      [&](const Output& o) { return p.instrs[o.value].level == Level::full; });
}

// Rows for loops of their own, and half a block: a tile costs as much as copying some hundred elements.
std::int64_t shortest_slice() { return std::max(cpu_model().sweep_row_by_row, kTile / 2); }

// Neither sums nor numbers at places: every element follows from those at its place.
static bool only_elements(const Program& p) {
  return std::all_of(p.instrs.begin(), p.instrs.end(), [](const Instr& i) {
    return i.kind == Instr::Kind::load || i.kind == Instr::Kind::convert || i.kind == Instr::Kind::round ||
           i.kind == Instr::Kind::compute;
  });
}

constexpr auto kTurn = static_cast<std::int64_t>(kSumLanes);  // columns that a sum takes at a time

// Rows: several turns of a loop of machine code, and enough strips for many threads. Columns: all, as long as a tile
// still fits the second-level cache; otherwise stages pass over the columns of a strip again, which should be there.
static void shape_strips(CompiledSweep& s, bool computes) {
  constexpr std::int64_t kRows = CpuModel::sweep_strip_unit, kUsual = CpuModel::sweep_usual_strip_rows;
  const CpuModel& model = cpu_model();
  const std::int64_t most = std::clamp(s.rows / CpuModel::sweep_strips, kUsual, model.sweep_most_strip_rows);
  const auto rows_of = [&](std::int64_t elements, std::int64_t least) {
    const std::int64_t rows = std::clamp(elements / s.columns, least, most);
    return rows < kRows ? rows / kTurn * kTurn : rows / kRows * kRows;
  };
  if (!computes) {
    s.rows_per_tile = most;
    s.long_rows = s.columns > kTile;
    s.columns_per_tile = std::min(s.columns, kTile);
  } else if (s.columns <= kTile && s.columns * kUsual <= model.sweep_whole_strip) {
    s.rows_per_tile = rows_of(model.sweep_beside_tile, kUsual);
    s.long_rows = false;
    s.columns_per_tile = s.columns;
  } else {
    s.rows_per_tile = rows_of(model.sweep_strip_elements, model.sweep_strip_rows);
    s.long_rows = true;
    s.columns_per_tile = std::clamp(model.sweep_beside_tile / s.rows_per_tile / kTurn * kTurn, kTurn, kTile);
  }
  s.rows_per_tile = std::min(s.rows_per_tile, s.beside);
}

// As many whole runs as fill a tile, or some columns of one.
static void shape_boxes(CompiledSweep& s) {
  const std::int64_t elements = cpu_model().sweep_beside_tile;
  s.long_rows = s.columns > kTile || s.columns * s.beside > elements;
  s.rows_per_tile = s.beside * (s.long_rows ? 1 : elements / (s.columns * s.beside));
  s.columns_per_tile = s.long_rows ? std::clamp(elements / s.beside / kTurn * kTurn, kTurn, kTile) : s.columns;
}

// Bytes of an element of the widest register.
static std::int64_t widest_register(const Program& p) {
  std::size_t most = 4;
  for (const Instr& i : p.instrs) {
    if (i.level == Level::full) most = std::max(most, size_of(i.type));
  }
  return static_cast<std::int64_t>(most);
}

constexpr std::int64_t kStraightRows = 4;  // reductions of rows take four at a time

// Rows of a tile whose loops take all rows at once.
static std::int64_t rows_together(const CompiledSweep& s) {
  const CpuModel& model = cpu_model();
  const std::int64_t elements =
      s.columns > kTile ? model.sweep_rows_bytes / widest_register(s.program) - 1 : model.sweep_rows_tile;
  return std::max(
      {std::int64_t{1}, rows_per_block(s.rows, s.columns), elements / std::max<std::int64_t>(s.columns, 1)});
}
// Rows of a tile whose loops take one row at a time: as many as a reduction takes, or several times that.
static std::int64_t rows_one_by_one(const CompiledSweep& s) {
  const CpuModel& model = cpu_model();
  const std::int64_t bytes = s.columns * widest_register(s.program);
  const std::int64_t usual =
      std::max(kStraightRows, model.sweep_row_tile_bytes / bytes / kStraightRows * kStraightRows);
  const std::int64_t least = std::max<std::int64_t>(1, model.sweep_rows_tile / s.columns);  // even of few rows
  return std::clamp(s.rows / CpuModel::sweep_row_tiles, least, std::max(least, usual));
}

// Tiles of rows side by side if most memory is laid out like that. Sums of columns add whole rows, in order: they keep
// ordinary tiles.
void shape_tiles(CompiledSweep& s) {
  const Program& p = s.program;
  const auto has = [&](Instr::Kind kind) {
    return std::any_of(p.instrs.begin(), p.instrs.end(), [kind](const Instr& i) { return i.kind == kind; });
  };
  const CpuModel& model = cpu_model();
  const std::int64_t beside = s.columns < 2 || has(Instr::Kind::columns) ? 1 : rows_beside(p);
  const auto dense = [&](const Strides& strides) { return is_dense(layout_of(p.dims, 0, p.dims.size(), strides)); };
  const auto dense_in_row = [&](const Strides& strides) {
    return is_dense(layout_of(p.dims, p.dims.size() - static_cast<std::size_t>(p.row_dims), p.dims.size(), strides));
  };
  const auto by_column = [&](const Strides& strides) { return column_step(s, strides) >= 0; };
  if (beside < model.sweep_least_beside && s.rows >= kStraightRows && only_sums_memory(p, dense)) {
    s.straight = true;
    s.columns_per_tile = s.columns;
    s.rows_per_tile =
        has(Instr::Kind::columns)
            ? rows_per_part(s.rows, s.columns)
            : std::clamp<std::int64_t>(model.sweep_straight_elements / std::max<std::int64_t>(s.columns, 1),
                                       kStraightRows, model.sweep_most_strip_rows);
  } else if (beside < model.sweep_least_beside) {
    // Rows of one stride, or of runs of the same number, as a channel's weights are.
    const auto whole = [&](const Strides& strides) {
      const Layout row =
          layout_of(p.dims, p.dims.size() - static_cast<std::size_t>(p.row_dims), p.dims.size(), strides);
      return row.rank <= 1 || row.strides[row.rank - 1] == 0;
    };
    s.long_rows = s.columns > (all_memory(p, whole) ? model.sweep_whole_row : kTile);
    s.row_by_row = !s.long_rows && s.columns >= model.sweep_row_by_row;
    s.columns_per_tile = s.long_rows ? kTile : s.columns;
    s.rows_per_tile = s.long_rows ? 1 : s.row_by_row ? rows_one_by_one(s) : rows_together(s);
    // Rows of slices are read and written in place if each is a tile.
    if (s.columns >= shortest_slice() && only_elements(p) && !all_memory(p, dense) && all_memory(p, dense_in_row))
      s.rows_per_tile = 1;
  } else {
    s.beside = beside;
    const bool computes = !only_sums_memory(p, by_column);
    const bool short_runs = s.rows > beside && s.columns * beside <= model.sweep_short_run;
    const bool in_boxes = (short_runs || (computes && beside < model.sweep_few_rows)) && all_memory(p, by_column);
    s.strips = beside >= model.sweep_strip_rows && !in_boxes;
    s.totals_by_row = has(Instr::Kind::total) && !s.strips;
    s.strips ? shape_strips(s, !only_sums_memory(p, by_column)) : shape_boxes(s);
  }
  s.rows_per_tile = std::min(s.rows_per_tile, std::max<std::int64_t>(s.rows, 1));
  s.tile = s.rows_per_tile * s.columns_per_tile;
}

// By shape and program alone, never by the number of threads.
void divide_into_tasks(CompiledSweep& s) {
  const std::int64_t units = s.flat ? (s.elements + s.tile - 1) / s.tile : s.rows;
  if (!s.column_reduces.empty() || (!s.flat && !s.totals.empty() && !s.totals_by_row)) {
    // A task is a part of the sum, which must not depend on what else is in the sweep.
    s.units_per_task = rows_per_part(s.rows, s.columns);
  } else {
    std::int64_t cost = 1;  // per element, in quarter nanoseconds or so
    for (const Instr& i : s.program.instrs) cost += i.level != Level::full ? 0 : expensive(i) ? 6 : 1;
    const CpuModel& model = cpu_model();
    const std::int64_t together = s.flat ? 1 : s.rows_per_tile;  // rows of a tile stay together
    const std::int64_t elements = std::max<std::int64_t>(1, s.flat ? s.tile : together * s.columns);
    const std::int64_t tiles = (units + together - 1) / together;
    s.units_per_task = together * std::max({std::int64_t{1}, model.sweep_task_cost / (cost * elements),
                                            (tiles + model.sweep_most_tasks - 1) / model.sweep_most_tasks});
  }
  // Rows without columns are work only if each has a number of its own.
  const auto of_rows = [&](const Output& o) { return s.program.instrs[o.value].level == Level::row; };
  const bool rows_count = std::any_of(s.program.outputs.begin(), s.program.outputs.end(), of_rows) ||
                          std::any_of(s.totals.begin(), s.totals.end(), [](const Total& t) { return t.of_rows; });
  s.tasks = s.elements == 0 && !rows_count ? 0 : (units + s.units_per_task - 1) / s.units_per_task;
}

}  // namespace ebb::cpu
