// SPDX-License-Identifier: MIT
#pragma once
#include "backend/call.h"

namespace ebb::cpu {

// Runs the function of the call's operation, from whichever room has it.
void run_library(const LibraryCall& call);
bool has_library(Op op);

}  // namespace ebb::cpu
