// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "backend/call.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// How a scatter, or sums of what it would put to the same place, are made.
struct ScatterPlan {
  enum class Kind : std::uint8_t {
    threads,       // a thread per line of the index, in order
    warps,         // a warp per line; those of 32 neighbours that go to one place take turns
    shared,        // a block per line, the same with sums in shared memory
    sorted,        // elements are sorted by their places first
    put,           // a thread per element: no two go to one place
    atomics,       // a thread per element: sums of integers have no order
    last_element,  // a thread per element: the last one for each place is found first
  };
  Kind kind = Kind::threads;
  int threads = 256;  // of a block
  std::int64_t shared_bytes = 0;

  bool operator==(const ScatterPlan&) const = default;
};
// Of scatter and scatter_zero_add. Sums of floats: a line's length and size alone decide among kinds that add in
// different orders, so that its bits do not depend on how many there are.
ScatterPlan plan_scatter(const LibraryCall& call, const GpuModel& model);

std::string describe(const ScatterPlan& plan);  // "block of 256 threads per line, 20480 bytes of shared memory"

}  // namespace ebb::cuda
