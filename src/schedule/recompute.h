// SPDX-License-Identifier: MIT
#pragma once
#include "schedule/fuse.h"

namespace ebb {

// Values that one sweep writes and others read, and that those make sooner from what they read anyway or from less:
// each of them gets copies of the operations. What costs `bytes_of_a_function` is a special function on an element, in
// bytes of memory. Returns whether the graph has changed.
//
// (Training: the gradient of gelu needs its argument and an error function of it. Both are made of a product in bf16
// that is in memory, so nothing in f32 is kept for the backward pass.)
bool compute_again_what_costs_less(ValueGraph& graph, const Fusion& fusion, int bytes_of_a_function);

// Copies that stayed in memory after all, each for a reader of its own, beside equal values that are there earlier:
// what reads a copy reads those. Returns whether the graph has changed.
bool read_what_stays_once(ValueGraph& graph, const Fusion& fusion);

// The number of the first value that is made like v from the same values, by value.
std::vector<std::int32_t> first_of_equals(const ValueGraph& graph);

}  // namespace ebb
