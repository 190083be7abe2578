// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <vector>

#include "schedule/strip_region.h"

namespace ebb {

// The dtype in which sums over strips are accumulated.
inline DType sum_dtype(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

struct StripBodies {
  std::vector<StripBody> bodies;     // for strips with `length` rows, and for the rest
  std::vector<std::int32_t> inputs;  // values of the graph
  std::vector<StripInput> strip_inputs;
};

// The work on the strips of a round. The graph may get copies of values that strips cannot read as they are stored.
// Empty: some result would not have memory of its own.
std::optional<StripBodies> make_bodies(ValueGraph& graph, const StripRegion& region, const StripRegion::Round& round,
                                       const StripModel& model, Device device, std::int64_t length);

}  // namespace ebb
