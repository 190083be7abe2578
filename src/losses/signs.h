// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/tensor.h"

namespace ebb {

// y, which must be 1 or −1 everywhere; otherwise evaluating it is an Error that begins with `label`.
Tensor checked_sign(const Tensor& y, const char* label);

// max(0, margin − y·x), with a single rule: the sign of the slope −y goes into the cotangent, which is mostly one
// number, and not into an operation per element.    dx = −g·y, dy = −g·x, both 0 where margin <= y·x
Tensor hinge_of(double margin, const Tensor& y, const Tensor& x);

}  // namespace ebb
