// SPDX-License-Identifier: MIT
#pragma once
#include <span>

#include "backend/backend.h"

// Sweeps that compute nothing: their elements are copied, without tiles.
namespace ebb::cpu {

// Null for other sweeps.
SweepPtr moving_sweep(const Program& program);
// False if the sweep does not come from moving_sweep().
bool run_moving_sweep(const ebb::CompiledSweep& sweep, std::span<const Argument> arguments, std::int64_t first_row);

}  // namespace ebb::cpu
