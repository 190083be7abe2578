#pragma once
#include "cpu/tile/kernels.h"

namespace ebb::cpu {

// Functions without a vector form (lgamma, digamma, polygamma): scalar double code shared by all targets.
ElementwiseFn special_kernel(Op op, RegType type, unsigned scalar_mask);

}  // namespace ebb::cpu
