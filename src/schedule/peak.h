// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "schedule/plan.h"

namespace ebb {

// The most memory a plan will take: what it reads from memory, what its steps fill and have not yet released, and what
// strips hold temporarily. Workspaces of calls are not known here.
Peak estimate_peak(const Plan& plan, const Trace& trace);

// Bytes that a value takes while it is held: the visible part of a leaf, all outputs of a call.
std::size_t held_bytes(const Plan& plan, const Trace& trace, std::int32_t v);
// Bytes that a strip holds besides its results.
std::size_t bytes_of_strip(const StripLoop& loop);

// "about 1.2 GiB: f32[8192, 50257] of matmul 1.5 GiB, ..."
std::string describe(const Peak& peak, const Plan& plan);

// "1.2 GiB"
std::string bytes_text(std::size_t bytes);

}  // namespace ebb
