// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/tensor.h"

namespace ebb {

// Sums of integers and bool are i64; sums of f16 and bf16 are computed in f32 and rounded once. Reduced axes disappear
// unless keepdim keeps them with size 1.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);  // f32 for integers; NaN for an empty tensor
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

// The largest and smallest element; NaN if any is NaN. An error if there are none. Equal ones share the gradient
// equally.
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

// Σ (x − mean)² / (n − correction), and its square root (torch.std; the name `std` is taken in C++). Where the
// deviation is 0, so is its gradient.
Tensor var(const Tensor& x, const Axes& axes = {}, bool keepdim = false, double correction = 1);
Tensor stddev(const Tensor& x, const Axes& axes = {}, bool keepdim = false, double correction = 1);

// (Σ |x|^p)^(1/p); p may be infinity (max |x|), −infinity (min |x|) or 0 (the number of nonzero elements). Where it is
// 0, so is its gradient: at the zero vector, and for p < 0 if any element is zero.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keepdim = false);

// log Σ exp x without overflow; −inf when every element is −inf, with gradient 0.
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdim = false);  // bool: some element is nonzero
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

// Position (i64) of the first largest or smallest element, along an axis or in the flattened tensor.
Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false);

Tensor cumsum(const Tensor& x, std::int64_t axis);
Tensor cumprod(const Tensor& x, std::int64_t axis);

// The lower of the two middle elements; NaN if any element is NaN.
Tensor median(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false);
// Linear interpolation between the two neighbours of position q·(n−1) in the sorted elements; 0 ≤ q ≤ 1.
Tensor quantile(const Tensor& x, double q, std::optional<std::int64_t> axis = {}, bool keepdim = false);
// Several quantiles, stacked along a new first axis.
Tensor quantile(const Tensor& x, const std::vector<double>& q, std::optional<std::int64_t> axis = {},
                bool keepdim = false);

}  // namespace ebb
