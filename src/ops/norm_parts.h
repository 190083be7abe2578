// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "ebb/tensor.h"

// Shared by the norms and their gradient rules.
namespace ebb {

// The axes of normalized_shape; throws Error naming `op` unless it is the end of x's shape.
std::uint32_t normalized_axes(const char* op, const Tensor& x, const Shape& normalized_shape);

// The mean over these axes, which stay with size 1.
Tensor row_mean(const Tensor& x, std::uint32_t mask);

// (x − mean)·1/sqrt(var + eps) over any axes, as one operation with the rule of layer_norm; x in f32 or f64. A weight
// that is the same along the axes is part of the operation, so that its rule can keep it out of the sums.
Tensor standardized(const Tensor& wide, std::uint32_t axes, double eps, const Tensor& weight = {});

// The same for groups of channels [N, G, D, L], along the last two axes, times weight and plus bias [G, D, 1] (either
// may be undefined): with a weight one operation, whose rule makes the sums over L once for all three gradients.
Tensor standardized_groups(const Tensor& wide, const Tensor& weight, const Tensor& bias, double eps);

// A vector with one element per channel, broadcastable to [N, C, ...]: [C, 1, ...]. Undefined stays undefined.
Tensor along_channels(const Tensor& vector, int rank);
// Throws Error naming `op` unless x is floating [N, C, ...] and the given vectors are [C].
void require_channels(const char* op, const Tensor& x, std::initializer_list<std::pair<const char*, Tensor>> vectors);
// [N, groups, channels of a group, the rest]: the shape that group_norm normalizes along the last two axes. Weight and
// bias are [groups, channels of a group, 1] there, so that one sweep computes everything.
Shape grouped_shape(const char* op, const Tensor& x, std::int64_t groups);
Tensor along_groups(const Tensor& vector, const Shape& grouped);
std::uint32_t all_but_channels(int rank);

// The default eps of rms_norm: the machine epsilon of the dtype.
double rms_norm_eps(DType dtype);

}  // namespace ebb
