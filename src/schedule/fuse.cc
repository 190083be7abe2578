// SPDX-License-Identifier: MIT
#include "schedule/fuse.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/format_error.h"
#include "schedule/delay.h"
#include "schedule/join.h"
#include "schedule/placed.h"
#include "schedule/recompute.h"
#include "schedule/trial.h"
#include "sweep/sum_order.h"

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

namespace {

// A total this small is worth waiting for inside its sweep: the whole space becomes one row.
constexpr std::int64_t kSmallSpace = 16384;

// Sums of columns are added in parts of rows, one number per column and part: parts of fewer rows than this write more
// than they read (chosen, not measured). The columns should be the rows then, if the device reads rows that lie side by
// side in memory as fast.
constexpr std::int64_t kFewRows = 8;
bool few_rows(std::int64_t rows, std::int64_t columns) { return rows_per_part(rows, columns) < kFewRows; }

constexpr int kRoundsOfDelay = 3;  // a total that is waited for in vain would go on forever
constexpr int kMostRounds = 250;
// Steps that are tried, and values that all of them place: each takes as long as a round, 1 ms for 1,000 values.
constexpr int kMostSteps = 64;
constexpr std::size_t kMostPlaced = 1 << 14;
constexpr int kRoundsOfMakingAgain = 4;  // chosen, not measured: networks with batch norms take three

class Fuser {
 public:
  Fuser(const ValueGraph& graph, const std::vector<int>& not_before, Refusals& refusals, bool rows_beside)
      : g_(graph), not_before_(not_before), refusals_(refusals), rows_beside_(rows_beside) {}

  Fusion run() {
    f_.places.resize(g_.values.size());
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) place(v);
    join_neighbours(g_, f_);
    mark_memory(g_, f_);
    return std::move(f_);
  }

 private:
  const Value& value(std::int32_t v) const { return g_.values[v]; }

  void place(std::int32_t v) {
    const Value& x = value(v);
    Placement& p = f_.places[v];
    if (x.is_leaf || (x.op == Op::constant && x.inputs.empty())) return;
    if (x.op == Op::depend || x.op == Op::output || x.is_call() || x.is_view()) {
      // A view is where its base is; `depend` also waits for its second input.
      for (std::int32_t in : x.inputs)
        p.level = std::max(p.level, x.is_view() && x.op != Op::depend ? placed_.level(in) : placed_.ready(in));
      if (x.op == Op::depend && placed_.computed(v)) --p.level;  // readers of computed memory are a level later anyway
      return;
    }
    int level = not_before_.empty() ? 0 : not_before_[v];
    for (std::int32_t in : x.inputs)
      level = std::max(level, placed_.usable_inside(in) ? placed_.level(in) : placed_.ready(in));
    if (std::optional<Trial> t = attempt(v, level); t && totals_fit(*t)) {
      commit(v, level, *t);
      return;
    }
    note_refusals(v, level);
    // Everything it needs in memory, then it always fits a sweep of its own.
    for (std::int32_t in : x.inputs) level = std::max(level, placed_.ready(in));
    std::optional<Trial> t = attempt(v, level);
    require(t.has_value(), "internal: {} {} fits no sweep", info(x.op).name, x.shape);
    commit(v, level, *t);
  }

  // What v cannot have in its own sweep, whatever else is there: the others count as memory while one is tried. Where v
  // reads a total, that is the reason, and no other sweep helps.
  void note_refusals(std::int32_t v, int level) {
    std::vector<std::int32_t> all;
    for (std::int32_t in : value(v).inputs) {
      if (!placed_.inside(in, level)) continue;
      if (placed_.of_base(in).post != Post::no) return;
      all.push_back(g_.base(in));
    }
    for (std::int32_t b : all) {
      alone_ = b;
      if (!attempt(v, level)) refusals_.insert({v, b});
    }
    alone_ = -1;
  }
  bool inside(std::int32_t in, int level) const {
    return placed_.inside(in, level) && (alone_ < 0 || g_.base(in) == alone_);
  }

  // Does memory v have different elements along d?
  bool memory_varies(std::int32_t v, int d) const {
    const Value& x = value(v);
    if (x.shape[d] == 1) return false;
    if (x.is_leaf && x.op != Op::data) return x.op != Op::constant;
    if (x.is_view()) return x.strides[d] != 0;
    return !x.is_leaf || x.strides[d] != 0;
  }

