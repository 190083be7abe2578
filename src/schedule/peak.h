// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "schedule/plan.h"

namespace ebb {

// How much memory a plan will take at most: what it reads from memory, what its steps fill and have not yet released,
// and what strips hold on the way. Workspaces of calls are not known here.
Peak estimate_peak(const Plan& plan, const Trace& trace);

// "about 1.2 GiB: f32[8192, 50257] of matmul 1.5 GiB, ..."
std::string describe(const Peak& peak, const Plan& plan);

// "1.2 GiB"
std::string bytes_text(std::size_t bytes);

}  // namespace ebb
