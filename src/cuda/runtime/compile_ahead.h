// SPDX-License-Identifier: MIT
#pragma once
#include <future>
#include <string>

namespace ebb::cuda {

// Compiles a text (kernel_cache.h) on a thread of its own: the sweeps of a plan side by side, while the plan is still
// being made. Nobody has to wait for it; exit() waits for those that have begun and drops the others (compiler_use.h).
std::shared_future<void> start_compiling(const std::string& text, const std::string& architecture,
                                         int spill_blocks = 0);

}  // namespace ebb::cuda
