// SPDX-License-Identifier: MIT
#pragma once
#include <utility>

#include "ebb/tensor.h"

// P·A = L·U of matrices in f32 or f64, factored once for all that is made of it in one evaluation: determinants and
// their gradients. Without history: the functions that use it have rules of their own.
namespace ebb {

// From so many rows on, determinants and inverses share their factors with their gradients. Smaller matrices are factored faster
// than factors are stored.
constexpr std::int64_t kSharedFactors = 33;

// [..., n + 1, n]: U on and above the diagonal, L below it, and a last row of which row of A became which, counted from
// 1, where the first number is negative if an odd number of rows was exchanged.
Tensor packed_factors(const Tensor& a);

Tensor determinant_of(const Tensor& packed);
// The sign of the determinant and the logarithm of its absolute value.
std::pair<Tensor, Tensor> signed_logarithm_of(const Tensor& packed);
// A⁻¹, with the history of A. An Error for a pivot of zero.
Tensor inverse_by_factors(const Tensor& a);

}  // namespace ebb
