// SPDX-License-Identifier: MIT
#pragma once
#include "schedule/fuse.h"
#include "schedule/schedule_model.h"

namespace ebb {

// Avoids holding a value of the forward pass for a product of the backward pass when a sweep that runs at about that
// time reads all that it is computed from: the output of an activation or a norm, which enters the product for a
// weight's gradient, next to the sweep for the gradient of that activation or norm. That sweep stores the value once
// more, the product waits for it, and nothing is held in between: one write buys the memory. (A Llama of 1.2 billion
// parameters and 16,384 tokens per step holds 6.4 GB less at its peak.)
//
// Applies to values of at least `worth` bytes, for products that take several times as long as that write, if memory
// moves one byte in the time of `flops_per_byte` operations. Returns whether graph and fusion have changed.
bool store_again_what_is_held(ValueGraph& graph, Fusion& fusion, double flops_per_byte,
                              std::int64_t worth = kScheduleModel.worth_storing_again);

}  // namespace ebb
