// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "cpu/jit/loop.h"
#include "cpu/sweep/layout.h"
#include "cpu/sweep/sweep.h"
#include "cpu/tile/kernels.h"

// The tile interpreter's code.
//
// A tile holds some rows and some columns of the iteration space. Usually it is a range of consecutive elements in
// row-major order: `rows_per_tile` whole rows when rows are short, a piece of one row when they are long, and where
// there are no rows any piece. Where neighbours in memory belong to different rows (a softmax over the second of four
// axes), rows lie side by side in it as they do in memory: `beside` rows of them are neighbours, and a tile is
//   strips: a part of one such run of rows, column after column; registers may point at memory, column by column, and a
//           row value is the same vector in every column;
//   boxes:  where runs are too short for that, whole runs, each with its columns one after the other: contiguous in
//           memory.
// Steps run over one tile at a time; the registers they name are pointers: to a tile slot in L1, straight into an
// operand or an output, or into a row-long scratch for values that a later stage of long rows needs again.
namespace ebb::cpu {

inline constexpr std::int64_t kTile = kBlock;

// The target of a register's pointer.
struct Register {
  enum class Kind : std::uint8_t {
    slot,     // tile slot `index`
    scalar,   // one number for the whole sweep: `index` into the scalars
    row,      // one number per row of the tile: `index` into the row registers
    operand,  // straight into operand `index`
    output,   // straight into output `index`
    scratch,  // row-long scratch `index`
  } kind = Kind::slot;
  RegType type = RegType::f32;
  std::int32_t index = -1;
  bool by_row = false;  // operand, output: dense, or in dense pieces, only within a row
  bool halves = false;  // operand, output: f16 or bf16 in memory, which loops of machine code can read and write
  // operand, output: a row consists of dense pieces this long, `step` elements from start to start; 0: one piece. Only
  // loops of machine code go from piece to piece.
  std::int64_t piece = 0, step = 0;
  bool each_row = false;  // operand, slot: one row, which is the same for all rows of the tile
  // operand, output: in strips, elements from one column to the next; -1: as in a tile.
  std::int64_t across = -1;
};

struct Step {
  enum class Kind : std::uint8_t {
    compute,    // fn(dst, a, b, c, n)
    load,       // operand `item` through its layout into dst; a: the operand itself if a loop can read it
    spread,     // row register a to every column of its row
    repeat,     // one number, a, broadcast to the whole tile
    reduce,     // accumulator `item` with a; where b is given too, with the products of a and b
    pick,       // row register dst = a at column b
    place,      // dst = row register a at column b, zero elsewhere
    store,      // a to output `item`; b: the output itself if a loop can write it
    total,      // total `item` with a (and b, likewise)
    chain,      // the cheap steps of chain `item` in one loop
    columns,    // column sum `item` with a
    check,      // error where mask b is zero; dst = a
    load_row,   // operand `item`'s numbers for the tile's rows
    store_row,  // row register a to output `item`
    total_row,  // total `item` with row register a
  } kind = Kind::compute;
  ElementwiseFn fn = nullptr;
  std::int32_t dst = -1, a = -1, b = -1, c = -1;
  std::int32_t item = -1;
  std::int32_t instr = -1;
  bool invariant = false;  // the same for every tile: done once per task
  bool by_column = false;  // strips: the registers are dense within a column only
  bool by_row = false;  // row_by_row: reads a number of each row, what is the same in every row, or sums rows in a loop
};

// Cheap steps that run as one loop of machine code.
struct Chain {
  std::shared_ptr<const NativeLoop> loop;
  bool wide = false;                    // 64 bits per element, otherwise 32
  std::vector<std::int32_t> registers;  // what the loop's pointers point to
  std::vector<std::int32_t> strides;    // bytes per element of each; 0 for a single number
  std::vector<Step> steps;  // the same steps one by one: for the last few elements, and where a guard does not hold
  std::vector<Step> sums;   // those that are totals or reductions, in the order of the loop's sums
};

struct StageCode {
  std::vector<Step> row_steps;        // once per tile's rows (or per row), before the stage's columns
  std::vector<Step> full_steps;       // for every tile
  std::vector<std::int32_t> reduces;  // finished when the stage's columns are done
  std::vector<std::int32_t> totals;   // of full values
  std::vector<Step> finish_steps;     // then: steps that store their results
  bool whole_rows = false;            // long rows: no step here needs tiles
  bool one_chain = false;             // long rows: one loop covers many blocks at a time
};

struct RowReduce {
  Op op;
  RegType type;
  ReduceFn fn = nullptr;
  DotFn dot = nullptr;
  ReduceBesideFn beside = nullptr;
  std::int32_t dst = -1;  // row register
};
struct Total {
  Op op;
  RegType type;
  ReduceFn fn = nullptr;
  DotFn dot = nullptr;
  ReduceBesideFn beside = nullptr;
  std::int32_t instr;
  bool of_rows;
};
struct ColumnReduce {
  Op op;
  RegType type;
  ReduceColumnsFn fn;
  std::int32_t instr;
};

struct CompiledSweep : ebb::CompiledSweep {
  Program program;
  std::int64_t rows = 1, columns = 1, elements = 1;
  bool flat = false;       // no rows: tiles are pieces of the whole
  bool long_rows = false;  // a row takes several tiles
  std::int64_t rows_per_tile = 1, columns_per_tile = kTile;
  std::int64_t beside = 1;  // rows that are neighbours in memory; 1: tiles are rows
  bool strips = false;
  bool row_by_row = false;  // rows long enough to be loops of their own: a row value is then a single number
  bool straight =
      false;  // reductions of dense memory and nothing else: tiles are just numbers of rows, and of any size
  bool totals_by_row = false;  // parts of totals end within tiles: the rows' numbers are kept, and are added afterwards
  std::int64_t tile = kTile;   // elements of a full tile
  bool slots_hold_a_block = false;  // of kTile elements, even if tiles are longer

