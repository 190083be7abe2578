// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <vector>

#include "schedule/strip_region.h"

namespace ebb {

// What sums over strips are added up in.
inline DType sum_dtype(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

struct StripBodies {
  std::vector<StripBody> bodies;     // of strips with `length` rows, and of the rest
  std::vector<std::int32_t> inputs;  // values of the graph
  std::vector<StripInput> strip_inputs;
};

// The work on the strips of a round. The graph may get copies of what strips cannot read as it lies. Nothing: some
// result would not have memory of its own.
std::optional<StripBodies> make_bodies(ValueGraph& graph, const StripRegion& region, const StripRegion::Round& round,
                                       const StripModel& model, Device device, std::int64_t length);

}  // namespace ebb
