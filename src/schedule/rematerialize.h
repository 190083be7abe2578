// SPDX-License-Identifier: MIT
#pragma once
#include "schedule/plan.h"

namespace ebb {

// Values that a plan holds for later steps are released and made again, right before those steps, by running the steps
// that filled them once more: from what is there then, or from values that are made again themselves. The steps are the
// same ones, so results have the same bits. Chosen one by one, at the step that takes most memory, by the time that
// each byte costs, until the estimated peak is within `budget`.
//
// Returns whether it is; plan.peak is the new estimate in any case.
bool make_values_again(Plan& plan, const Trace& trace, std::size_t budget);

// Operations of products that take a device as long as a byte of memory traffic.
double flops_per_byte(Device device);

// What the steps of a plan take, in bytes of memory traffic.
double estimated_time(const Plan& plan);

}  // namespace ebb
