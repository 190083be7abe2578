// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/model/cpu_model.h"
#include "cpu/sweep/code.h"

// Sweeps of elements in which some operands repeat along the last dimensions, as weights of channels do: with these
// dimensions as columns they are values of rows, single numbers in a loop instead of tiles filled with copies.
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

}  // namespace

Program with_row_values(const Program& flat) {
  const bool elements = flat.row_dims == 0 && flat.stages == 1 &&
                        std::all_of(flat.instrs.begin(), flat.instrs.end(), [](const Instr& i) {
                          const bool plain = i.kind == Instr::Kind::load || i.kind == Instr::Kind::convert ||
                                             i.kind == Instr::Kind::round || i.kind == Instr::Kind::compute;
                          return plain && i.op != Op::check;  // whose error names a position
                        });
  const int dims = elements ? dims_of_columns(flat) : 0;
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
