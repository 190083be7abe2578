// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/ops/linalg.h"

// Products with an addend, distances, trace and Kronecker product.
namespace ebb {

// x·weightᵀ + bias for x [..., in], weight [out, in] and an optional bias [out].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// beta·input + alpha·(a·b) of matrices, and of batches of them, rounded once. With beta = 0 input is ignored.
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);

// ‖aᵢ − bⱼ‖_p for every row of a [..., m, k] and b [..., n, k]: [..., m, n]. Gradient 0 where the rows are equal.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

// ‖xᵢ − xⱼ‖_p for every pair of rows i < j of a matrix, in the order (0, 1), (0, 2), ..., (1, 2), ...
Tensor pdist(const Tensor& x, double p = 2);

// ‖a − b + eps‖_p along the last axis.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6, bool keepdim = false);

// a·b / (max(‖a‖, eps)·max(‖b‖, eps)) along an axis.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t axis = 1, double eps = 1e-8);

Tensor trace(const Tensor& x);                  // Σ of the diagonal of the last two axes
Tensor kron(const Tensor& a, const Tensor& b);  // blocks aᵢⱼ·b, for up to four axes

}  // namespace ebb
