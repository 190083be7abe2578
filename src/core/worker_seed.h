// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace ebb {

// For a worker process: makes the calling thread, and every thread not yet seeded, draw other numbers than the parent
// process.
void seed_worker(std::uint64_t seed);

}  // namespace ebb
