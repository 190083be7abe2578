// SPDX-License-Identifier: MIT
#include "schedule/store_again.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "schedule/recompute.h"

namespace ebb {
namespace {

class StoringAgain {
 public:
  StoringAgain(ValueGraph& graph, Fusion& fusion, double flops_per_byte, std::int64_t worth)
      : g_(graph), f_(fusion), flops_per_byte_(flops_per_byte), worth_(worth), equal_(first_of_equals(graph)) {}

  bool run() {
    const auto n = static_cast<std::int32_t>(g_.values.size());
    std::vector<std::int32_t> held;
    for (std::int32_t v = 0; v < n; ++v) {
      if (may_be_stored_again(v)) held.push_back(v);
    }
    if (held.empty()) return false;
    find_readers();
    bool any = false;
    for (const std::int32_t v : held) {
      if (const std::optional<Choice> choice = choose(v)) {
        apply(v, *choice);
        any = true;
      }
    }
    if (any) sort();
    return any;
  }

 private:
  // How a sweep stores v: which values it has, and which are added to it.
  struct Recipe {
    std::set<std::int32_t> added, loads;       // values of the forward pass to copy, and to read from memory
    std::map<std::int32_t, std::int32_t> has;  // by value of the forward pass: the equal member
    std::int32_t like = -1;                    // a member that varies like all of them
  };
  struct Choice {
    int group = -1;
    Recipe recipe;
    std::vector<std::int32_t> late;  // readers of what it stores
    bool early = false;              // there are others, which come before
  };

  const Value& value(std::int32_t v) const { return g_.values[v]; }
  const Placement& place(std::int32_t v) const { return f_.places[v]; }
  std::int64_t bytes(std::int32_t v) const {
    const Value& x = value(v);
    return x.is_leaf && x.op != Op::data ? 0 : x.shape.numel() * static_cast<std::int64_t>(size_of(x.dtype));
  }
  static bool is_computed_anywhere(const Value& x) { return x.is_leaf && x.op != Op::data; }
  bool in_memory(std::int32_t v) const { return place(v).group < 0 || place(v).in_memory; }

  bool may_be_stored_again(std::int32_t v) const {
    const Value& x = value(v);
    if (x.is_view() || place(v).group < 0 || !place(v).in_memory || place(v).post != Post::no) return false;
    if (info(x.op).cls != OpClass::elementwise || bytes(v) < worth_) return false;
    return std::none_of(g_.roots.begin(), g_.roots.end(), [&](std::int32_t r) { return g_.base(r) == v; });
  }

  void find_readers() {
    std::vector<char> live(g_.values.size());
    for (const std::int32_t r : g_.roots) live[r] = 1;
    for (auto v = static_cast<std::int32_t>(g_.values.size()) - 1; v >= 0; --v) {
      if (!live[v]) continue;
      const Value& x = value(v);
      for (const std::int32_t in : x.inputs) live[in] = 1;
      if (x.is_view()) continue;
      for (const std::int32_t in : x.inputs) {
        readers_[g_.base(in)].push_back(v);
        if (place(v).group >= 0) reads_[g_.base(in)].insert(place(v).group);
      }
    }
  }

  // Values that must be computed before a group: all that one of its members needs.
  std::vector<char> before(int group) const {
    std::vector<char> seen(g_.values.size()), done(f_.groups.size());
    std::vector<std::int32_t> stack;
    const auto enter = [&](std::int32_t v) {
      if (seen[v]) return;
      seen[v] = 1;
      stack.push_back(v);
    };
    const auto enter_group = [&](int k) {
      if (done[k]) return;
      done[k] = 1;
      for (const std::int32_t m : f_.groups[k].members) enter(m);
    };
    enter_group(group);
    while (!stack.empty()) {
      const std::int32_t v = stack.back();
      stack.pop_back();
      for (const std::int32_t in : value(v).inputs) enter(in);
      if (value(v).is_view()) enter(value(v).base);
      if (place(v).group >= 0) enter_group(place(v).group);
    }
    return seen;
  }

  // Views of v that rename or regroup its elements: another tensor of the same shape can be seen through them.
  bool sees_through(std::int32_t in) const {
    for (; value(in).is_view(); in = value(in).inputs[0]) {
      if (value(in).op == Op::depend || value(in).op == Op::output) return false;
    }
    return true;
  }

