// SPDX-License-Identifier: MIT
#include "schedule/recompute.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "schedule/placed.h"
#include "schedule/schedule_model.h"
#include "schedule/value_key.h"

namespace ebb {
namespace {

class Recomputing {
 public:
  Recomputing(ValueGraph& graph, const Fusion& fusion, int bytes_of_a_function)
      : g_(graph), f_(fusion), bytes_of_a_function_(bytes_of_a_function), kept_(graph.values.size(), 1) {}

  bool run() {
    const auto n = static_cast<std::int32_t>(g_.values.size());
    find_readers();
    for (std::int32_t v = 0; v < n; ++v) {
      if (f_.places[v].group >= 0) kept_[v] = f_.places[v].in_memory;
    }
    bool any = false;
    for (std::int32_t v = n - 1; v >= 0; --v) any |= decide(v);
    for (std::int32_t v = n - 1; v >= 0; --v) any |= decide_for_each_reader(v);
    if (!any) return false;
    for (std::int32_t v = 0; v < n; ++v) {
      const int group = f_.places[v].group;
      if (group < 0) continue;
      for (std::size_t k = 0; k < g_.values[v].inputs.size(); ++k) {
        const std::int32_t in = g_.values[v].inputs[k], b = g_.base(in);
        if (f_.places[b].group >= 0 && f_.places[b].group != group && (!kept_[b] || makes(group, b)))
          g_.values[v].inputs[k] = copied(group, in);
      }
    }
    sort_inputs_first(g_);
    return true;
  }

 private:
  const Value& value(std::int32_t v) const { return g_.values[v]; }
  std::int64_t bytes(std::int32_t v) const {
    const Value& x = value(v);
    if (x.is_leaf && x.op != Op::data) return 0;
    return x.shape.numel() * static_cast<std::int64_t>(size_of(x.dtype));
  }
  bool can_be_made_again(std::int32_t v) const {
    const Value& x = value(v);
    return !x.is_view() && f_.places[v].group >= 0 && f_.places[v].post == Post::no &&
           info(x.op).cls == OpClass::elementwise && x.op != Op::check;
  }

  // Finds which sweeps read which values from memory, and which must stay there for others.
  void find_readers() {
    must_stay_.assign(g_.values.size(), 0);
    for (std::int32_t r : g_.roots) must_stay_[g_.base(r)] = 1;
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) {
      const Value& x = value(v);
      if (x.is_view() && x.op != Op::depend && x.op != Op::output) continue;
      for (std::int32_t in : x.inputs) {
        const std::int32_t b = g_.base(in);
        const int group = f_.places[v].group;
        if (group < 0 || !followed(in)) must_stay_[b] = 1;
        if (group >= 0 && !followed(in)) must_read_.insert({group, b});
        if (group >= 0 && f_.places[b].group != group && !(value(b).op == Op::constant)) reads_[group].insert(b);
      }
    }
  }
  // Can a sweep follow this view, all the way down to its base?
  bool followed(std::int32_t v) const {
    for (; value(v).is_view(); v = value(v).inputs[0]) {
      if (!value(v).mappable || value(v).op == Op::depend || value(v).op == Op::output) return false;
    }
    return true;
  }

  // The values read from memory to recompute v, and the cost.
  struct Cone {
    std::set<std::int32_t> frontier, inside;
    int costly = 0;
  };
  // `of`: what is recomputed. A special function of far fewer numbers, such as those of rows, is read from memory.
  void grow(std::int32_t v, Cone& cone, std::int32_t of) const {
    if (!cone.inside.insert(v).second) return;
    cone.costly += info(value(v).op).costly;
    for (std::int32_t in : value(v).inputs) {
      const std::int32_t b = g_.base(in);
      if (value(b).op == Op::constant && value(b).inputs.empty()) continue;
      const bool few =
          info(value(b).op).costly && value(b).shape.numel() > 1 && kScheduleModel.much_less * bytes(b) <= bytes(of);
      if (!kept_[b] && !few && can_be_made_again(b)) {
        if (cone.inside.size() <= kScheduleModel.most_operations_again) grow(b, cone, of);
      } else {
        cone.frontier.insert(b);
      }
    }
  }

  bool decide(std::int32_t v) {
    if (!kept_[v] || must_stay_[v] || !can_be_made_again(v) || bytes(v) < kScheduleModel.worth_making_again)
      return false;
    std::vector<int> readers;
    for (auto& [group, reads] : reads_) {
      if (reads.contains(v)) readers.push_back(group);
    }
    if (readers.empty()) return false;
    Cone cone;
    grow(v, cone, v);
    if (cone.inside.size() > kScheduleModel.most_operations_again) return false;
    const auto sweeps = static_cast<std::int64_t>(readers.size());
    std::int64_t again = cone.costly * bytes_of_a_function_ * value(v).shape.numel() * sweeps;
    for (std::int32_t u : cone.frontier) {
      if (!kept_[u]) again += bytes(u);
      for (int group : readers) again += reads_[group].contains(u) ? 0 : bytes(u);
    }
    // At equal cost, nothing is held in between: the sigmoid of a SwiGLU, an exponential and a quotient, would be kept
    // in f32 from the forward pass to the backward pass (8.6 GB in a Llama of 1.2 billion parameters).
    if (again > bytes(v) * (1 + sweeps)) return false;
    kept_[v] = 0;
    for (int group : readers) {
      reads_[group].erase(v);
      reads_[group].insert(cone.frontier.begin(), cone.frontier.end());
    }
    for (std::int32_t u : cone.frontier) kept_[u] = 1;
    return true;
  }

