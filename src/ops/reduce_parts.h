// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/tensor.h"

// Shared by logsumexp and its gradient rule: built identically, so that merging common subexpressions leaves one
// exponential per element when both are requested.
namespace ebb {

// terms = exp(x − shift), total = Σ terms over the axes of the mask, which stay with size 1. shift = max x, or 0 where
// that is not finite (−inf − −inf is not a number); it carries no history, because terms/total does not depend on it.
struct ShiftedExp {
  Tensor shift, terms, total;
};
ShiftedExp shifted_exp(const Tensor& x, std::uint32_t mask);

}  // namespace ebb