  std::optional<Choice> choose(std::int32_t v) const {
    const auto readers = readers_.find(v);
    if (readers == readers_.end()) return {};
    // Sweeps that read a large part of what v is computed from, the last one first.
    std::set<std::pair<int, int>> later;
    for (const std::int32_t u : made_of(v)) {
      const auto found = reads_.find(u);
      if (found == reads_.end() || kScheduleModel.much_less * bytes(u) <= bytes(v)) continue;
      for (const int k : found->second) {
        if (f_.groups[k].level > place(v).level + kScheduleModel.levels_held) later.insert({-f_.groups[k].level, k});
      }
    }
    for (const auto& [level, group] : later) {
      Choice choice;
      choice.group = group;
      if (!makes(v, v, group, choice.recipe) || choice.recipe.like < 0) continue;
      if (sorts_readers(v, readers->second, choice)) return choice;
    }
    return {};
  }

  // The values in memory that v is computed from.
  std::set<std::int32_t> made_of(std::int32_t v) const {
    std::set<std::int32_t> all, seen;
    const auto walk = [&](auto&& self, std::int32_t w) -> void {
      if (!seen.insert(w).second || seen.size() > static_cast<std::size_t>(kScheduleModel.most_operations_again))
        return;
      for (const std::int32_t in : value(w).inputs) {
        const std::int32_t b = g_.base(in);
        if (is_computed_anywhere(value(b))) continue;
        if (in_memory(b)) {
          all.insert(b);
        } else {
          self(self, b);
        }
      }
    };
    walk(walk, v);
    return all;
  }

  // Can the group compute w, a part of v, from what it has and reads, with little else and no special function?
  bool makes(std::int32_t v, std::int32_t w, int group, Recipe& recipe) const {
    if (recipe.added.contains(w) || recipe.has.contains(w)) return true;
    for (const std::int32_t m : f_.groups[group].members) {
      if (equal_[m] != equal_[w] || place(m).post != Post::no) continue;
      if (value(m).shape == value(v).shape) recipe.like = m;
      recipe.has[w] = m;
      return true;
    }
    const Value& x = value(w);
    if (w != v && in_memory(w)) {
      const auto found = reads_.find(w);
      if (found != reads_.end() && found->second.contains(group)) return true;
      return is_computed_anywhere(x) ? x.op != Op::random_uniform
                                     : recipe.loads.insert(w).second && kScheduleModel.much_less * bytes(w) <= bytes(v);
    }
    if (info(x.op).cls != OpClass::elementwise || x.op == Op::check || info(x.op).costly || place(w).post != Post::no ||
        x.shape != value(v).shape || recipe.added.size() >= static_cast<std::size_t>(kScheduleModel.few_added))
      return false;
    recipe.added.insert(w);
    if (recipe.like < 0) recipe.like = reader_beside(w, group);
    return std::all_of(x.inputs.begin(), x.inputs.end(), [&](std::int32_t in) {
      // Added values do not rename each other's axes, so that all of them vary as `like` does.
      const std::int32_t b = g_.base(in);
      if (!makes(v, b, group, recipe)) return false;
      return !recipe.added.contains(b) || b == in;
    });
  }

  // A member that reads an operand of w element by element, and so varies as w would; -1 if none.
  std::int32_t reader_beside(std::int32_t w, int group) const {
    for (const std::int32_t in : value(w).inputs) {
      if (value(g_.base(in)).shape.numel() != value(w).shape.numel()) continue;  // it is repeated
      for (const std::int32_t m : f_.groups[group].members) {
        const Value& x = value(m);
        if (info(x.op).cls == OpClass::elementwise && x.shape == value(w).shape && place(m).post == Post::no &&
            std::find(x.inputs.begin(), x.inputs.end(), in) != x.inputs.end())
          return m;
      }
    }
    return -1;
  }

  // Readers before the sweep keep what they read, the others wait for it: calls at about its level.
  bool sorts_readers(std::int32_t v, const std::vector<std::int32_t>& readers, Choice& choice) const {
    const std::vector<char> first = before(choice.group);
    const int level = f_.groups[choice.group].level;
    for (const std::int32_t u : choice.recipe.loads) {
      if (!first[u] && !value(u).is_leaf) return false;
    }
    for (const std::int32_t r : readers) {
      if (place(r).group >= 0 && place(r).group == place(v).group) continue;  // not from memory
      if (first[r]) {
        choice.early = true;
        if (place(r).group == choice.group || place(r).level + kScheduleModel.levels_held >= level) return false;
        continue;
      }
      if (!value(r).is_call() || value(r).strips >= 0 || place(r).level + kScheduleModel.levels_waited < level)
        return false;
      const auto through = [&](std::int32_t in) { return g_.base(in) != v || sees_through(in); };
      if (!std::all_of(value(r).inputs.begin(), value(r).inputs.end(), through)) return false;
      choice.late.push_back(r);
    }
    double flops = 0;
    for (const std::int32_t r : choice.late) flops += flops_of(r);
    return flops > 0 && flops >= kScheduleModel.writes_of_a_product * flops_per_byte_ * static_cast<double>(bytes(v));
  }

