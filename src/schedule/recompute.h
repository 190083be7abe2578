// SPDX-License-Identifier: MIT
#pragma once
#include "schedule/fuse.h"

namespace ebb {

// For values that one sweep writes and others read, and that those can compute sooner from what they read anyway or
// from less: gives each reader copies of the operations. `bytes_of_a_function`: the cost of a special function on an
// element, in bytes of memory traffic. Returns whether the graph has changed.
//
// (Training: the gradient of gelu needs its argument and an error function of it. Both follow from a bf16 product that
// is in memory, so nothing in f32 is kept for the backward pass.)
bool compute_again_what_costs_less(ValueGraph& graph, const Fusion& fusion, int bytes_of_a_function);

// For copies that stayed in memory after all, one per reader, although equal values are there earlier: redirects
// readers of a copy to those. Returns whether the graph has changed.
bool read_what_stays_once(ValueGraph& graph, const Fusion& fusion);

// For each value, the first one computed in the same way from the same values.
std::vector<std::int32_t> first_of_equals(const ValueGraph& graph);

}  // namespace ebb
