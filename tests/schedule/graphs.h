// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <vector>

#include "ebb/ebb.h"
#include "graph/formula.h"
#include "graph/lock.h"
#include "schedule/fuse.h"
#include "schedule/plan.h"

// Results of the schedule's passes on a few tensors, without running anything.
namespace ebb::testing {

inline Tensor leaf(const Shape& shape) { return randn(shape).eval(); }

template <class Pass>
auto after(const std::vector<Tensor>& roots, Pass pass) {
  std::vector<Node*> nodes;
  for (const Tensor& t : roots) nodes.push_back(t.node());
  for (;;) {
    Trace t;
    t.device = default_device();
    std::vector<Tensor> traced;
    {
      GraphLock lock(nodes);
      trace(t, roots, lock, Placeholders::refused);
      t.read_key();
      for (Node* n : t.nodes) traced.emplace_back(n);
    }
    if (t.formulas == 0) return pass(t);
    for (const Tensor& n : traced) expand(n);
  }
}
inline ValueGraph simplified(const std::vector<Tensor>& roots) {
  return after(roots, [](const Trace& t) { return simplify(t); });
}
inline Plan planned(const std::vector<Tensor>& roots) {
  return after(roots, [](const Trace& t) { return make_plan(t); });
}

struct Fused {
  ValueGraph graph;
  Fusion fusion;

  explicit Fused(const std::vector<Tensor>& roots, int bytes_of_a_function = 0)
      : graph(simplified(roots)), fusion(fuse(graph, bytes_of_a_function)) {}
  std::size_t groups() const {
    return static_cast<std::size_t>(std::count_if(fusion.groups.begin(), fusion.groups.end(),
                                                  [](const SweepGroup& g) { return !g.members.empty(); }));
  }
  // Bytes that sweeps write.
  std::int64_t written() const {
    std::int64_t bytes = 0;
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const Value& x = graph.values[v];
      if (fusion.places[v].in_memory && fusion.places[v].group >= 0)
        bytes += x.shape.numel() * static_cast<std::int64_t>(size_of(x.dtype));
    }
    return bytes;
  }
  // The placement of the only value of this operation.
  const Placement& place(Op op) const {
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].op == op && !graph.values[v].is_leaf) return fusion.places[v];
    }
    static const Placement none;
    return none;
  }
};

// The values that the roots need: those orphaned by a rewrite stay in the list.
inline std::vector<const Value*> live(const ValueGraph& g) {
  std::vector<char> needed(g.values.size(), 0);
  for (std::int32_t r : g.roots) needed[static_cast<std::size_t>(r)] = 1;
  std::vector<const Value*> all;
  for (std::size_t v = g.values.size(); v-- > 0;) {
    if (!needed[v]) continue;
    all.push_back(&g.values[v]);
    for (std::int32_t in : g.values[v].inputs) needed[static_cast<std::size_t>(in)] = 1;
  }
  return all;
}
inline std::size_t count(const ValueGraph& g, Op op) {
  const auto all = live(g);
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [op](const Value* v) { return v->op == op && !v->is_leaf; }));
}
inline const Value& root(const ValueGraph& g, std::size_t k = 0) {
  return g.values[static_cast<std::size_t>(g.roots[k])];
}

}  // namespace ebb::testing
