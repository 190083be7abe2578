// SPDX-License-Identifier: MIT
// Copies of bytes: blocks take turns among them.
#pragma once
#include "cuda/kernels/args/copy_bytes.h"
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kMost = 8;  // how many there can be
#endif

using Args = CopyBytesArgs<kMost>;

extern "C" __global__ void __launch_bounds__(kThreads) copy_bytes(const Args a) {
  const i64 k = blockIdx.x % (unsigned)a.count, first = (i64)(blockIdx.x / (unsigned)a.count) * kThreads + threadIdx.x;
  const i64 step = (i64)(gridDim.x / (unsigned)a.count) * kThreads;
  char* const to = a.of[k].to;
  const char* const from = a.of[k].from;
  const i64 bytes = a.of[k].bytes, words = (((u64)to | (u64)from) & 7) == 0 ? bytes / 8 : 0;
  for (i64 i = first; i < words; i += step) ((u64*)to)[i] = ((const u64*)from)[i];
  for (i64 i = words * 8 + first; i < bytes; i += step) to[i] = from[i];
}

}  // namespace ebb::cuda
