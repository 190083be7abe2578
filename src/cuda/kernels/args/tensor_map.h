// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

// How a matrix is cut into tiles: the driver's CUtensorMap.
struct alignas(64) TensorMap {
  u64 words[16];
};

}  // namespace ebb::cuda
