// SPDX-License-Identifier: MIT
#pragma once
#include <span>

#include "backend/backend.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// Performs all copies by one launch (by several if there are very many).
void copy_bytes(Gpu& gpu, std::span<const CopyCall> copies);

}  // namespace ebb::cuda
