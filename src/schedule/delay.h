// SPDX-License-Identifier: MIT
#pragma once
#include <set>
#include <utility>
#include <vector>

#include "schedule/fuse.h"

namespace ebb {

// Readers, and values they read but cannot have in their own sweep: this shows only while both are on one level, so it
// is kept from round to round.
using Refusals = std::set<std::pair<std::int32_t, std::int32_t>>;

// Which work should wait for a later level. Both functions inspect a finished fusion and return, for each value, the
// earliest level at which the next round of fusion may place it.

// When a value could be made, and when its sweep (or call) could run, if nothing waited except for `delay`.
struct Levels {
  std::vector<int> own, sweep;
};
Levels natural_levels(const ValueGraph& graph, const Fusion& fusion, const Refusals& refusals,
                      const std::vector<int>& delay);

// For values that only later levels need.
std::vector<int> latest_levels(const ValueGraph& graph, const Fusion& fusion, const Levels& levels,
                               const Refusals& refusals);

// For whole sweeps whose values a later sweep reads again; raises entries of `delay`. `moved` says what an earlier
// round delayed. What cannot share a sweep is known from the two's present levels, or from the refusals.
void delay_groups(const ValueGraph& graph, const Fusion& fusion, const std::vector<int>& moved,
                  const Refusals& refusals, bool by_level, std::vector<int>& delay);

// Where such a sweep waits, what a total is computed from stays behind with the total. Cheap values among them that the
// sweep also needs are computed in both instead of going through memory. Returns whether the graph has changed.
bool compute_twice_what_totals_share(ValueGraph& graph, const Fusion& fusion);

}  // namespace ebb
