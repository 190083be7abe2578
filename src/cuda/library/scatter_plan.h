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
    shared,        // a block per piece of a line, the same with sums in shared memory
    own_sums,      // a block per piece of some neighbouring lines, where each thread has its own sum for every place
    exact,         // a thread per element: sums in fixed point have no order either
    sorted,        // elements are sorted by their places first
    put,           // a thread per element: no two go to one place
    atomics,       // a thread per element: sums of integers have no order
    table,         // the same, in shared memory first
    last_element,  // a thread per element: the last one for each place is found first
    last_value,    // the same, with its value beside its position; then a thread per place
    last_on_chip,  // a block per line, the same in shared memory
  };
  Kind kind = Kind::threads;
  int threads = 256;  // of a block
  std::int64_t shared_bytes = 0;
  std::int64_t columns = 1;            // own_sums: neighbouring lines of a block
  std::int64_t copies = 1;             // table: that lanes share
  std::int64_t piece = 0, pieces = 1;  // elements of a line that a block takes; sums of pieces are added in order

  bool operator==(const ScatterPlan&) const = default;
};
// Sums are f32 for halves, and f64 for f32 that index_add adds.
DType dtype_of_sums(const LibraryCall& call);
// Of scatter, scatter_zero_add and index_zero_add. Sums of floats: a line's length and size, and how many lines lie
// side by side behind the axis, alone decide among kinds that add in different orders, so that its bits do not depend
// on the batch.
ScatterPlan plan_scatter(const LibraryCall& call, const GpuModel& model);

std::string describe(const ScatterPlan& plan);  // "block of 256 threads per line, 20480 bytes of shared memory"

}  // namespace ebb::cuda
