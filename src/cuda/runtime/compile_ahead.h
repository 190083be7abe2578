// SPDX-License-Identifier: MIT
#pragma once
#include <future>
#include <string>

namespace ebb::cuda {

// Compiles a text (kernel_cache.h) on a thread of its own: the sweeps of a plan in parallel, while the plan is made.
// Waiting for it is optional; exit() waits for compilations in progress and drops the others (compiler_use.h).
std::shared_future<void> start_compiling(const std::string& text, const std::string& architecture,
                                         int spill_blocks = 0);

}  // namespace ebb::cuda
