// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "cuda/kernels/args/exponentials.h"
#include "cuda/library/wide_product.h"

namespace ebb::cuda {

// Rows of exp(x·Wᵀ − reference) in bf16, x [rows, width], W [classes, width]. Products x·Wᵀ are
// summed in f32 and rounded to bf16, as a Linear layer's would be, before they are exponentiated.
struct ExponentialProduct {
  WideFactors factors;
  std::int64_t step = 0;  // distance between rows of `out`
  void* out = nullptr;
  const void* reference = nullptr;  // f32, of each row
  const void* chosen = nullptr;     // i32, of each row: the column whose product is written to `own`, -1: none
  void* own = nullptr;              // f32
  void* parts = nullptr;  // f32 [rows, tiles_of(classes)]: sums of a row's exponentials before they are rounded
};

// One kernel whose exponentials are hidden by the tensor cores' work, so that logits are never read again.
bool can_make_exponentials(const Gpu& gpu, const ExponentialProduct& p);
void make_exponentials(Gpu& gpu, const ExponentialProduct& p);
KernelSource exponentials_source();

}  // namespace ebb::cuda
