// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "backend/call.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// How a scatter, or sums with several elements per place, are computed.
struct ScatterPlan {
  enum class Kind : std::uint8_t {
    places,        // a thread per line, whose places are on chip
    firsts,        // a thread per element of the index; the first one for a place looks through the rest
    threads,       // a thread per line of the index, in order
    warps,         // a warp per line; those of 32 neighbours that go to the same place take turns
    warp_sums,     // the same with sums in shared memory
    shared,        // a block per piece of a line, with sums in shared memory
    own_sums,      // a block per piece of some neighbouring lines, each thread with its own sum for every place
    exact,         // a thread per element: sums in fixed point do not depend on the order
    sorted,        // elements are sorted by their places first
    runs,          // neighbours that go to the place of their first: sums of runs
    put,           // a thread per element: no two go to the same place
    atomics,       // a thread per element: sums of integers have no order
    table,         // the same, in shared memory first
    last_element,  // a thread per element: the last one for each place is determined first
    last_value,    // the same, with its value stored next to its position; then a thread per place
    last_on_chip,  // a block per line or a few short ones, the same in shared memory
  };
  Kind kind = Kind::threads;
  int threads = 256;  // of a block
  std::int64_t shared_bytes = 0;
  std::int64_t columns = 1;            // own_sums, last_on_chip: neighbouring lines per block
  std::int64_t copies = 1;             // table: shared by lanes
  std::int64_t piece = 0, pieces = 1;  // elements of a line that a block takes; sums of pieces are added in order

  bool operator==(const ScatterPlan&) const = default;
};
// f32 for halves, and f64 for f32 that index_add adds.
DType dtype_of_sums(const LibraryCall& call);
// Plans scatter, scatter_zero_add and index_zero_add. For sums of floats, only a line's length and size, and the number
// of lines side by side after the axis, choose among kinds that add in different orders, so that bits do not depend on
// the batch. Up to GpuModel::line_in_order elements all but own_sums add one after the other.
ScatterPlan plan_scatter(const LibraryCall& call, const GpuModel& model);

std::string describe(const ScatterPlan& plan);  // "block of 256 threads per line, 20480 bytes of shared memory"

}  // namespace ebb::cuda
