#pragma once
#include <vector>

#include "schedule/fuse.h"

namespace ebb {

// When work should wait for a later level. Both look at a finished fusion and give, for each value, the level the next
// round of fusion must not place it before.

// For values that only later levels need. `moved` is what an earlier round was told to wait for.
std::vector<int> latest_levels(const ValueGraph& graph, const Fusion& fusion, const std::vector<int>& moved);

// For whole sweeps whose large values a later sweep reads again; raises entries of `delay`.
void delay_groups(const ValueGraph& graph, const Fusion& fusion, const std::vector<int>& moved,
                  std::vector<int>& delay);

}  // namespace ebb
