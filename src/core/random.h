#pragma once
#include <cstdint>

namespace ebb {

// Random numbers are a function: Philox4x32-10 of (seed, operation number, element index). A generator is only the seed
// and the number the next random operation will take, so it can be saved, restored and replayed.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t next_operation = 0;
};

// The calling thread's state: what rand, randn, dropout... draw from.
RandomState& random_state();

// Four 32-bit words for elements 4·block .. 4·block+3 of operation `operation`.
void philox_block(std::uint64_t seed, std::uint64_t operation, std::uint64_t block, std::uint32_t words[4]);

}  // namespace ebb
