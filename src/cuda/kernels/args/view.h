// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

// Up to eight dimensions, at the end; those that are missing have size 1. `factor` and `shift` divide numbers below
// 2^31 by a size: see divided_by in parts/view.cuh.
struct KernelView {
  char* data;
  i64 n, size[8], stride[8];
  u32 factor[8];
  u8 shift[8];
};
EBB_ARGS(23, KernelView);

}  // namespace ebb::cuda
