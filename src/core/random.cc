// SPDX-License-Identifier: MIT
#include "core/random.h"

#include <Random123/philox.h>

#include <atomic>

#include "core/worker_seed.h"
#include "ebb/random.h"

namespace ebb {
namespace {

std::atomic<std::uint64_t>& next_seed() {
  static std::atomic<std::uint64_t> seed{0};
  return seed;
}

}  // namespace

// A thread that was never seeded uses its position in the order of first uses as its seed: threads do not repeat each
// other's numbers, and a single-threaded program draws the same numbers in every run.
RandomState& random_state() {
  thread_local RandomState state{next_seed().fetch_add(1, std::memory_order_relaxed), 0};
  return state;
}

void seed_worker(std::uint64_t seed) {
  next_seed().store(seed + 1, std::memory_order_relaxed);
  manual_seed(seed);
}

void manual_seed(std::uint64_t seed) { random_state() = {seed, 0}; }

// The key is the seed; the counter is the block in its lower and the operation in its upper 64 bits.
void philox_block(std::uint64_t seed, std::uint64_t operation, std::uint64_t block, std::uint32_t words[4]) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const r123::Philox4x32::ctr_type counter = {{low(block), high(block), low(operation), high(operation)}};
  const r123::Philox4x32::key_type key = {{low(seed), high(seed)}};
  const r123::Philox4x32::ctr_type out = r123::Philox4x32()(counter, key);
  for (unsigned i = 0; i < 4; ++i) words[i] = out[i];
}

}  // namespace ebb