  // 2·m·n·k of a product, whose three matrices have m·k, k·n and m·n elements; less for a convolution's window.
  double flops_of(std::int32_t call) const {
    const Value& x = value(call);
    if (x.inputs.size() < 2) return 0;
    const auto elements = [&](std::int32_t v) { return static_cast<double>(value(v).shape.numel()); };
    return 2 * std::sqrt(elements(x.inputs[0]) * elements(x.inputs[1]) * elements(call));
  }

  std::int32_t add(Value x, std::int32_t equal_to) {
    x.node = -1;
    g_.values.push_back(std::move(x));
    equal_.push_back(equal_[equal_to]);
    f_.places.push_back(f_.places[equal_to]);
    return static_cast<std::int32_t>(g_.values.size()) - 1;
  }

  // The name of `in`, a view of `from` or that itself, over other memory.
  std::int32_t seen(std::int32_t in, std::int32_t from, std::int32_t to, std::map<std::int32_t, std::int32_t>& known) {
    if (in == from) return to;
    if (const auto found = known.find(in); found != known.end()) return found->second;
    Value view = value(in);
    view.inputs[0] = seen(view.inputs[0], from, to, known);
    view.base = to;
    return known[in] = add(std::move(view), in);
  }

  void apply(std::int32_t v, const Choice& choice) {
    const SweepGroup& group = f_.groups[choice.group];
    const Placement like = place(choice.recipe.like);
    std::map<std::int32_t, std::int32_t> made = choice.recipe.has;
    for (const std::int32_t w : choice.recipe.added) {  // in the order of values: inputs first
      Value copy = value(w);
      for (std::int32_t& in : copy.inputs) {
        const std::int32_t b = g_.base(in);
        std::map<std::int32_t, std::int32_t> known;
        if (const auto found = made.find(b); found != made.end() && found->second != b)
          in = seen(in, b, found->second, known);
      }
      const std::int32_t at = made[w] = add(std::move(copy), w);
      for (const std::int32_t in : value(at).inputs) readers_[g_.base(in)].push_back(at);
      Placement p = like;
      p.level = group.level;
      p.in_memory = false;
      f_.places[at] = p;
      f_.groups[choice.group].members.push_back(at);
    }
    const std::int32_t again = made.at(v);
    f_.places[again].in_memory = true;
    for (const std::int32_t u : choice.recipe.loads) reads_[u].insert(choice.group);
    std::map<std::int32_t, std::int32_t> known;
    for (const std::int32_t r : choice.late) {
      for (std::size_t k = 0; k < value(r).inputs.size(); ++k) {
        const std::int32_t in = value(r).inputs[k];
        if (g_.base(in) == v) {
          const std::int32_t other = seen(in, v, again, known);
          g_.values[r].inputs[k] = other;
        }
      }
    }
    if (!choice.early) f_.places[v].in_memory = false;
    // A traced node uses the memory of the second store.
    for (std::int32_t& of : g_.of_node) {
      if (g_.base(of) == v && sees_through(of)) of = seen(of, v, again, known);
    }
  }

  void sort() {
    const std::vector<std::int32_t> at = sort_inputs_first(g_);
    std::vector<Placement> places(f_.places.size());
    for (std::size_t v = 0; v < at.size(); ++v) places[at[v]] = f_.places[v];
    f_.places = std::move(places);
    for (SweepGroup& group : f_.groups) {
      for (std::int32_t& m : group.members) m = at[m];
      std::sort(group.members.begin(), group.members.end());
    }
  }

  ValueGraph& g_;
  Fusion& f_;
  const double flops_per_byte_;
  const std::int64_t worth_;         // bytes
  std::vector<std::int32_t> equal_;  // of each value, the first one computed in the same way
  std::map<std::int32_t, std::vector<std::int32_t>> readers_;
  std::map<std::int32_t, std::set<int>> reads_;  // by value: the groups
};

}  // namespace

bool store_again_what_is_held(ValueGraph& graph, Fusion& fusion, double flops_per_byte, std::int64_t worth) {
  return StoringAgain(graph, fusion, flops_per_byte, worth).run();
}

}  // namespace ebb
