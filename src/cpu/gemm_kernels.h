#pragma once
#include <cstdint>

#include "ebb/dtype.h"

// The inner loops of matrix products, compiled for every SIMD target; part of a target's TileKernels.
namespace ebb::cpu {

// An output is a sum of blocks of k, each summed on its own: from zero, one fused product after the other, in the order
// of k. The blocks are added in order. That is all that decides the bits of an output: not its place, not the sizes of
// the product, not how its factors lie in memory. Blocks are nearly equal and as long as the level-1 cache allows.
inline constexpr std::int64_t kGemmDepth = 384;
inline std::int64_t gemm_depth(std::int64_t k) {
  const std::int64_t blocks = (k + kGemmDepth - 1) / kGemmDepth;
  return blocks <= 1 ? k : ((k + blocks - 1) / blocks + 7) / 8 * 8;
}

// A factor to pack: element (w, p) of `wide` rows of A or columns of B, and of `depth`, is
// data[w·wide_stride + p·depth_stride]. Any strides will do; one of them 1 is quick.
struct GemmSource {
  const void* data;
  DType dtype;  // T's own, or a half where T is float
  std::int64_t wide_stride, depth_stride;
};

// A factor as the tiles read it: panels of the tile's width, element (w, p) of a panel at p·step + w. The last panel
// may be narrower; it is packed, with numbers of no meaning beyond its end.
template <class T>
struct GemmPanels {
  const T* data;
  std::int64_t step;
  std::int64_t distance;  // from panel to panel
  const T* last;          // the narrow one, if there is one
};

template <class T>
struct GemmKernels {
  std::int64_t rows, cols;  // of a tile of C that stays in registers

  // Packs all panels one after the other; the space for `wide` is packed_wide(wide) × depth.
  std::int64_t (*packed_rows)(std::int64_t rows);
  std::int64_t (*packed_cols)(std::int64_t cols);
  void (*pack_rows)(const GemmSource& from, std::int64_t rows, std::int64_t depth, T* to);
  void (*pack_cols)(const GemmSource& from, std::int64_t cols, std::int64_t depth, T* to);

  // C = alpha·A·B, or C += alpha·A·B, for one block of k.
  void (*multiply)(std::int64_t rows, std::int64_t cols, std::int64_t depth, T alpha, const GemmPanels<T>& a,
                   const GemmPanels<T>& b, bool add, T* c, std::int64_t c_stride);

  // sum[0..cols) = x·B for one block of k, B as it lies: its columns or its depth must be dense.
  void (*multiply_vector)(std::int64_t cols, std::int64_t depth, const T* x, const GemmSource& b, T* sum);

  // One column, several blocks of k that follow each other: sum[r · sum_stride] is the sum of block r.
  void (*multiply_runs)(std::int64_t runs, std::int64_t depth, const T* x, const GemmSource& b, T* sum,
                        std::int64_t sum_stride);

  // to[p] = element (0, p)
  void (*read_vector)(const GemmSource& from, std::int64_t depth, T* to);

  // The same sums without preparations, for a few outputs.
  T (*dot)(std::int64_t depth, const T* a, std::int64_t a_stride, const T* b, std::int64_t b_stride);
};

}  // namespace ebb::cpu
