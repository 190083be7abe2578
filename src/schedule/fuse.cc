#include "schedule/fuse.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/format_error.h"
#include "schedule/delay.h"

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

class Fuser {
 public:
  Fuser(const ValueGraph& graph, const std::vector<int>& not_before) : g_(graph), not_before_(not_before) {}

  Fusion run() {
    f_.places.resize(g_.values.size());
    for (std::int32_t v = 0; v < count(); ++v) place(v);
    join_neighbours();
    mark_memory();
    return std::move(f_);
  }

 private:
  std::int32_t count() const { return static_cast<std::int32_t>(g_.values.size()); }
  const Value& value(std::int32_t v) const { return g_.values[v]; }
  std::int32_t base(std::int32_t v) const { return value(v).is_view() ? value(v).base : v; }

  // ---- a group being tried: nothing is changed until it fits ----
  struct Trial {
    int into = -1;  // the group that takes the others in; -1: a new one
    std::vector<std::int64_t> axes;
    std::uint32_t rows = Group::kUndecided;
    std::vector<std::uint32_t> signatures;                          // of members so far, besides none
    std::vector<std::pair<int, std::vector<std::int8_t>>> renamed;  // joined groups and where their axes went
    AxisMap map{};                                                  // of the new value
    std::uint32_t all() const { return (1u << axes.size()) - 1; }
  };

  void place(std::int32_t v) {
    const Value& x = value(v);
    Placement& p = f_.places[v];
    if (x.is_leaf || (x.op == Op::constant && x.inputs.empty())) return;
    if (x.op == Op::depend || x.op == Op::output || info(x.op).cls == OpClass::library || x.is_view()) {
      // A view is where its base is; `depend` also waits for its second input.
      for (std::int32_t in : x.inputs)
        p.level = std::max(p.level, x.is_view() && x.op != Op::depend ? level_of(in) : ready(in));
      if (x.op == Op::depend && computed(v)) --p.level;  // readers of computed memory are a level later anyway
      return;
    }
    int level = not_before_.empty() ? 0 : not_before_[v];
    for (std::int32_t in : x.inputs) level = std::max(level, usable_inside(in) ? level_of(in) : ready(in));
    if (std::optional<Trial> t = attempt(v, level); t && totals_fit(*t)) {
      commit(v, level, *t);
      return;
    }
    // With everything it needs in memory, it always fits a sweep of its own.
    for (std::int32_t in : x.inputs) level = std::max(level, ready(in));
    std::optional<Trial> t = attempt(v, level);
    require(t.has_value(), "internal: {} {} does not fit any sweep", info(x.op).name, x.shape);
    commit(v, level, *t);
  }

  int level_of(std::int32_t v) const {
    return f_.places[v].level > f_.places[base(v)].level ? f_.places[v].level : f_.places[base(v)].level;
  }
  bool computed(std::int32_t v) const {
    const std::int32_t b = base(v);
    return f_.places[b].group >= 0 || value(b).op == Op::output || info(value(b).op).cls == OpClass::library;
  }
  // The first level at which v can be read from memory.
  int ready(std::int32_t v) const { return level_of(v) + (computed(v) ? 1 : 0); }
  // Can a member of v's group read v while the sweep runs?
  bool usable_inside(std::int32_t v) const {
    const std::int32_t b = base(v);
    return f_.places[b].group >= 0 && (!value(v).is_view() || value(v).mappable) && level_of(v) == f_.places[b].level;
  }
  bool inside(std::int32_t v, int level) const { return usable_inside(v) && f_.places[base(v)].level == level; }

  // Does memory v have different elements along d?
  bool memory_varies(std::int32_t v, int d) const {
    const Value& x = value(v);
    if (x.shape[d] == 1) return false;
    if (x.is_leaf && x.op != Op::data) return x.op != Op::constant;
    if (x.is_view()) return x.strides[d] != 0;
    return !x.is_leaf || x.strides[d] != 0;
  }

