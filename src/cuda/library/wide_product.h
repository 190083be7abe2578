// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cuda/kernels/args/wide_product.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// x·Wᵀ of bf16, x [rows, width], W [classes, width], both dense, by a kernel over parts/wide_product.cuh.
struct WideFactors {
  std::int64_t rows = 0, classes = 0, width = 0;
  const void *x = nullptr, *head = nullptr;
};

inline std::int64_t tiles_of(std::int64_t classes) { return (classes + WideTile::kColumns - 1) / WideTile::kColumns; }

// Such kernels need Hopper's warpgroup products and tile copies, rows that begin at multiples of 16 bytes, and this
// much shared memory.
bool can_be_wide(const Gpu& gpu, const WideFactors& factors, unsigned shared_bytes);
WideProductArgs wide_product_args(const WideFactors& factors);
void launch_wide(Gpu& gpu, const KernelSource& source, const char* kernel, const WideFactors& factors,
                 const KernelArgs& args, unsigned shared_bytes);

}  // namespace ebb::cuda
