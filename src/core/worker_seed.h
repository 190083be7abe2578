#pragma once
#include <cstdint>

namespace ebb {

// For a process that works for another: the calling thread, and every thread that was not seeded yet, draws other
// numbers than in the process it was made by.
void seed_worker(std::uint64_t seed);

}  // namespace ebb
