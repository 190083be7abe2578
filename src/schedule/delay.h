#pragma once
#include <vector>

#include "schedule/fuse.h"

namespace ebb {

// When work should wait for a later level. Both inspect a finished fusion and return, for each value, the earliest
// level at which the next round of fusion may place it.

// For values that only later levels need. `moved` is the result of an earlier round.
std::vector<int> latest_levels(const ValueGraph& graph, const Fusion& fusion, const std::vector<int>& moved);

// For whole sweeps whose values a later sweep reads again; raises entries of `delay`.
void delay_groups(const ValueGraph& graph, const Fusion& fusion, const std::vector<int>& moved,
                  std::vector<int>& delay);

// Where such a sweep waits, what a total is computed from stays behind with the total. Cheap values among them that the
// sweep also needs are computed in both instead of going through memory. Returns whether the graph has changed.
bool compute_twice_what_totals_share(ValueGraph& graph, const Fusion& fusion);

}  // namespace ebb