  // Adds the group of inside-input `in` to the trial and unifies its dimensions with the trial's map.
  bool take_in(Trial& t, std::int32_t in, const AxisMap& seen_in, int rank) {
    const int h = f_.places[base(in)].group;
    const Group& other = f_.groups[h];
    AxisMap seen = seen_in;
    if (t.into < 0 && t.axes.empty()) {
      t.into = h;
      t.axes = other.axes;
      t.rows = other.rows;
      add_signatures(t, h, nullptr);
      for (int d = 0; d < rank; ++d) {
        if (t.map[d] == kFree || t.map[d] == kUnit) t.map[d] = seen[d];
      }
      return true;
    }
    std::vector<std::int8_t> where;
    for (auto& [group, name] : t.renamed) {
      if (group == h) where = name;
    }
    if (h != t.into && where.empty()) {
      where.assign(other.axes.size(), kFree);
      for (int d = 0; d < rank; ++d) {
        if (t.map[d] >= 0 && seen[d] >= 0) {
          if (where[seen[d]] != kFree && where[seen[d]] != t.map[d]) return false;
          where[seen[d]] = t.map[d];
        }
      }
      // Axes that the two groups do not share through this value: pair equal sizes, add the rest. Two groups that each
      // have an axis the other lacks do not fit one space.
      bool added = false;
      for (std::size_t a = 0; a < where.size(); ++a) {
        if (where[a] != kFree) continue;
        for (std::size_t b = 0; b < t.axes.size(); ++b) {
          const bool taken = std::find(where.begin(), where.end(), static_cast<std::int8_t>(b)) != where.end();
          if (!taken && t.axes[b] == other.axes[a]) {
            where[a] = static_cast<std::int8_t>(b);
            break;
          }
        }
        if (where[a] == kFree) {
          where[a] = static_cast<std::int8_t>(t.axes.size());
          t.axes.push_back(other.axes[a]);
          added = true;
        }
      }
      if (t.axes.size() > Shape::kMaxRank) return false;
      // Where the whole space is one row, a reduction covered every axis: no further one may be added.
      if ((t.rows == 0 || other.rows == 0) && (added || where.size() != t.axes.size())) return false;
      if (added) {
        std::uint32_t covered = 0;
        for (std::int8_t w : where) covered |= 1u << w;
        if (covered != t.all()) return false;
      }
      if (other.rows != Group::kUndecided) {
        const std::uint32_t rows = rename(other.rows, where);
        if (t.rows == Group::kUndecided) t.rows = rows;
        if (t.rows != rows) return false;
      }
      add_signatures(t, h, &where);
      t.renamed.emplace_back(h, where);
    }
    if (!where.empty()) {
      for (int d = 0; d < rank; ++d) {
        if (seen[d] >= 0) seen[d] = where[seen[d]];
      }
    }
    for (int d = 0; d < rank; ++d) {
      if (seen[d] < 0) continue;
      if (t.map[d] < 0) {
        for (int e = 0; e < rank; ++e) {
          if (t.map[e] == seen[d]) return false;
        }
        t.map[d] = seen[d];
      }
      if (t.map[d] != seen[d]) return false;
    }
    return true;
  }

  static std::uint32_t rename(std::uint32_t set, const std::vector<std::int8_t>& where) {
    std::uint32_t out = 0;
    for (std::size_t a = 0; a < where.size(); ++a) {
      if (set >> a & 1) out |= 1u << where[a];
    }
    return out;
  }

  void add_signatures(Trial& t, int group, const std::vector<std::int8_t>* where) const {
    for (std::uint32_t set : f_.groups[group].signatures) add_signature(t, where ? rename(set, *where) : set);
  }
  static void add_signature(Trial& t, std::uint32_t set) {
    if (set != 0 && std::find(t.signatures.begin(), t.signatures.end(), set) == t.signatures.end())
      t.signatures.push_back(set);
  }

  // Where the trial makes the whole space one row, an earlier total would still be ready only in the epilogue.
  bool totals_fit(const Trial& t) const {
    auto has_totals = [this](int group) {
      const Group& g = f_.groups[group];
      return g.rows != 0 && std::any_of(g.members.begin(), g.members.end(),
                                        [this](std::int32_t m) { return f_.places[m].post != Post::no; });
    };
    if (t.rows != 0 || t.into < 0) return true;
    return !has_totals(t.into) && std::none_of(t.renamed.begin(), t.renamed.end(),
                                               [&](const auto& renamed) { return has_totals(renamed.first); });
  }

