// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "ebb/dtype.h"
#include "graph/op_table.h"
#include "sweep/program.h"
#include "sweep/sum_order.h"

// The SIMD loops of the tile interpreter, compiled for every Highway target and chosen once at run time. All pointers
// may be unaligned; n may be anything from 0 up (tails included); nothing outside [0, n) is read or written.
namespace ebb::cpu {

// out[i] = op(a[i], b[i], c[i]), all of one register type except: comparisons and isnan... write the mask type of the
// same width; where takes its mask (same width) as a. `out` may be the same tile as any input.
using ElementwiseFn = void (*)(void* out, const void* a, const void* b, const void* c, std::size_t n);

// acc = combine(acc, reduction of a[0..n)). The accumulator is double for f32 and f64, int64_t for i32 and i64.
// The order is that of a line (sweep/sum_order.h).
// max and min give NaN when an element is NaN.
// rows > 1: acc[r] for a[r·n .. r·n+n).
using ReduceFn = void (*)(void* acc, const void* a, std::size_t rows, std::size_t n);

// The same for the sum of a[i]·b[i], each product rounded: what reduce returns for the tile of products, without that
// tile.
using DotFn = void (*)(void* acc, const void* a, const void* b, std::size_t rows, std::size_t n);

// Rows side by side: `runs` times `rows` of them, their columns one after the other. In row r of a run, column c is at
// c·step + r; runs follow each other without gaps, so several of them need step = `rows`.
struct RowsBeside {
  std::size_t runs = 1, rows = 1, columns = 0;
  std::ptrdiff_t step_a = 1, step_b = 1;
  bool begins = true, ends = true;  // the columns begin a block of the sum's tree, and end it
  void* results = nullptr;          // floats: of rows whose columns are all here, in their type; acc is not used
};
// The reductions above, bit for bit, of rows side by side: with b, of the products. Where a block takes several
// calls (of one run), they begin at multiples of kSumLanes, and `lanes` keeps kSumLanes · rows numbers in
// between.
using ReduceBesideFn = void (*)(void* acc, void* lanes, const void* a, const void* b, const RowsBeside& shape);

// Rows whose columns are reduced, `stride` elements apart.
struct RowsBelow {
  std::size_t rows = 0, columns = 0, stride = 0;
  std::size_t before = 0;  // rows of the first run that are already in `open`
  bool closes = false;     // the last run ends with these rows, none stays open
};
// Reductions of columns: acc[c] with a[r · stride + c] of all rows, in runs of kRowsPerRun rows
// (sweep/sum_order.h). `open` has one number of the type per column, at the end those of an unfinished run.
// Integers ignore runs.
using ReduceColumnsFn = void (*)(void* acc, void* open, const void* a, const RowsBelow& shape);

// dst[i] = convert(src[i · stride]) and back. stride in elements, 1 is the fast case, 0 repeats.
using LoadFn = void (*)(void* dst, const void* src, std::ptrdiff_t stride, std::size_t n);
using StoreFn = void (*)(void* dst, std::ptrdiff_t stride, const void* src, std::size_t n);

struct TileKernels {
  const char* target;       // "NEON", "AVX2", ...
  std::int64_t target_bit;  // HWY_NEON, HWY_AVX2, ...

  // bit k of scalar_mask: input k is one number, repeated. Null where no such loop exists (the caller fills a tile
  // with the number and requests mask 0); mask 0 exists for every elementwise op and type where the op has a
  // meaning.
  ElementwiseFn (*elementwise)(Op op, RegType type, unsigned scalar_mask);
  ReduceFn (*reduce)(Op op, RegType type, DType halves);  // sum, prod, max, min; bf16, f16: f32 read from those
  DotFn (*dot)(RegType type);                             // f32 and f64, null for the others
  ReduceBesideFn (*reduce_beside)(Op op, RegType type, DType halves);
  ReduceColumnsFn (*reduce_columns)(Op op, RegType type, DType halves);
  LoadFn (*load)(DType from, RegType to);
  StoreFn (*store)(RegType from, DType to);  // floats round to nearest even; ints wrap; masks become 0 or 1
  ElementwiseFn (*convert)(RegType from,
                           RegType to);  // numbers: as a C++ cast (float to int truncates, NaN gives 0 and
                                         // out of range saturates); to a mask: != 0; from a mask: 0 or 1
  ElementwiseFn (*round)(DType dtype);   // f32 tile rounded to f16 or bf16 precision; i32 tile wrapped to u8

  // dst[i] = value, in the register type; value points to one number of that type.
  void (*fill)(RegType type, void* dst, const void* value, std::size_t n);
  // i64 tile (or any numeric type): dst[i] = start + step · (first + i)
  void (*iota)(RegType type, void* dst, std::int64_t start, std::int64_t step, std::int64_t first, std::size_t n);
  // f32 or f64 in [0, 1): element first+i of the operation (see core/random.h). f32 takes the word's upper 24 bits
  // (word / 2^8 · 2^-24); f64 takes the same word's 32 bits times 2^-32, so that both dtypes agree to f32's precision.
  void (*uniform)(RegType type, void* dst, std::uint64_t seed, std::uint64_t operation, std::int64_t first,
                  std::size_t n);
};

// The best target this machine has, or the one set for tests.
const TileKernels& tile_kernels();

// For tests: every target this machine can run; force one (nullptr: the best again).
struct TargetList {
  const TileKernels* const* begin_;
  std::size_t count;
};
TargetList tile_kernel_targets();
void force_tile_kernels(const TileKernels* kernels);

}  // namespace ebb::cpu
