// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace ebb {

// For a worker process: the calling thread, and every thread that was not yet seeded, draws different numbers than in
// the parent process.
void seed_worker(std::uint64_t seed);

}  // namespace ebb
