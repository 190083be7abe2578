// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>

#include "schedule/fuse.h"

namespace ebb {

// Queries about where values were placed.
struct Placed {
  const ValueGraph& g;
  const Fusion& f;

  const Placement& of(std::int32_t v) const { return f.places[v]; }
  const Placement& of_base(std::int32_t v) const { return f.places[g.base(v)]; }

  int level(std::int32_t v) const { return std::max(of(v).level, of_base(v).level); }
  // Does a sweep or a call make it, or is it there from the start?
  bool computed(std::int32_t v) const {
    const Value& b = g.values[g.base(v)];
    return of_base(v).group >= 0 || b.op == Op::output || b.is_call();
  }
  // The first level at which v can be read from memory.
  int ready(std::int32_t v) const { return level(v) + (computed(v) ? 1 : 0); }
  // Can a member of v's group read v while the sweep runs?
  bool usable_inside(std::int32_t v) const {
    const Value& x = g.values[v];
    return of_base(v).group >= 0 && (!x.is_view() || x.mappable) && level(v) == of_base(v).level;
  }
  bool inside(std::int32_t v, int at_level) const { return usable_inside(v) && of_base(v).level == at_level; }
};

}  // namespace ebb