  bool take_in(Trial& t, std::int32_t in, int rank) const {
    const int h = placed_.of_base(in).group;
    return t.take_in(h, f_.groups[h], seen_map(g_, f_, in), rank);
  }

  // Where the trial makes the whole space one row, a total made before would still be ready only in the epilogue.
  bool totals_fit(const Trial& t) const {
    auto has_totals = [this](int group) {
      const SweepGroup& g = f_.groups[group];
      return g.rows != 0 && std::any_of(g.members.begin(), g.members.end(),
                                        [this](std::int32_t m) { return f_.places[m].post != Post::no; });
    };
    if (t.rows != 0 || t.into < 0) return true;
    return !has_totals(t.into) && std::none_of(t.renamed.begin(), t.renamed.end(),
                                               [&](const auto& renamed) { return has_totals(renamed.first); });
  }

  std::uint32_t signature_of(const Trial& t, std::int32_t in) const {
    return t.renamed_set(placed_.of_base(in).group, placed_.of_base(in).varies);
  }

  std::optional<Trial> attempt(std::int32_t v, int level) {
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

  std::optional<Trial> attempt_elementwise(std::int32_t v, int level) {
    const Value& x = value(v);
    const int rank = x.shape.rank();
    bool any_post = false, any_main = false;
    for (std::int32_t in : x.inputs) {
      if (!inside(in, level)) continue;
      const Placement& p = placed_.of_base(in);
      (p.post != Post::no ? any_post : any_main) |= p.post != Post::no || p.varies != 0;
    }
    if (any_post) {
      if (std::optional<Trial> t = attempt_post(v, level)) return t;
      if (!make_totals_usable(v, level)) return std::nullopt;
    }
    Trial t(x.shape);
    std::uint32_t varies = 0;
    for (std::int32_t in : x.inputs) {
      if (!inside(in, level)) continue;
      if (placed_.of_base(in).post != Post::no) return std::nullopt;
      if (!take_in(t, in, rank)) return std::nullopt;
    }
    const std::size_t axes_before = t.axes.size();
    int last_old = -1, first_new = rank;
    for (int d = 0; d < rank; ++d) {
      if (t.map[d] >= 0) last_old = d;
      if (t.map[d] != kFree) continue;
      const std::size_t n = t.axes.size();
      if (!t.bind(d, x.shape[d], rank)) return std::nullopt;
      if (t.axes.size() > n) first_new = std::min(first_new, d);
      bool varying = false;
      for (std::int32_t in : x.inputs) varying |= !inside(in, level) && memory_varies(in, d);
      if (!varying) varies |= 1u << t.map[d];  // repeated along d in every input, but its memory has room for all
    }
    if (axes_before > 0 && t.axes.size() > axes_before && t.rows == 0) return std::nullopt;
    for (std::int32_t in : x.inputs) {
      if (inside(in, level)) {
        varies |= signature_of(t, in);
      } else {
        for (int d = 0; d < rank; ++d) {
          if (t.map[d] >= 0 && memory_varies(in, d)) varies |= 1u << t.map[d];
        }
      }
    }
    // Numbers computed on fewer axes can become row values only if the new axes are inner ones; else they would be
    // computed again for every row.
    if (t.axes.size() > axes_before && axes_before > 0 && first_new < last_old) return std::nullopt;
    t.add_signature(varies);
    const bool open = t.rows == SweepGroup::kUndecided;
    if (!t.signatures_fit()) return std::nullopt;
    // For the same reason they are no rows where they lie side by side, one for each innermost element.
    int inner = rank - 1;
    while (inner > 0 && t.map[inner] < 0) --inner;
    if (open && t.rows != SweepGroup::kUndecided && varies == t.all() && inner >= 0 && t.map[inner] >= 0 &&
        (t.rows >> t.map[inner] & 1))
      return std::nullopt;
    t.varies = varies;
    t.post = Post::no;
    return t;
  }

  // Operations on finished totals or column sums: the epilogue.
  std::optional<Trial> attempt_post(std::int32_t v, int level) {
    const Value& x = value(v);
    const int rank = x.shape.rank();
    Post kind = Post::scalar;
    for (std::int32_t in : x.inputs) {
      if (inside(in, level) && placed_.of_base(in).post == Post::column) kind = Post::column;
    }
    if (kind == Post::scalar && x.shape.numel() != 1) return std::nullopt;
    Trial t(x.shape);
    for (std::int32_t in : x.inputs) {
      if (!inside(in, level)) continue;
      const Placement& p = placed_.of_base(in);
      if (p.post == Post::no && p.varies != 0) return std::nullopt;
      if (!take_in(t, in, rank)) return std::nullopt;
    }
    if (t.rows == 0) return std::nullopt;  // one of the groups is one row: its reductions are no totals
    std::uint32_t varies = 0;
    for (std::int32_t in : x.inputs) {
      if (inside(in, level)) {
        varies |= signature_of(t, in);
        continue;
      }
      for (int d = 0; d < rank; ++d) {
        if (!memory_varies(in, d)) continue;
        if (t.map[d] < 0) return std::nullopt;
        varies |= 1u << t.map[d];
      }
    }
    if (kind == Post::column && varies != (t.all() & ~t.rows)) return std::nullopt;
    for (int d = 0; d < rank; ++d) {
      if (t.map[d] == kFree) return std::nullopt;  // repeated along d, but its memory would have room for all
    }
    if (!t.signatures_fit()) return std::nullopt;
    t.varies = varies;
    t.post = kind;
    return t;
  }

  // In a small space a total that its own sweep needs makes the whole space one row.
  bool make_totals_usable(std::int32_t v, int level) {
    bool done = false;
    for (std::int32_t in : value(v).inputs) {
      if (!inside(in, level)) continue;
      const Placement& p = placed_.of_base(in);
      if (p.post == Post::no) continue;
      SweepGroup& group = f_.groups[p.group];
      std::int64_t size = 1;
      for (std::int64_t s : group.axes) size *= s;
      if (p.post == Post::column || size > kSmallSpace || (group.rows != SweepGroup::kUndecided && group.rows != 0))
        return false;
      for (std::int32_t m : group.members) {
        const Placement& q = f_.places[m];
        if (q.post == Post::column || (q.post == Post::no && q.varies != 0 && q.varies != group.all())) return false;
      }
      group.rows = 0;
      for (std::int32_t m : group.members) f_.places[m].post = Post::no;
      done = true;
    }
    return done;
  }

  // Joins the input of a reduction or pick. All its dimensions become axes.
  bool take_operand(Trial& t, std::int32_t in, int level) {
    const Value& y = value(in);
    const int rank = y.shape.rank();
    t = Trial(y.shape);
    if (inside(in, level)) {
      const Placement& p = placed_.of_base(in);
      if (p.post != Post::no || !take_in(t, in, rank)) return false;
      for (int d = 0; d < rank; ++d) {
        if (t.map[d] == kFree) return false;
      }
      t.varies = p.varies;
    } else {
      for (int d = 0; d < rank; ++d) {
        if (t.map[d] == kFree && !t.bind(d, y.shape[d], rank)) return false;
      }
      // A fresh space: dimensions of equal size are different axes.
      t.varies = t.all();
    }
    return true;
  }

  std::optional<Trial> attempt_reduce(std::int32_t v, int level) {
    const Value& x = value(v);
    const std::int32_t in = x.inputs[0];
    Trial t;
    if (!take_operand(t, in, level)) return std::nullopt;
    const Shape& from = value(in).shape;
    std::uint32_t reduced = 0;
    bool innermost = false, prefix = true, seen_kept = false;
    for (int d = 0; d < from.rank(); ++d) {
      if (t.map[d] < 0) continue;
      const bool r = x.attrs.axes >> d & 1;
      if (r) reduced |= 1u << t.map[d];
      if (r && seen_kept) prefix = false;
      if (!r) seen_kept = true;
      innermost = r;
    }
    const std::uint32_t varies = t.varies, all = t.all(), kept = all & ~reduced;
    t.post = Post::no;
    t.reads = varies;
    t.operand_map = t.map;
    t.add_signature(varies);
    if (varies == all) {
      if (kept == 0) {
        if (t.rows != 0) t.post = Post::scalar;  // rows == 0: the whole space is one row already
      } else {
        const bool beside = rows_beside_ && few_rows(t.size_of(reduced), t.size_of(kept));
        if (t.rows == SweepGroup::kUndecided) t.rows = innermost || !prefix || beside ? kept : reduced;
        if (t.rows == kept) {
          t.post = Post::no;
        } else if (t.rows == reduced) {
          t.post = Post::column;
        } else {
          return std::nullopt;
        }
      }
      t.varies = kept;
    } else if (t.rows != SweepGroup::kUndecided && varies == t.rows && reduced == t.rows) {
      t.post = Post::scalar;
      t.varies = 0;
    } else {
      return std::nullopt;
    }
    if (t.post == Post::no) t.add_signature(t.varies);
    if (!t.signatures_fit()) return std::nullopt;
    for (int d = 0; d < from.rank(); ++d) {
      if (x.attrs.axes >> d & 1) t.map[static_cast<std::size_t>(d) % t.map.size()] = kUnit;
    }
    return t;
  }

  // Unifies a row operand (index or cotangent of pick/place) with the trial; `axis` is the one it has not.
  bool take_row_operand(Trial& t, std::int32_t in, int level, int rank) {
    if (inside(in, level)) {
      if (placed_.of_base(in).post != Post::no) return false;
      return take_in(t, in, rank);
    }
    return true;
  }

  std::optional<Trial> attempt_pick(std::int32_t v, int level) {
    const Value& x = value(v);
    const auto axis = static_cast<int>(x.attrs.i[0]);
    Trial t;
    if (!take_operand(t, x.inputs[0], level) || t.varies != t.all()) return std::nullopt;
    const std::int8_t column = t.map[axis];
    t.reads = t.all();
    t.operand_map = t.map;
    if (!take_row_operand(t, x.inputs[1], level, x.shape.rank())) return std::nullopt;
    return finish_row_op(t, x.shape.rank(), axis, column, true);
  }

  std::optional<Trial> attempt_place(std::int32_t v, int level) {
    const Value& x = value(v);
    const auto axis = static_cast<int>(x.attrs.i[0]);
    const int rank = x.shape.rank();
    Trial t(x.shape);
    for (std::int32_t in : x.inputs) {
      if (inside(in, level)) {
        if (placed_.of_base(in).post != Post::no || !take_in(t, in, rank)) return std::nullopt;
        t.map[axis] = kFree;
      }
    }
    for (int d = 0; d < rank; ++d) {
      if (t.map[d] == kFree && !t.bind(d, x.shape[d], rank)) return std::nullopt;
    }
    return finish_row_op(t, rank, axis, t.map[axis], false);
  }

  std::optional<Trial> finish_row_op(Trial& t, int rank, int axis, std::int8_t column, bool pick) {
    // Its dimensions are all axes of the space: along another one it would be computed again for every element, and
    // never where there are none.
    std::uint32_t covered = 1u << column;
    for (int d = 0; d < rank; ++d) {
      if (t.map[d] >= 0) covered |= 1u << t.map[d];
    }
    if (covered != t.all()) return std::nullopt;
    const std::uint32_t rows = t.all() & ~(1u << column);
    if (t.rows == SweepGroup::kUndecided) t.rows = rows;
    t.add_signature(t.all());
    t.add_signature(rows);
    if (t.rows != rows || !t.signatures_fit()) return std::nullopt;
    t.varies = pick ? rows : t.all();
    t.post = Post::no;
    t.map[axis] = pick ? kUnit : column;
    return t;
  }

  void commit(std::int32_t v, int level, const Trial& t) {
    int id = t.into;
    if (id < 0) {
      id = static_cast<int>(f_.groups.size());
      f_.groups.emplace_back();
      f_.groups[id].level = level;
    }
    for (const auto& [other, where] : t.renamed) join_groups(f_, id, other, where);
    SweepGroup& group = f_.groups[id];
    group.axes = t.axes;
    group.rows = t.rows;
    group.signatures = t.signatures;
    group.members.push_back(v);
    Placement& p = f_.places[v];
    p.group = id;
    p.level = level;
    p.map = t.map;
    p.varies = t.varies;
    p.post = t.post;
    p.reads = t.reads;
    p.operand_map = t.operand_map;
  }

  const ValueGraph& g_;
  const std::vector<int>& not_before_;
  Refusals& refusals_;
  const bool rows_beside_;
  std::int32_t alone_ = -1;  // on trial: all other inputs count as memory
  Fusion f_;
  const Placed placed_{g_, f_};
};

// By its sweeps, from and to memory.
std::int64_t bytes_moved(const ValueGraph& graph, const Fusion& fusion) {
  const auto bytes = [&](std::int32_t v) {
    return graph.values[v].shape.numel() * static_cast<std::int64_t>(size_of(graph.values[v].dtype));
  };
  std::vector<char> live(graph.values.size());  // others are in no sweep
  for (const std::int32_t r : graph.roots) live[r] = 1;
  for (std::size_t v = live.size(); v-- > 0;) {
    for (const std::int32_t in : graph.values[v].inputs) live[in] |= live[v];
  }
  std::int64_t all = 0;
  std::set<std::pair<int, std::int32_t>> read;
  for (std::int32_t v = 0; v < static_cast<std::int32_t>(graph.values.size()); ++v) {
    const int group = fusion.places[v].group;
    if (group < 0 || !live[v]) continue;
    if (fusion.places[v].in_memory) all += bytes(v);
    for (const std::int32_t in : graph.values[v].inputs) {
      const std::int32_t b = graph.base(in);
      if (fusion.places[b].group != group && read.emplace(group, b).second) all += bytes(b);
    }
  }
  return all;
}

// A fusion, and the level that each value was told to wait for.
struct Choice {
  Fusion fusion;
  std::vector<int> wait;
  std::int64_t bytes;

