// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "schedule/delay.h"
#include "schedule/fuse.h"

namespace ebb {

// Groups values one after the other: each joins the groups of its inputs where it fits, on the lowest level that
// `not_before` (one per value, or empty) allows. Those that did not fit are added to the refusals.
Fusion place_values(const ValueGraph& graph, const std::vector<int>& not_before, Refusals& refusals,
                    Reductions reductions);

}  // namespace ebb