  std::uint32_t signature_of(const Trial& t, std::int32_t in) const {
    const Placement& p = f_.places[base(in)];
    for (auto& [group, where] : t.renamed) {
      if (group == p.group) return rename(p.varies, where);
    }
    return p.varies;
  }

  // Binds dimension d of the trial's map to an axis: one of the group's that the value does not use yet and that has
  // its size (the columns first), or a new one.
  bool bind(Trial& t, int d, std::int64_t size, int rank) {
    std::uint32_t used = 0;
    for (int e = 0; e < rank; ++e) {
      if (t.map[e] >= 0) used |= 1u << t.map[e];
    }
    for (int prefer_columns = 1; prefer_columns >= 0; --prefer_columns) {
      for (std::size_t a = 0; a < t.axes.size(); ++a) {
        if ((used >> a & 1) || t.axes[a] != size) continue;
        if (prefer_columns && (t.rows == Group::kUndecided || (t.rows >> a & 1))) continue;
        t.map[d] = static_cast<std::int8_t>(a);
        return true;
      }
    }
    if (t.axes.size() == Shape::kMaxRank) return false;
    t.map[d] = static_cast<std::int8_t>(t.axes.size());
    t.axes.push_back(size);
    return true;
  }

  // Three signatures at most: none, rows, all.
  static bool signatures_fit(Trial& t) {
    for (std::uint32_t s : t.signatures) {
      if (s == t.all() || s == 0) continue;
      if (t.rows == Group::kUndecided) t.rows = s;
      if (t.rows != s) return false;
    }
    return t.rows == Group::kUndecided || t.rows != t.all() || t.all() == 0;
  }

  std::optional<Trial> attempt(std::int32_t v, int level) {
    const Value& x = value(v);
    pending_reads_ = 0;
    pending_operand_map_ = {};
    switch (info(x.op).cls) {
      case OpClass::elementwise:
        return attempt_elementwise(v, level);
      case OpClass::reduce:
        return attempt_reduce(v, level);
      default:
        return x.op == Op::pick ? attempt_pick(v, level) : attempt_place(v, level);
    }
  }

  Trial start(const Shape& shape) const {
    Trial t;
    for (int d = 0; d < shape.rank(); ++d) t.map[d] = shape[d] == 1 ? kUnit : kFree;
    return t;
  }

