// SPDX-License-Identifier: MIT
// For an editor: what element_text() of cuda/library/kernels.h makes for a dtype, here for bf16.
#pragma once
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

typedef u16 T;  // in memory
typedef f32 A;  // computed in
EBB A load(T x) { return from_bf16(x); }
EBB T store(A x) { return to_bf16(x); }

}  // namespace ebb::cuda
