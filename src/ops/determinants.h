// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/tensor.h"

// Inverses and determinants by an operation each, which keeps no factors: see autograd/factors.h for those that share them.
namespace ebb {

Tensor inv_alone(const Tensor& a);
Tensor det_alone(const Tensor& a);
Tensor logdet_alone(const Tensor& a);

}  // namespace ebb
