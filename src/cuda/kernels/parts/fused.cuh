// SPDX-License-Identifier: MIT
// x·y + z, rounded once, of the type computed in.
#pragma once
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

EBB f32 fused(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
EBB f64 fused(f64 x, f64 y, f64 z) { return fma(x, y, z); }

}  // namespace ebb::cuda
