// SPDX-License-Identifier: MIT
// Products of f32 and f64 whose rows do not depend on their batch (kernels/fixed_matmul.cuh). cuBLASLt only promises
// the same bits for the same product, and chooses its tiles by the number of rows.
#include <fmt/format.h>

#include "cuda/kernels/args/matmul.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
void multiply_in_order(Gpu& gpu, const FixedProduct& p) {
  // Small tiles waste less on a matrix of few rows or columns.
  const int width = p.m <= 32 || p.n <= 32 ? 2 : 8;
  const std::int64_t side = kFixedSide * width, tiles_m = (p.m + side - 1) / side, tiles_n = (p.n + side - 1) / side;
  const std::int64_t tiles = tiles_m * tiles_n * p.batches;
  launch_blocks(gpu, {element_text(p.dtype) + fmt::format("constexpr int kWidth = {};\n", width) + texts::fixed_matmul},
                "multiply", tiles,
                FixedMatmulArgs<void>{.a = p.a,
                                      .b = p.b,
                                      .c = p.c,
                                      .m = p.m,
                                      .n = p.n,
                                      .k = p.k,
                                      .a_row = p.a_row,
                                      .a_column = p.a_column,
                                      .a_batch = p.a_batch,
                                      .b_row = p.b_row,
                                      .b_column = p.b_column,
                                      .b_batch = p.b_batch,
                                      .tiles_m = tiles_m,
                                      .tiles_n = tiles_n,
                                      .tiles = tiles,
                                      .add = p.add});
}

}  // namespace ebb::cuda
