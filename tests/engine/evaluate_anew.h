// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <vector>

#include "schedule/graph_run.h"

namespace ebb {

// Planned anew: a cached plan would keep the loops it was made with.
inline void evaluate_anew(const std::vector<Tensor>& roots) {
  const OwnedTrace traced = trace_of(roots);
  const std::uint64_t part = GraphLock::bit(*roots[0].node());
  Claim claim(roots, part);
  GraphRun::Room room;
  GraphRun(std::make_shared<const Plan>(make_plan(traced.trace)), traced.trace.nodes, part, room).run(claim);
}

}  // namespace ebb
