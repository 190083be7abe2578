// SPDX-License-Identifier: MIT
#include "schedule/attempt.h"

#include <algorithm>

namespace ebb {

AxisMap seen_map(const ValueGraph& graph, const Fusion& fusion, std::int32_t v) {
  const Value& x = graph.values[v];
  if (!x.is_view()) return fusion.places[v].map;
  const AxisMap& base = fusion.places[x.base].map;
  AxisMap map{};
  for (int d = 0; d < x.shape.rank(); ++d) {
    map[d] = x.shape[d] == 1 ? kUnit : x.shows[d] < 0 ? kFree : base[x.shows[d]];
  }
  return map;
}

std::optional<Trial> Attempts::attempt(std::int32_t v, int level) {
  const Value& x = value(v);
  switch (info(x.op).cls) {
    case OpClass::elementwise:
      return attempt_elementwise(v, level);
    case OpClass::reduce:
      return attempt_reduce(v, level);
    default:
      return x.op == Op::pick ? attempt_pick(v, level) : attempt_place(v, level);
  }
}

std::optional<Trial> Attempts::attempt_with(std::int32_t v, int level, std::int32_t base) {
  alone_ = base;
  std::optional<Trial> t = attempt(v, level);
  alone_ = -1;
  return t;
}

// Does memory v have different elements along d?
bool Attempts::memory_varies(std::int32_t v, int d) const {
  const Value& x = value(v);
  if (x.shape[d] == 1) return false;
  if (x.is_leaf && x.op != Op::data) return x.op != Op::constant;
  if (x.is_view()) return x.strides[d] != 0;
  return !x.is_leaf || x.strides[d] != 0;
}

bool Attempts::take_in(Trial& t, std::int32_t in, int rank) const {
  const int h = placed_.of_base(in).group;
  return t.take_in(h, f_.groups[h], seen_map(g_, f_, in), rank);
}

// Where the trial makes the whole space one row, an earlier total would still be ready only in the epilogue.
bool Attempts::totals_fit(const Trial& t) const {
  auto has_totals = [this](int group) {
    const SweepGroup& g = f_.groups[group];
    return g.rows != 0 && std::any_of(g.members.begin(), g.members.end(),
                                      [this](std::int32_t m) { return f_.places[m].post != Post::no; });
  };
  if (t.rows != 0 || t.into < 0) return true;
  return !has_totals(t.into) && std::none_of(t.renamed.begin(), t.renamed.end(),
                                             [&](const auto& renamed) { return has_totals(renamed.first); });
}

std::uint32_t Attempts::signature_of(const Trial& t, std::int32_t in) const {
  return t.renamed_set(placed_.of_base(in).group, placed_.of_base(in).varies);
}

}  // namespace ebb
