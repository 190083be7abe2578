#pragma once
#include <future>
#include <string>

namespace ebb::cuda {

// Compiles a text (kernel_cache.h) on a thread of its own: the sweeps of a plan side by side, while the plan is still
// being made. Nobody has to wait for it; the process does not end in the middle of it.
std::shared_future<void> start_compiling(const std::string& text, const std::string& architecture);

}  // namespace ebb::cuda