  Choice(const ValueGraph& graph, Fusion f, std::vector<int> w)
      : fusion(std::move(f)), wait(std::move(w)), bytes(bytes_moved(graph, fusion)) {}
};

void raise(std::vector<int>& levels, const std::vector<int>& to) {
  for (std::size_t v = 0; v < levels.size(); ++v) levels[v] = std::max(levels[v], to[v]);
}

// All at once: whatever may wait for a later sweep does. What does not fit shows in one place after the other, since
// whatever comes later then is on other levels than expected: the rounds go on while they bring news.
Choice delayed(const ValueGraph& graph, Fusion fusion, bool by_level, bool rows_beside) {
  const std::vector<int> at_once(graph.values.size(), 0);
  std::vector<int> wait = at_once, delay = at_once;
  Refusals refusals;
  for (int quiet = 0, round = 0; quiet < 3 && round < kMostRounds; ++round) {
    const std::size_t known = refusals.size();
    std::vector<int> next = latest_levels(graph, fusion, natural_levels(graph, fusion, refusals, delay), refusals);
    if (round < kRoundsOfDelay) delay_groups(graph, fusion, wait, refusals, by_level, delay);
    raise(next, delay);
    if (next == wait) break;
    wait = std::move(next);
    fusion = Fuser(graph, wait, refusals, rows_beside).run();
    quiet = refusals.size() > known ? 0 : quiet + 1;
  }
  return Choice(graph, std::move(fusion), std::move(wait));
}

// Other levels to wait for, a step away from a choice: values that only later levels need wait for them; sweeps that a
// later one reads again wait for that one, all or a single one.
std::vector<std::vector<int>> steps_from(const ValueGraph& graph, const Choice& now, const Refusals& refusals) {
  std::vector<std::vector<int>> steps;
  const auto add = [&](std::vector<int> step) {
    if (step != now.wait && std::find(steps.begin(), steps.end(), step) == steps.end())
      steps.push_back(std::move(step));
  };
  const std::vector<int> latest =
      latest_levels(graph, now.fusion, natural_levels(graph, now.fusion, refusals, now.wait), refusals);
  const auto with_latest = [&](std::vector<int> step) {
    raise(step, latest);
    return step;
  };
  add(with_latest(now.wait));
  for (const bool by_level : {true, false}) {
    std::vector<int> all = now.wait;
    delay_groups(graph, now.fusion, now.wait, refusals, by_level, all);
    if (all == now.wait) continue;
    add(all);
    add(with_latest(all));
    for (const SweepGroup& group : now.fusion.groups) {
      std::vector<int> one = now.wait;
      for (const std::int32_t m : group.members) one[m] = all[m];
      add(std::move(one));
    }
  }
  return steps;
}

// Step by step the one that saves most bytes, until none saves any.
Choice improved(const ValueGraph& graph, Choice best, bool rows_beside) {
  Refusals refusals;
  const int most = std::min(kMostSteps, static_cast<int>(kMostPlaced / (graph.values.size() + 1)));
  for (int tried = 0; tried < most;) {
    std::optional<Choice> better;
    for (const std::vector<int>& wait : steps_from(graph, best, refusals)) {
      if (++tried > most) break;
      Choice step(graph, Fuser(graph, wait, refusals, rows_beside).run(), wait);
      if (step.bytes < (better ? *better : best).bytes) better = std::move(step);
    }
    if (!better) break;
    best = std::move(*better);
  }
  return best;
}

// There are two opinions about what may wait for a later sweep. Either is where steps begin; the end that moves less is
// right. (What is made as early as it can be may move fewer bytes, too, but then a forward pass writes more that its
// backward pass waits for.)
Fusion fuse_as_late_as_useful(ValueGraph& graph, bool rows_beside, bool may_compute_twice) {
  Refusals none;
  const std::vector<int> at_once;
  Fusion first = Fuser(graph, at_once, none, rows_beside).run();
  if (may_compute_twice && compute_twice_what_totals_share(graph, first))
    first = Fuser(graph, at_once, none, rows_beside).run();
  const auto end = [&](bool by_level) {
    return improved(graph, delayed(graph, first, by_level, rows_beside), rows_beside);
  };
  Choice by_level = end(true), by_refusal = end(false);
  return std::move((by_refusal.bytes < by_level.bytes ? by_refusal : by_level).fusion);
}

// Does the graph sum few rows over its first axes?
bool sums_few_rows(const ValueGraph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value& x) {
    if (x.is_leaf || info(x.op).cls != OpClass::reduce) return false;
    const Shape& from = graph.values[x.inputs[0]].shape;
    int first = 0, last = from.rank() - 1;
    while (first < last && from[first] == 1) ++first;
    while (last > first && from[last] == 1) --last;
    if (first >= last || !(x.attrs.axes >> first & 1) || x.attrs.axes >> last & 1) return false;
    const std::int64_t columns = std::max<std::int64_t>(x.shape.numel(), 1);
    return few_rows(from.numel() / columns, columns);
  });
}

