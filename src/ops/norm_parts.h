#pragma once
#include <cstdint>

#include "ebb/tensor.h"

// What the norms and their gradient rules share.
namespace ebb {

// The axes normalized_shape stands for; throws Error naming `op` unless it is the end of x's shape.
std::uint32_t normalized_axes(const char* op, const Tensor& x, const Shape& normalized_shape);

// The mean over these axes, which stay with size 1.
Tensor row_mean(const Tensor& x, std::uint32_t mask);

// The default eps of rms_norm: the distance from 1 to the next number of the dtype.
double rms_norm_eps(DType dtype);

}  // namespace ebb
