// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cpu/gemm/plan.h"
#include "ebb/dtype.h"

// The inner loops of matrix products, compiled for every SIMD target.
namespace ebb::cpu {

// An output is a sum of blocks of k, each summed separately: from zero, one fused product after the other, in the order
// of k. The blocks are added in order. Nothing else decides the bits of an output: not its place, not the sizes of the
// product, not the strides of its factors. Blocks are nearly equal and as long as the level-1 cache allows. (Two bf16
// factors may be multiplied by dedicated instructions, see bf16.h: then a step is several of k.)
#if defined(__x86_64__)
template <class T>
inline constexpr std::int64_t kGemmDepth = sizeof(T) == 4 ? 512 : 384;
#else
template <class T>
inline constexpr std::int64_t kGemmDepth = 384;
#endif
inline constexpr std::int64_t kGemmMostDepth = 1024;  // of anything
inline std::int64_t gemm_depth(std::int64_t k, std::int64_t most) {
  const std::int64_t blocks = ceil_div(k, most);
  return blocks <= 1 ? k : ceil_div(ceil_div(k, blocks), 8) * 8;
}

// A factor to pack: element (w, p) of `wide` rows of A or columns of B, and of `depth`, is data[w·wide_stride +
// p·depth_stride]. Any strides work; it is fast where one of them is 1.
struct GemmSource {
  const void* data;
  DType dtype;  // T's own, or a half where T is float; f32 or bf16 for panels of bf16
  std::int64_t wide_stride, depth_stride;
};

// Memory that is packed or read next: each tile prefetches its part into the second-level cache while it multiplies, so
// that no thread waits for it later.
struct GemmSoon {
  const char* data = nullptr;
  std::int64_t rows = 0, bytes = 0, stride = 0;  // in bytes

  // One of that many parts.
  GemmSoon share(std::int64_t part, std::int64_t parts) const {
    if (!data) return {};
    const std::int64_t first = rows * part / parts;
    return {data + first * stride, rows * (part + 1) / parts - first, bytes, stride};
  }
  void fetch(std::int64_t part, std::int64_t parts) const {
    if (!data) return;
    for (std::int64_t r = rows * part / parts; r < rows * (part + 1) / parts; ++r) {
      const char* const row = data + r * stride;
      for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, 2);
      __builtin_prefetch(row + bytes - 1, 0, 2);
    }
  }
};

// Columns of B, dense in place, that tiles pack while they multiply others: the neighbour of the current panel, as many
// steps of k per tile as are due. Storing them separately would mean waiting.
template <class P>
struct GemmNext {
  const P* from = nullptr;
  std::int64_t stride = 0;
  std::int64_t cols = 0, depth = 0;  // whole vectors
  P* to = nullptr;
};

// A factor as the tiles read it: panels of the tile's width, element (w, p) of a panel at p·step + w·apart (or in
// groups of k, see GemmTileShape). The last panel may be narrower; it is packed, with arbitrary numbers beyond its end,
// or is read in place with the others.
template <class P>
struct GemmPanels {
  const P* data;
  std::int64_t step;
  std::int64_t distance;   // from panel to panel
  const P* last;           // the narrow one, if any
  std::int64_t apart = 1;  // more for rows of A that are read in place: only by tiles where rows_stay
  P* copies = nullptr;     // of B: the first rows of tiles write the packed panels here, and the others read them here
  bool last_lies = false;  // the narrow one is whole vectors and read in place, too: its step is `step`
  const P* tails = nullptr;  // of rows that are read in place, in groups of k: the last group of each, if it is not
                             // whole, padded with zeros
  GemmSoon soon = {};        // of B
  GemmNext<P> next = {};     // of B: only for tiles where rows_stay, and k is not in groups
};

// Destination of a block of k: C = block, or C += block. With `halves` the result is rounded to them instead, and C is
// only read, if it is added to; only tiles of bf16 do that.
template <class T>
struct GemmResult {
  T* c;
  std::int64_t stride;
  bool add;
  BFloat16* halves = nullptr;
  std::int64_t halves_stride = 0;

  GemmResult from(std::int64_t i, std::int64_t j) const {
    return {c ? c + i * stride + j : nullptr, stride, add, halves ? halves + i * halves_stride + j : nullptr,
            halves_stride};
  }
};

// Products of panels of P, summed in T.
template <class T, class P>
struct GemmTiles {
  GemmTileShape shape;

  // Packs all panels one after the other, into packed_rows(rows) × depth or packed_cols(cols) × depth numbers, with the
  // depth rounded up to whole groups (padded with zeros).
  std::int64_t (*packed_rows)(std::int64_t rows);
  std::int64_t (*packed_cols)(std::int64_t cols);
  void (*pack_rows)(const GemmSource& from, std::int64_t rows, std::int64_t depth, P* to);
  void (*pack_cols)(const GemmSource& from, std::int64_t cols, std::int64_t depth, P* to);

  // alpha·A·B for one block of k.
  void (*multiply)(std::int64_t rows, std::int64_t cols, std::int64_t depth, T alpha, const GemmPanels<P>& a,
                   const GemmPanels<P>& b, const GemmResult<T>& to);
};

// Products of a vector, bit-identical to the tiles.
template <class T>
struct GemmVectors {
  std::int64_t most_depth;  // of a block of k, equal to that of the tiles

  // sum[0..cols) = x·B for one block of k, B read in place: its columns or its depth must be dense.
  void (*multiply_vector)(std::int64_t cols, std::int64_t depth, const T* x, const GemmSource& b, T* sum);

  // One column, several consecutive blocks of k: sum[r · sum_stride] is the sum of block r.
  void (*multiply_runs)(std::int64_t runs, std::int64_t depth, const T* x, const GemmSource& b, T* sum,
                        std::int64_t sum_stride);
};

// A small product; nothing of B is read from b_end on.
inline constexpr std::int64_t kSmallGemm = 16;
template <class T>
struct GemmSmall {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t a_row, a_col;
  const T* b;
  std::int64_t b_row, b_col;
  const T* b_end;
  T* c;
  bool add;
};

template <class T>
struct GemmKernels {
  GemmTiles<T, T> tiles;
  GemmVectors<T> vectors;

  // to[p] = element (0, p)
  void (*read_vector)(const GemmSource& from, std::int64_t depth, T* to);

  // The same sums without setup, for a few outputs.
  T (*dot)(std::int64_t depth, const T* a, std::int64_t a_stride, const T* b, std::int64_t b_stride);

  // A whole product with the same sums: C = A·B, or C += A·B, the rows of C one after the other. At most kSmallGemm
  // columns and that depth.
  void (*multiply_small)(const GemmSmall<T>& product);
};

// Kernels of the target that tile_kernels() has chosen.
template <class T>
const GemmKernels<T>& gemm_kernels();
template <>
const GemmKernels<float>& gemm_kernels<float>();
template <>
const GemmKernels<double>& gemm_kernels<double>();

}  // namespace ebb::cpu
