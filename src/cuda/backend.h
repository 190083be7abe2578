// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "backend/backend.h"

namespace ebb::cuda {

class Gpu;

// The backend of a GPU, made on first use; null where there is no such GPU (or no driver).
Backend* backend(int index);

Gpu& gpu(int index);  // must exist

void* copy_stream(int index);     // see core/copy_stream.h
int count();                      // of GPUs
std::string describe(int index);  // "NVIDIA H200, 132 multiprocessors, compute capability 9.0, 139.8 GiB"
std::string why_unavailable(int index);

}  // namespace ebb::cuda