  // A reader that reads nearly all inputs of a value anyway recomputes it: for the gradient of relu(norm(x)), which is
  // 0 where that is, both sweeps read x and numbers of channels, and then nothing of the activation.
  bool decide_for_each_reader(std::int32_t v) {
    if (!kept_[v] || !can_be_made_again(v) || bytes(v) < kScheduleModel.worth_making_again) return false;
    Cone cone;
    grow(v, cone, v);
    if (cone.costly > 0 || cone.inside.size() > kScheduleModel.few_operations_again) return false;
    bool any = false;
    for (auto& [group, reads] : reads_) {
      if (!reads.contains(v) || must_read_.contains({group, v})) continue;
      std::int64_t more = 0;
      bool random = false;
      for (std::int32_t u : cone.frontier) {
        if (reads.contains(u)) continue;
        more += bytes(u);
        random |= value(u).op == Op::random_uniform;
      }
      if (random || kScheduleModel.much_less * more > bytes(v)) continue;
      made_by_.insert({group, v});
      reads.erase(v);
      reads.insert(cone.frontier.begin(), cone.frontier.end());
      any = true;
    }
    return any;
  }
  bool makes(int group, std::int32_t v) const { return made_by_.contains({group, v}); }

  std::int32_t copied(int group, std::int32_t v) {
    const std::int32_t b = g_.base(v);
    if ((kept_[b] && !makes(group, b)) || !can_be_made_again(b)) return v;
    if (const auto found = copies_.find({group, v}); found != copies_.end()) return found->second;
    Value copy = value(v);
    copy.node = -1;
    for (std::int32_t& in : copy.inputs) in = copied(group, in);
    if (copy.is_view()) copy.base = copied(group, copy.base);
    g_.values.push_back(std::move(copy));
    const auto made = static_cast<std::int32_t>(g_.values.size()) - 1;
    kept_.push_back(1);  // a copy is not copied
    return copies_[{group, v}] = made;
  }

  ValueGraph& g_;
  const Fusion& f_;
  const int bytes_of_a_function_;
  std::vector<char> kept_;  // in memory, where a sweep makes it
  std::vector<char> must_stay_;
  std::map<int, std::set<std::int32_t>> reads_;
  std::set<std::pair<int, std::int32_t>> must_read_, made_by_;  // sweeps, and values that they read or make themselves
  std::map<std::pair<int, std::int32_t>, std::int32_t> copies_;
};

}  // namespace

std::vector<std::int32_t> first_of_equals(const ValueGraph& g) {
  std::vector<Value> values = g.values;
  std::vector<std::int32_t> first(values.size());
  std::unordered_set<std::int32_t, ValueKeyHash, ValueKeyEqual> merged(64, ValueKeyHash{&values},
                                                                       ValueKeyEqual{&values});
  for (std::int32_t v = 0; v < static_cast<std::int32_t>(values.size()); ++v) {
    for (std::int32_t& in : values[v].inputs) in = first[in];
    first[v] = *merged.insert(v).first;
  }
  return first;
}

bool compute_again_what_costs_less(ValueGraph& graph, const Fusion& fusion, int bytes_of_a_function) {
  return Recomputing(graph, fusion, bytes_of_a_function).run();
}

bool read_what_stays_once(ValueGraph& g, const Fusion& fusion) {
  const std::vector<std::int32_t> first = first_of_equals(g);
  const auto n = static_cast<std::int32_t>(g.values.size());
  // The earliest of equal values in memory.
  std::map<std::int32_t, std::int32_t> earliest;
  const auto stays = [&](std::int32_t v) {
    const Placement& p = fusion.places[v];
    return p.group >= 0 && p.in_memory && p.post == Post::no && !g.values[v].is_view();
  };
  for (std::int32_t v = 0; v < n; ++v) {
    if (!stays(v)) continue;
    const auto [it, fresh] = earliest.emplace(first[v], v);
    if (!fresh && fusion.places[v].level < fusion.places[it->second].level) it->second = v;
  }
  std::map<std::int32_t, std::int32_t> moved;
  const auto instead_of = [&](auto&& self, std::int32_t v) -> std::int32_t {
    const std::int32_t b = g.base(v);
    if (!stays(b)) return v;
    const std::int32_t other = earliest.at(first[b]);
    if (fusion.places[other].level >= fusion.places[b].level) return v;
    if (v == b) return other;
    if (const auto found = moved.find(v); found != moved.end()) return found->second;
    Value view = g.values[v];
    view.node = -1;
    view.base = other;
    view.inputs[0] = self(self, view.inputs[0]);
    g.values.push_back(std::move(view));
    return moved[v] = static_cast<std::int32_t>(g.values.size()) - 1;
  };
  bool any = false;
  for (std::int32_t v = 0; v < n; ++v) {
    if (g.values[v].is_view()) continue;
    for (std::size_t k = 0; k < g.values[v].inputs.size(); ++k) {
      const std::int32_t in = g.values[v].inputs[k], instead = instead_of(instead_of, in);
      any |= instead != in;
      g.values[v].inputs[k] = instead;
    }
  }
  if (any) sort_inputs_first(g);
  return any;
}

}  // namespace ebb
