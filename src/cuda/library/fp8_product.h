// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "backend/call.h"
#include "calls/fp8_product.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// out = a·b of matrices whose factors are rounded to eight bits: see calls/fp8_product.h. `add`: accumulates into out,
// f32.
void multiply_fp8(Gpu& gpu, const View& a, const View& b, const View& out, const Fp8Product& how, bool add);
std::string describe_fp8(const LibraryCall& call);

}  // namespace ebb::cuda
