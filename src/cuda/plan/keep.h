// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cuda/plan/kernel_plan.h"

namespace ebb::cuda {

// Values of the line that each pass over a row computes, pass by pass.
using PassRoots = std::vector<std::vector<std::int32_t>>;
// Values that each pass finds in shared memory in addition to operands.
using KeptBefore = std::vector<std::vector<KeptValue>>;

// Chooses which values to keep. Staged operands have their chunks in order; `coarse`: values of quick functions.
KeptBefore keep_values(const Program& program, const GpuModel& model, const std::vector<std::int32_t>& staged,
                       const PassRoots& passes, const std::vector<char>& coarse);

}  // namespace ebb::cuda
