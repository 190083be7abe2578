// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

// Up to eight dimensions; those that are missing have size 1.
struct KernelView {
  char* data;
  i64 n, size[8], stride[8];
};
EBB_ARGS(18, KernelView);

}  // namespace ebb::cuda
