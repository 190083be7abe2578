// SPDX-License-Identifier: MIT
#pragma once
#include "backend/call.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

bool has_library(Op op);
void run_library(const LibraryCall& call, Gpu& gpu, const RunMarkPtr& mark);

}  // namespace ebb::cuda
