// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ebb/dtype.h"
#include "ebb/error.h"
#include "ebb/shape.h"
#include "graph/op_table.h"

namespace ebb {

// A sweep: one pass over an iteration space of rows × columns. The space has `dims` dimensions; the last `row_dims` of
// them together are the columns of a row, the ones before are the rows. Nothing here knows about a device.
//
// Values are numbered; value v is computed by instruction v. A value lives on a level:
//   scalar  one number for the whole sweep
//   row     one number per row (results of row reductions and picks, and what is computed from them)
//   column  one number per column: results of reductions over the rows, only in the epilogue
//   full    one number per element
// Row reductions end a stage: an instruction that uses a row value made in stage s runs in a stage > s.
// Reductions over the whole space (total) or over the rows (columns) are ready only when every row is done; what is
// computed from them is the epilogue: stage number `stages`, levels scalar and column.
enum class Level : std::uint8_t { scalar, row, column, full };

// The types tiles are computed in. Halves are computed in f32 and rounded after every operation; u8 in i32, wrapped;
// bool is a mask as wide as its neighbours (all ones or zero), so that `where` needs no conversion.
enum class RegType : std::uint8_t { f32, f64, i32, i64, m32, m64 };
inline constexpr int kRegTypeCount = 6;
constexpr std::size_t size_of(RegType t) { return t == RegType::f32 || t == RegType::i32 || t == RegType::m32 ? 4 : 8; }
// The register type an element of this dtype is computed in; bool takes m32 unless its neighbours are 64 bits wide.
constexpr RegType reg_type(DType d) {
  switch (d) {
    case DType::f64:
      return RegType::f64;
    case DType::i64:
      return RegType::i64;
    case DType::i32:
    case DType::u8:
      return RegType::i32;
    case DType::bool_:
      return RegType::m32;
    default:
      return RegType::f32;
  }
}

// An operand: memory, or numbers generated on the fly. Strides are in elements along the dimensions of the space.
struct Operand {
  enum class Kind : std::uint8_t { memory, constant, iota, random } kind = Kind::memory;
  DType dtype = DType::f32;
  Level level = Level::full;
  int slot = -1;            // which bound argument of the sweep
  std::int64_t offset = 0;  // elements, beyond the argument's own
  Strides strides;          // along the space's dimensions; 0 where it does not vary
};

struct Instr {
  enum class Kind : std::uint8_t {
    load,     // a = operand index
    compute,  // op of a, b, c
    convert,  // a to `type` (from the type of value a)
    round,    // a rounded to the half `dtype`, or wrapped to u8
    reduce,   // op (sum, prod, max, min) of a (full) over the row: a row value
    total,    // op of a (full or row) over everything it varies over: a scalar of the epilogue
    columns,  // op of a (full) over the rows: a column value of the epilogue
    pick,     // a (full) at column b (row, i64): a row value, ends a stage like reduce
    place,    // a (row) at column b (row, i64), zero elsewhere: a full value
  } kind = Kind::compute;
  Op op = Op::copy;
  RegType type = RegType::f32;
  DType dtype = DType::f32;  // the dtype the value stands for
  Level level = Level::full;
  std::int16_t stage = 0;
  std::array<std::int32_t, 3> arg{-1, -1, -1};
  const char* label = nullptr;  // check, pick, place: for the error's text
  bool of_index = false;        // check: of an index, which lies in [from, to)
  std::int64_t from = 0, to = 0;
};

// A value that is written to memory, with the shape of its level.
struct Output {
  std::int32_t value = -1;
  DType dtype = DType::f32;
  int slot = -1;
  Strides strides;  // along the space's dimensions; 0 where the value does not vary
};

struct Program {
  std::vector<std::int64_t> dims;  // sizes of the space
  int row_dims = 0;                // how many of the last dimensions are columns
  std::vector<int> named;          // the dimensions as the user knows them, outermost first; empty: in this order
  int stages = 1;                  // not counting the epilogue
  std::vector<Operand> operands;
  std::vector<Instr> instrs;
  std::vector<Output> outputs;
  int slots = 0;  // how many arguments are bound: inputs first, then outputs

  std::int64_t rows() const;
  std::int64_t columns() const;
};

// Text of a program, stable enough to be a golden test.
std::string print(const Program& program);

// Throws Error (a bug in Ebb) when an invariant above is violated.
void verify(const Program& program);

// "[2, 0]": the indices, as the user knows them, of element number `linear` of the dimensions from `from` to `to`. The
// outermost dimension begins at `first`.
std::string position_text(const Program& program, std::size_t from, std::size_t to, std::int64_t linear,
                          std::int64_t first);

// The error of a failed check of the number at a position ("[2, 0]"; empty where it is the only one).
Error check_error(const Instr& check, const std::string& position, const std::string& number);

// The value bound to a slot when a sweep runs.
struct Argument {
  void* data = nullptr;                   // memory: the element at offset 0
  double real = 0;                        // constant
  std::int64_t integer = 0;               // constant; iota: the value at index 0; random: its number there
  std::int64_t step = 1;                  // iota: added for each index
  std::uint64_t seed = 0, operation = 0;  // random
};

// The oracle: computes every element separately, in double precision (integers in int64), from the definitions.
void run_reference(const Program& program, const std::vector<Argument>& arguments);

}  // namespace ebb