// A sweep over the columns of a sum has no place for reductions over rows: it is one where that moves no more memory.
Fusion fuse_either_way(ValueGraph& graph, bool rows_beside, bool may_compute_twice = true) {
  if (!rows_beside || !sums_few_rows(graph)) return fuse_as_late_as_useful(graph, false, may_compute_twice);
  ValueGraph turned = graph;
  Fusion usual = fuse_as_late_as_useful(graph, false, may_compute_twice),
         beside = fuse_as_late_as_useful(turned, true, may_compute_twice);
  if (bytes_moved(turned, beside) > bytes_moved(graph, usual)) return usual;
  graph = std::move(turned);
  return beside;
}

}  // namespace

Fusion fuse(ValueGraph& graph, int bytes_of_a_function, bool rows_beside) {
  Fusion fusion = fuse_either_way(graph, rows_beside);
  if (bytes_of_a_function == 0) return fusion;
  // Sweeps that make more themselves are other sweeps, which may share what one of them made before.
  for (int round = 0; round < kRoundsOfMakingAgain; ++round) {
    if (!compute_again_what_costs_less(graph, fusion, bytes_of_a_function)) break;
    fusion = fuse_either_way(graph, rows_beside);
  }
  // Of what they make themselves, some stays in memory for others as well, several times.
  ValueGraph shared = graph;
  if (!read_what_stays_once(shared, fusion)) return fusion;
  Fusion fewer = fuse_either_way(shared, rows_beside, false);
  if (bytes_moved(shared, fewer) >= bytes_moved(graph, fusion)) return fusion;
  graph = std::move(shared);
  return fewer;
}

}  // namespace ebb
