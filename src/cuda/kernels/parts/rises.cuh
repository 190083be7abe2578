// SPDX-License-Identifier: MIT
// The order of elements: NaN is above all numbers, and -0 is 0.
#pragma once
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kFloating = true;
#endif

EBB bool rises(A a, A b) { return a < b || (kFloating && b != b && a == a); }

}  // namespace ebb::cuda
