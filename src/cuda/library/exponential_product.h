// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "cuda/kernels/args/exponentials.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// Rows of exp(x·Wᵀ − reference) in bf16, x [rows, width], W [classes, width]. Products x·Wᵀ are
// summed in f32 and rounded to bf16, as a Linear layer's would be, before they are exponentiated.
struct ExponentialProduct {
  std::int64_t rows = 0, classes = 0, step = 0, width = 0;  // rows of `out` are `step` apart
  const void *x = nullptr, *head = nullptr;
  void* out = nullptr;
  const void* reference = nullptr;  // f32, of each row
  const void* chosen = nullptr;     // i32, of each row: whose product is wanted in `own`, -1: none
  void* own = nullptr;              // f32
  void* parts = nullptr;  // f32 [rows, tiles_of(classes)]: sums of a row's exponentials before they are rounded
};

inline std::int64_t tiles_of(std::int64_t classes) {
  return (classes + ExponentialTile::kColumns - 1) / ExponentialTile::kColumns;
}

// One kernel whose exponentials hide behind the tensor cores' work, so that logits are never read again. It needs
// Hopper's warpgroup products and copies of tiles, and rows that begin at multiples of 16 bytes.
bool can_make_exponentials(const Gpu& gpu, const ExponentialProduct& p);
void make_exponentials(Gpu& gpu, const ExponentialProduct& p);
KernelSource exponentials_source();

}  // namespace ebb::cuda