  std::optional<Trial> attempt_elementwise(std::int32_t v, int level) {
    const Value& x = value(v);
    const int rank = x.shape.rank();
    bool any_post = false, any_main = false;
    for (std::int32_t in : x.inputs) {
      if (!inside(in, level)) continue;
      const Placement& p = f_.places[base(in)];
      (p.post != Post::no ? any_post : any_main) |= p.post != Post::no || p.varies != 0;
    }
    if (any_post) {
      if (std::optional<Trial> t = attempt_post(v, level)) return t;
      if (!make_totals_usable(v, level)) return std::nullopt;
    }
    Trial t = start(x.shape);
    std::uint32_t varies = 0;
    for (std::int32_t in : x.inputs) {
      if (!inside(in, level)) continue;
      if (f_.places[base(in)].post != Post::no) return std::nullopt;
      if (!take_in(t, in, seen_map(g_, f_, in), rank)) return std::nullopt;
    }
    const std::size_t axes_before = t.axes.size();
    int last_old = -1, first_new = rank;
    for (int d = 0; d < rank; ++d) {
      if (t.map[d] >= 0) last_old = d;
      if (t.map[d] != kFree) continue;
      const std::size_t n = t.axes.size();
      if (!bind(t, d, x.shape[d], rank)) return std::nullopt;
      if (t.axes.size() > n) first_new = std::min(first_new, d);
      bool varying = false;
      for (std::int32_t in : x.inputs) varying |= !inside(in, level) && memory_varies(in, d);
      if (!varying) varies |= 1u << t.map[d];  // broadcast along d in every input, but its memory has room for all
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
    // Values computed on fewer axes can become row values only if the new axes are inner ones; otherwise they would be
    // recomputed for every row.
    if (t.axes.size() > axes_before && axes_before > 0 && first_new < last_old) return std::nullopt;
    add_signature(t, varies);
    if (!signatures_fit(t)) return std::nullopt;
    pending_varies_ = varies;
    pending_post_ = Post::no;
    return t;
  }

  // Operations on finished totals or column sums: the epilogue.
  std::optional<Trial> attempt_post(std::int32_t v, int level) {
    const Value& x = value(v);
    const int rank = x.shape.rank();
    Post kind = Post::scalar;
    for (std::int32_t in : x.inputs) {
      if (inside(in, level) && f_.places[base(in)].post == Post::column) kind = Post::column;
    }
    if (kind == Post::scalar && x.shape.numel() != 1) return std::nullopt;
    Trial t = start(x.shape);
    for (std::int32_t in : x.inputs) {
      if (!inside(in, level)) continue;
      const Placement& p = f_.places[base(in)];
      if (p.post == Post::no && p.varies != 0) return std::nullopt;
      if (!take_in(t, in, seen_map(g_, f_, in), rank)) return std::nullopt;
    }
    if (t.rows == 0) return std::nullopt;  // one of the groups is one row: its reductions are not totals
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
      if (t.map[d] == kFree) return std::nullopt;  // broadcast along d, but its memory would have room for all
    }
    if (!signatures_fit(t)) return std::nullopt;
    pending_varies_ = varies;
    pending_post_ = kind;
    return t;
  }

