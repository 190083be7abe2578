// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/model/cpu_model.h"
#include "cpu/sweep/code.h"

// Sweeps of elements in which some operands repeat, or are slices. Along the last dimensions, as weights of channels
// do: with these dimensions as columns they are values of rows, single numbers in a loop instead of tiles filled with
// copies. Along the first ones, as a short bias does: with the others as columns one tile of copies serves all tiles.
// Rows of slices are read in place.
namespace ebb::cpu {
namespace {

// How many of the last dimensions these strides leave out.
int repeated_dims(const Program& p, const Strides& strides) {
  int d = static_cast<int>(p.dims.size());
  while (d > 0 && (strides[d - 1] == 0 || p.dims[static_cast<std::size_t>(d - 1)] == 1)) --d;
  return static_cast<int>(p.dims.size()) - d;
}

std::int64_t columns_of(const Program& p, int dims) {
  std::int64_t n = 1;
  for (std::size_t d = p.dims.size() - static_cast<std::size_t>(dims); d < p.dims.size(); ++d) n *= p.dims[d];
  return n;
}

bool loads_memory(const Program& p, const Instr& i) {
  return i.kind == Instr::Kind::load && i.level == Level::full &&
         p.operands[static_cast<std::size_t>(i.arg[0])].kind == Operand::Kind::memory;
}

// The longest rows: what a loop takes in one call. Longer ones would be too few tasks for many threads.
constexpr std::int64_t kLongest = static_cast<std::int64_t>(kBlocksPerGroup) * kTile;

// The fewest dimensions that make rows of a length for loops; 0: none.
int dims_of_columns(const Program& p) {
  const CpuModel& model = cpu_model();
  int fewest = 0;
  for (const Instr& i : p.instrs) {
    if (!loads_memory(p, i)) continue;
    const int dims = repeated_dims(p, p.operands[static_cast<std::size_t>(i.arg[0])].strides);
    const std::int64_t columns = columns_of(p, dims);
    if (dims == static_cast<int>(p.dims.size()) || columns < model.sweep_row_by_row || columns > kLongest) continue;
    if (fewest == 0 || dims < fewest) fewest = dims;
  }
  return fewest;
}

// The most dimensions that make rows too short for loops of their own and are all that some operand has; 0: none.
int dims_of_shared_rows(const Program& p) {
  const auto rank = static_cast<int>(p.dims.size());
  int most = 0;
  for (const Instr& i : p.instrs) {
    if (!loads_memory(p, i)) continue;
    const Strides& strides = p.operands[static_cast<std::size_t>(i.arg[0])].strides;
    int shared = 0;  // of the first dimensions
    while (shared < rank && (strides[shared] == 0 || p.dims[static_cast<std::size_t>(shared)] == 1)) ++shared;
    const std::int64_t columns = columns_of(p, rank - shared);
    if (columns > 1 && columns < std::min(cpu_model().sweep_row_by_row, kTile) && columns < columns_of(p, rank))
      most = std::max(most, rank - shared);
  }
  return most;
}

// The dimensions that are dense wherever the sweep accesses memory, which is not dense as a whole: slices, whose rows
// can then be read and written in place. 0: none, or rows not worth a tile of their own.
int dims_of_slices(const Program& p) {
  const std::size_t rank = p.dims.size();
  std::size_t outer = 0;
  bool sliced = false;
  const auto look = [&](const Strides& strides) {
    sliced |= !is_dense(layout_of(p.dims, 0, rank, strides));
    while (outer < rank && !is_dense(layout_of(p.dims, outer, rank, strides))) ++outer;
  };
  for (const Instr& i : p.instrs) {
    if (loads_memory(p, i)) look(p.operands[static_cast<std::size_t>(i.arg[0])].strides);
  }
  for (const Output& o : p.outputs) {
    if (p.instrs[static_cast<std::size_t>(o.value)].level == Level::full) look(o.strides);
  }
  const auto dims = static_cast<int>(rank - outer);
  const std::int64_t columns = columns_of(p, dims);
  return sliced && columns >= shortest_slice() && columns <= kLongest ? dims : 0;
}

}  // namespace

Program with_row_values(const Program& flat) {
  const bool elements =
      flat.row_dims == 0 && flat.stages == 1 && std::all_of(flat.instrs.begin(), flat.instrs.end(), [](const Instr& i) {
        const bool plain = i.kind == Instr::Kind::load || i.kind == Instr::Kind::convert ||
                           i.kind == Instr::Kind::round || i.kind == Instr::Kind::compute;
        return plain && i.op != Op::check;  // whose error names a position
      });
  int dims = elements ? dims_of_columns(flat) : 0;
  if (dims == 0 && elements) dims = dims_of_shared_rows(flat);
  if (dims == 0 && elements) dims = dims_of_slices(flat);
  if (dims == 0) return flat;
  Program p = flat;
  p.row_dims = dims;
  std::vector<char> stored(p.instrs.size(), 0);
  for (const Output& o : p.outputs) stored[static_cast<std::size_t>(o.value)] = 1;
  for (std::size_t v = 0; v < p.instrs.size(); ++v) {
    Instr& i = p.instrs[v];
    if (i.level != Level::full || stored[v]) continue;
    if (loads_memory(p, i)) {
      Operand& o = p.operands[static_cast<std::size_t>(i.arg[0])];
      if (repeated_dims(p, o.strides) >= dims) i.level = o.level = Level::row;
    } else if (i.kind != Instr::Kind::load) {
      const auto varies = [&](std::int32_t a) {
        return a >= 0 && p.instrs[static_cast<std::size_t>(a)].level == Level::full;
      };
      if (std::none_of(i.arg.begin(), i.arg.end(), varies)) i.level = Level::row;
    }
  }
  // An operand is loaded on one level.
  for (const Instr& i : p.instrs) {
    const bool both = loads_memory(p, i) && p.operands[static_cast<std::size_t>(i.arg[0])].level == Level::row;
    if (both) return flat;
  }
  return p;
}

}  // namespace ebb::cpu
