// Products of f32 and f64 whose rows do not depend on their batch: every element is one chain of fused multiply-adds in
// the order of k, whatever the size of the matrices. cuBLASLt promises the same bits for the same product only, and
// chooses its tiles by the number of rows.
#include <fmt/format.h>

#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

// A block makes a tile of TILE x TILE elements, a thread one element in 16 x 16 of it, W rows and W columns.
const char* const kText = R"cuda(
EBB f32 fused(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
EBB f64 fused(f64 x, f64 y, f64 z) { return fma(x, y, z); }
#undef TILE
#define TILE (16 * W)
struct Args {
  const T* a;
  const T* b;
  T* c;
  i64 m, n, k, a_row, a_column, a_batch, b_row, b_column, b_batch, tiles_m, tiles_n, tiles, add;
};
extern "C" __global__ void __launch_bounds__(256) multiply(const Args a) {
  __shared__ T left[16][TILE + 1], right[16][TILE + 1];
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
  for (i64 tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const i64 of_rows = quotient(tile, a.tiles_n), batch = quotient(of_rows, a.tiles_m);
    const i64 top = (of_rows - batch * a.tiles_m) * TILE, side = (tile - of_rows * a.tiles_n) * TILE;
    const T* const from_a = a.a + batch * a.a_batch;
    const T* const from_b = a.b + batch * a.b_batch;
    T total[W][W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
#pragma unroll
      for (int j = 0; j < W; ++j) total[i][j] = 0;
    }
    for (i64 first = 0; first < a.k; first += 16) {
#pragma unroll
      for (int at = threadIdx.x; at < 16 * TILE; at += 256) {
        const int r = a.a_column == 1 ? at / 16 : at % TILE, d = a.a_column == 1 ? at % 16 : at / TILE;
        const int c = a.b_row == 1 ? at / 16 : at % TILE, e = a.b_row == 1 ? at % 16 : at / TILE;
        const bool in_a = top + r < a.m && first + d < a.k, in_b = side + c < a.n && first + e < a.k;
        left[d][r] = in_a ? from_a[(top + r) * a.a_row + (first + d) * a.a_column] : (T)0;
        right[e][c] = in_b ? from_b[(first + e) * a.b_row + (side + c) * a.b_column] : (T)0;
      }
      __syncthreads();
      const int count = a.k - first < 16 ? (int)(a.k - first) : 16;  // a product of padding could change the sign of 0
#pragma unroll 4
      for (int d = 0; d < count; ++d) {
        T x[W], y[W];
#pragma unroll
        for (int i = 0; i < W; ++i) x[i] = left[d][row + 16 * i];
#pragma unroll
        for (int j = 0; j < W; ++j) y[j] = right[d][column + 16 * j];
#pragma unroll
        for (int i = 0; i < W; ++i) {
#pragma unroll
          for (int j = 0; j < W; ++j) total[i][j] = fused(x[i], y[j], total[i][j]);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < W; ++i) {
#pragma unroll
      for (int j = 0; j < W; ++j) {
        const i64 r = top + row + 16 * i, c = side + column + 16 * j;
        if (r >= a.m || c >= a.n) continue;
        T* const to = a.c + (batch * a.m + r) * a.n + c;
        *to = a.add ? *to + total[i][j] : total[i][j];
      }
    }
  }
}
)cuda";

}  // namespace

void multiply_in_order(Gpu& gpu, const FixedProduct& p) {
  // Small tiles waste less of themselves on a matrix of few rows or columns.
  const int width = p.m <= 32 || p.n <= 32 ? 2 : 8;
  const std::int64_t side = 16 * width, tiles_m = (p.m + side - 1) / side, tiles_n = (p.n + side - 1) / side;
  const std::int64_t tiles = tiles_m * tiles_n * p.batches;
  Words words;
  words.add(static_cast<const void*>(p.a)).add(static_cast<const void*>(p.b)).add(static_cast<const void*>(p.c));
  words.add(p.m).add(p.n).add(p.k).add(p.a_row).add(p.a_column).add(p.a_batch).add(p.b_row).add(p.b_column);
  words.add(p.b_batch).add(tiles_m).add(tiles_n).add(tiles).add(std::int64_t{p.add});
  launch_blocks(gpu, view_text() + element_text(p.dtype) + fmt::format("#undef W\n#define W {}\n", width) + kText,
                "multiply", tiles, words);
}

}  // namespace ebb::cuda
