// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/tensor.h"

// Products of matrices whose factors are rounded to eight bits, for layers where speed counts for more than digits: an
// H200 multiplies them twice as fast as bf16.
namespace ebb {

// linear(x, weight, bias) with factors rounded to e4m3 (four significant bits), every row of x and of the weight with a
// power of two as its scale; sums are f32. Its gradients are products of the same kind, in which cotangents are rounded
// to e5m2 (three bits, more range) and rows and columns along the sum have scales of their own. x and weight are f32,
// f16 or bf16. The CPU, and GPUs without FP8, round the same numbers and multiply them as bf16.
Tensor fp8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// How far c = Σ a·b of k products is off at most:
//   |error| ≤ products·Σ|a·b| + left·max|a|·Σ|b| + right·max|b|·Σ|a|
// with the sums and maxima over the k factors of c. `result` is the dtype of c; in a gradient the left factor is the
// cotangent. Rounding the factors has most part in it; of the sum it has k·2⁻¹⁸, since FP8 units of GPUs keep fewer
// digits than f32 (NVIDIA does not say how many; tests compare).
struct Fp8ErrorBound {
  double products = 0, left = 0, right = 0;
};
Fp8ErrorBound fp8_error_bound(std::int64_t k, DType result = DType::f32, bool gradient = false);

}  // namespace ebb