  std::vector<Register> registers;
  std::vector<std::int32_t> moving;  // those whose pointers change from tile to tile
  int slots = 0;
  std::size_t slot_bytes = 0;
  std::vector<std::size_t> scratch_bytes;  // an element's size, for each row-long scratch
  int row_registers = 0;
  int scalars = 0;

  std::vector<Step> scalar_steps;       // run before everything else
  std::vector<std::int32_t> scalar_of;  // instruction -> index into the scalars, -1
  std::vector<StageCode> stages;
  std::vector<Chain> chains;
  std::vector<Step> epilogue;  // scalar and column instructions; dst is the instruction
  std::vector<RowReduce> reduces;
  std::vector<Total> totals;
  std::vector<ColumnReduce> column_reduces;
  std::vector<Layout> operand_layouts, operand_row_layouts, operand_column_layouts;
  std::vector<Layout> output_layouts, output_row_layouts, output_column_layouts;
  std::vector<LoadFn> operand_loads;
  std::vector<StoreFn> output_stores;

  std::int64_t units_per_task = 1;  // flat: tiles; otherwise rows
  std::int64_t tasks = 1;

  bool upright() const { return beside > 1; }
};

// Per instruction: the row-long scratch it is kept in, -1 for none (choices.cc). In long rows, costly values that a
// later stage needs are kept for the whole row; cheap ones are recomputed.
std::vector<std::int32_t> give_scratch(CompiledSweep& sweep);
// Per instruction: whether it is a product that only a sum reads, which then needs no tile of its own (choices.cc).
std::vector<char> find_summed_products(const Program& program, const TileKernels& kernels);

// Turns runs of cheap steps into chains, stage by stage, reordering independent steps. Registers that only a chain's
// own steps read are never written by its loop.
void make_chains(CompiledSweep& sweep);

// Gives tiles to registers that need one, and sets the length of tiles (slots.cc).
void give_slots(CompiledSweep& sweep);

// Can such memory be used as a register directly?
inline bool is_register(DType from, RegType to) {
  return (from == DType::f32 && to == RegType::f32) || (from == DType::f64 && to == RegType::f64) ||
         (from == DType::i32 && to == RegType::i32) || (from == DType::i64 && to == RegType::i64);
}
// The value behind copies on the same level, which casts without an instruction become (choices.cc).
std::int32_t copied_from(const Program& program, std::int32_t value);
// Rows side by side: elements in memory from one column to the next, if a register may point there; -1 otherwise
// (choices.cc).
std::int64_t column_step(const CompiledSweep& sweep, const Strides& strides);

// The same sweep, with rows where operands repeat or are slices (row_values.cc).
Program with_row_values(const Program& flat);
// The shortest dense rows of slices that are tiles of their own (choices.cc).
std::int64_t shortest_slice();
// Rows and columns of a tile of rows: whether rows are side by side in it, and how many (choices.cc).
void shape_tiles(CompiledSweep& sweep);

// Divides the tiles among tasks, by shape and program alone, never by the number of threads (choices.cc).
void divide_into_tasks(CompiledSweep& sweep);

}  // namespace ebb::cpu
