// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "schedule/plan.h"

// Plans of graphs in which each formula is one node (graph/formula.h). Such a plan equals that of the graph with all
// nodes of the formulas, in the order of its trace before they were made.
namespace ebb {

// Makes the plan for the trace `before` from the one for `after`, in which the formulas' nodes are made. Nodes of both
// must be alive. There is none
// - where a run would need more of the new nodes than their numbers;
// - where one of these numbers equals one of the trace: a plan merges equal numbers, but the key does not cover a
//   formula's own numbers;
// - where another thread has computed part of the graph between the traces.
struct Folding {
  std::optional<Plan> plan;
  bool needs_nodes = false;  // the first of these cases
};
Folding folded(const Plan& plan, const Trace& after, const Trace& before);

// May a plan be run for the trace? Not where a number of the trace equals one that a formula brings along.
bool numbers_are_apart(const Plan& plan, const Trace& trace);

}  // namespace ebb
