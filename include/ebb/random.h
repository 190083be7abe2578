// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/standard.h"

#include <cstdint>

namespace ebb {

// Seeds the calling thread's random numbers; the same seed gives the same numbers on every machine and thread count.
void manual_seed(std::uint64_t seed);

// Random numbers are a function: Philox4x32-10 of (seed, operation number, element index). A generator is just the seed
// and the number of the next random operation, so it can be saved, restored and replayed.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t next_operation = 0;
};

// The calling thread's state: what rand, randn, dropout... draw from.
RandomState& random_state();

}  // namespace ebb
