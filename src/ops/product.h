// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/tensor.h"

namespace ebb {

// matmul of factors cast to this dtype, not yet rounded to halves: f32 for f16 and bf16.
Tensor wide_matmul(const Tensor& a, const Tensor& b, DType dtype);

}  // namespace ebb
