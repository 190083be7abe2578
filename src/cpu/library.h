// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "backend/call.h"

namespace ebb::cpu {

// Runs the function of the call's operation.
void run_library(const LibraryCall& call);
bool has_library(Op op);
std::string describe_library(const LibraryCall& call);  // see Backend::describe

}  // namespace ebb::cpu
