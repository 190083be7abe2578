// SPDX-License-Identifier: MIT
#pragma once
#include "schedule/plan.h"

namespace ebb {

// Releases values that a plan holds for later steps and recomputes them right before those steps, by running the steps
// that filled them once more: from what is there then, or from values that are themselves recomputed. The steps are the
// same, so results are bit-identical. Values are chosen one by one, at the step that takes most memory, by the time
// each byte costs, until the estimated peak is within `budget`.
//
// Returns whether it is; plan.peak is the new estimate in any case.
bool make_values_again(Plan& plan, const Trace& trace, std::size_t budget);

// Operations of a product that take a device as long as one byte of memory traffic.
double flops_per_byte(Device device);

// Estimated time of a plan's steps, in bytes of memory traffic.
double estimated_time(const Plan& plan);

}  // namespace ebb
