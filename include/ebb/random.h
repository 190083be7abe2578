#pragma once
#include <cstdint>

namespace ebb {

// Seeds the calling thread's random numbers; the same seed gives the same numbers on every machine and thread count.
void manual_seed(std::uint64_t seed);

}  // namespace ebb
