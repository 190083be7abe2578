#pragma once
#include <vector>

#include "schedule/fuse.h"

namespace ebb {

// When work should wait for a later level. Both look at a finished fusion and give, for each value, the level the next
// round of fusion must not place it before.

// For values that only later levels need. `moved` is what an earlier round was told to wait for.
std::vector<int> latest_levels(const ValueGraph& graph, const Fusion& fusion, const std::vector<int>& moved);

// For whole sweeps whose values a later sweep reads again; raises entries of `delay`.
void delay_groups(const ValueGraph& graph, const Fusion& fusion, const std::vector<int>& moved,
                  std::vector<int>& delay);

// Where such a sweep waits, what a total is made of stays behind with the total. Cheap values among them that the sweep
// needs too are computed once for each instead of going through memory. Says whether the graph has changed.
bool compute_twice_what_totals_share(ValueGraph& graph, const Fusion& fusion);

}  // namespace ebb
