// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/runtime/kernel_source.h"

namespace ebb::cuda {

// The kernel of token_statistics.cuh.
KernelSource token_statistics_source(bool entropy, bool argmax);

}  // namespace ebb::cuda