  // In a small space a total that its own sweep needs makes the whole space one row.
  bool make_totals_usable(std::int32_t v, int level) {
    bool done = false;
    for (std::int32_t in : value(v).inputs) {
      if (!inside(in, level)) continue;
      const Placement& p = f_.places[base(in)];
      if (p.post == Post::no) continue;
      Group& group = f_.groups[p.group];
      std::int64_t size = 1;
      for (std::int64_t s : group.axes) size *= s;
      if (p.post == Post::column || size > kSmallSpace || (group.rows != Group::kUndecided && group.rows != 0))
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
    t = start(y.shape);
    if (inside(in, level)) {
      const Placement& p = f_.places[base(in)];
      if (p.post != Post::no || !take_in(t, in, seen_map(g_, f_, in), rank)) return false;
      for (int d = 0; d < rank; ++d) {
        if (t.map[d] == kFree) return false;
      }
      pending_varies_ = p.varies;
    } else {
      for (int d = 0; d < rank; ++d) {
        if (t.map[d] == kFree && !bind(t, d, y.shape[d], rank)) return false;
      }
      // A fresh space: dimensions of equal size are different axes.
      pending_varies_ = t.all();
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
    const std::uint32_t varies = pending_varies_, all = t.all(), kept = all & ~reduced;
    pending_post_ = Post::no;
    pending_reads_ = varies;
    pending_operand_map_ = t.map;
    add_signature(t, varies);
    if (varies == all) {
      if (kept == 0) {
        if (t.rows != 0) pending_post_ = Post::scalar;  // rows == 0: the whole space is one row already
      } else {
        if (t.rows == Group::kUndecided) t.rows = innermost || !prefix ? kept : reduced;
        if (t.rows == kept) {
          pending_post_ = Post::no;
        } else if (t.rows == reduced) {
          pending_post_ = Post::column;
        } else {
          return std::nullopt;
        }
      }
      pending_varies_ = kept;
    } else if (t.rows != Group::kUndecided && varies == t.rows && reduced == t.rows) {
      pending_post_ = Post::scalar;
      pending_varies_ = 0;
    } else {
      return std::nullopt;
    }
    if (pending_post_ == Post::no) add_signature(t, pending_varies_);
    if (!signatures_fit(t)) return std::nullopt;
    for (int d = 0; d < from.rank(); ++d) {
      if (x.attrs.axes >> d & 1) t.map[static_cast<std::size_t>(d) % t.map.size()] = kUnit;
    }
    return t;
  }

  // Unifies a row operand (index or cotangent of pick/place) with the trial; `axis` is the one it lacks.
  bool take_row_operand(Trial& t, std::int32_t in, int level, int rank) {
    if (inside(in, level)) {
      if (f_.places[base(in)].post != Post::no) return false;
      return take_in(t, in, seen_map(g_, f_, in), rank);
    }
    return true;
  }

  std::optional<Trial> attempt_pick(std::int32_t v, int level) {
    const Value& x = value(v);
    const auto axis = static_cast<int>(x.attrs.i[0]);
    Trial t;
    if (!take_operand(t, x.inputs[0], level) || pending_varies_ != t.all()) return std::nullopt;
    const std::int8_t column = t.map[axis];
    pending_reads_ = t.all();
    pending_operand_map_ = t.map;
    if (!take_row_operand(t, x.inputs[1], level, x.shape.rank())) return std::nullopt;
    return finish_row_op(t, axis, column, true);
  }

  std::optional<Trial> attempt_place(std::int32_t v, int level) {
    const Value& x = value(v);
    const auto axis = static_cast<int>(x.attrs.i[0]);
    const int rank = x.shape.rank();
    Trial t = start(x.shape);
    for (std::int32_t in : x.inputs) {
      if (inside(in, level)) {
        AxisMap seen = seen_map(g_, f_, in);
        if (f_.places[base(in)].post != Post::no || !take_in(t, in, seen, rank)) return std::nullopt;
        t.map[axis] = kFree;
      }
    }
    for (int d = 0; d < rank; ++d) {
      if (t.map[d] == kFree && !bind(t, d, x.shape[d], rank)) return std::nullopt;
    }
    return finish_row_op(t, axis, t.map[axis], false);
  }

  std::optional<Trial> finish_row_op(Trial& t, int axis, std::int8_t column, bool pick) {
    const std::uint32_t rows = t.all() & ~(1u << column);
    if (t.rows == Group::kUndecided) t.rows = rows;
    add_signature(t, t.all());
    add_signature(t, rows);
    if (t.rows != rows || !signatures_fit(t)) return std::nullopt;
    pending_varies_ = pick ? rows : t.all();
    pending_post_ = Post::no;
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
    for (auto& [other, where] : t.renamed) join(id, other, where);
    Group& group = f_.groups[id];
    group.axes = t.axes;
    group.rows = t.rows;
    group.signatures = t.signatures;
    group.members.push_back(v);
    Placement& p = f_.places[v];
    p.group = id;
    p.level = level;
    p.map = t.map;
    p.varies = pending_varies_;
    p.post = pending_post_;
    p.reads = pending_reads_;
    p.operand_map = pending_operand_map_;
  }

  void join(int into, int other, const std::vector<std::int8_t>& where) {
    for (std::int32_t m : f_.groups[other].members) {
      Placement& p = f_.places[m];
      p.group = into;
      p.varies = rename(p.varies, where);
      p.reads = rename(p.reads, where);
      for (AxisMap* map : {&p.map, &p.operand_map}) {
        for (int d = 0; d < Shape::kMaxRank; ++d) {
          std::int8_t& a = (*map)[d];
          if (a >= 0 && static_cast<std::size_t>(a) < where.size()) a = where[a];
        }
      }
    }
    auto& members = f_.groups[into].members;
    members.insert(members.end(), f_.groups[other].members.begin(), f_.groups[other].members.end());
    std::sort(members.begin(), members.end());
    f_.groups[other].members.clear();
  }

  // Sweeps on the same level that read the same memory over the same space become one, so that it is read once.
  void join_neighbours() {
    std::map<std::pair<std::int32_t, int>, std::pair<int, AxisMap>> readers;  // (memory, level) -> group, map
    for (std::int32_t v = 0; v < count(); ++v) {
      if (f_.places[v].group < 0) continue;
      for (std::int32_t in : value(v).inputs) {
        const Value& y = value(in);
        const Placement& p = f_.places[v];
        if (inside(in, p.level) || y.shape.numel() <= 1) continue;
        const bool whole =
            (info(value(v).op).cls == OpClass::reduce || value(v).op == Op::pick) && in == value(v).inputs[0];
        if (!whole && (info(value(v).op).cls != OpClass::elementwise || p.post != Post::no)) continue;
        const AxisMap& seen = whole ? p.operand_map : p.map;
        auto [it, fresh] = readers.try_emplace({in, p.level}, p.group, seen);
        if (fresh) continue;
        auto& [first, map] = it->second;
        if (f_.groups[first].members.empty()) {  // already merged elsewhere
          it->second = {p.group, seen};
          continue;
        }
        if (first != p.group) try_join(first, p.group, map, seen, y.shape.rank());
      }
    }
  }

  void try_join(int a, int b, const AxisMap& map_a, const AxisMap& map_b, int rank) {
    const Group &ga = f_.groups[a], &gb = f_.groups[b];
    if (ga.axes.size() != gb.axes.size() || ga.members.size() + gb.members.size() > 256) return;
    std::vector<std::int8_t> where(gb.axes.size(), kFree);
    for (int d = 0; d < rank; ++d) {
      if ((map_a[d] < 0) != (map_b[d] < 0)) return;
      if (map_a[d] >= 0) where[map_b[d]] = map_a[d];
    }
    if (std::find(where.begin(), where.end(), kFree) != where.end()) return;
    Trial t;
    t.axes = ga.axes;
    t.rows = ga.rows;
    if (gb.rows != Group::kUndecided) {
      const std::uint32_t rows = rename(gb.rows, where);
      if (t.rows == Group::kUndecided) t.rows = rows;
      if (t.rows != rows) return;
    }
    add_signatures(t, a, nullptr);
    add_signatures(t, b, &where);
    // A total in one group and rows == 0 in the other would disagree about where totals are ready.
    if (ga.rows != gb.rows && (ga.rows == 0 || gb.rows == 0)) return;
    if (!signatures_fit(t)) return;
    join(a, b, where);
    f_.groups[a].rows = t.rows;
    f_.groups[a].signatures = t.signatures;
  }

  // What is read outside its sweep must be written to memory.
  void mark_memory() {
    for (std::int32_t v = 0; v < count(); ++v) {
      const Value& x = value(v);
      const Placement& p = f_.places[v];
      if (x.is_view()) {
        continue;
      }
      for (std::int32_t in : x.inputs) {
        const std::int32_t b = base(in);
        if (f_.places[b].group < 0) continue;
        if (p.group != f_.places[b].group || !usable_inside(in)) f_.places[b].in_memory = true;
        if (p.group >= 0 && p.group == f_.places[b].group && !inside(in, p.level)) f_.places[b].in_memory = true;
      }
    }
    for (std::int32_t r : g_.roots) {
      if (f_.places[base(r)].group >= 0) f_.places[base(r)].in_memory = true;
    }
  }

  const ValueGraph& g_;
  const std::vector<int>& not_before_;
  Fusion f_;
  std::uint32_t pending_varies_ = 0;
  Post pending_post_ = Post::no;
  std::uint32_t pending_reads_ = 0;
  AxisMap pending_operand_map_{};
};

}  // namespace

Fusion fuse(ValueGraph& graph) {
  std::vector<int> wait;
  Fusion fusion = Fuser(graph, wait).run();
  if (compute_twice_what_totals_share(graph, fusion)) fusion = Fuser(graph, wait).run();
  std::vector<int> delay(graph.values.size(), 0);
  for (int round = 0; round < 3; ++round) {
    std::vector<int> next = latest_levels(graph, fusion, wait);
    delay_groups(graph, fusion, wait, delay);
    for (std::size_t v = 0; v < next.size(); ++v) next[v] = std::max(next[v], delay[v]);
    if (next == wait || (wait.empty() && std::all_of(next.begin(), next.end(), [](int l) { return l == 0; }))) break;
    wait = std::move(next);
    fusion = Fuser(graph, wait).run();
  }
  return fusion;
}

}  // namespace ebb
