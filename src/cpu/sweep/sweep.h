// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <span>

#include "backend/backend.h"

namespace ebb::cpu {

// A sweep compiled for this machine: kernels chosen, registers assigned to tiles.
SweepPtr compile(const Program& program);

// Binds the program's slots and runs it. Data-dependent errors (an index out of range, a failed check) are thrown when
// all rows are done, for the lowest position.
void run(const ebb::CompiledSweep& sweep, std::span<const Argument> arguments, std::int64_t first_row = 0);

}  // namespace ebb::cpu
