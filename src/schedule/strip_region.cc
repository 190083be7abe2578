// SPDX-License-Identifier: MIT
#include "schedule/strip_region.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/format_error.h"

namespace ebb {

std::vector<RowDims> StripRegion::inputs(const ValueGraph& g, std::int32_t v) const {
  std::optional<std::vector<RowDims>> in;
  if (role[v] == Role::by_row) {
    in = rows_of_inputs(g, v, rows[v]);
  } else {
    for (std::size_t k = 0; k < g.values[v].inputs.size() && !in; ++k) {
      const std::int32_t u = g.values[v].inputs[k];
      if (role[u] == Role::by_row) in = rows_of_summed_inputs(g, v, k, rows[u]);
    }
  }
  require(in.has_value(), "internal: {} {} has no rows", info(g.values[v].op).name, g.values[v].shape);
  return *in;
}

bool StripRegion::is_shift(std::int32_t maximum) const {
  return std::any_of(shifts.begin(), shifts.end(), [&](const auto& s) { return s.second.maximum == maximum; });
}

std::vector<std::int32_t> StripRegion::reads(const ValueGraph& g, std::int32_t v) const {
  const auto shifted = shifts.find(v);
  if (shifted == shifts.end()) return g.values[v].inputs;
  const std::int32_t maximum = shifted->second.maximum;
  return {g.values[maximum].inputs[0], maximum};
}

namespace {

using Role = StripRegion::Role;
using Kind = RowsOfResult::Kind;

class Finder {
 public:
  Finder(const ValueGraph& graph, const StripModel& model, bool through_products)
      : g_(graph), model_(model), through_products_(through_products) {
    const std::size_t n = g_.values.size();
    live_.assign(n, 0);
    for (std::int32_t r : g_.roots) live_[r] = 1;
    for (std::size_t v = n; v-- > 0;) {
      if (!live_[v]) continue;
      for (std::int32_t in : g_.values[v].inputs) live_[in] = 1;
    }
    readers_.resize(n);
    for (std::size_t v = 0; v < n; ++v) {
      if (!live_[v]) continue;
      for (std::size_t k = 0; k < g_.values[v].inputs.size(); ++k)
        readers_[g_.values[v].inputs[k]].push_back({static_cast<std::int32_t>(v), k});
    }
    r_.role.assign(n, Role::outside);
    r_.rows.assign(n, {});
    r_.wide.assign(n, 0);
    for (std::size_t v = 0; v < n; ++v) r_.wide[v] = is_wide(g_.values[g_.base(static_cast<std::int32_t>(v))]);
    tentative_.assign(n, 0);
  }

  std::optional<StripRegion> run(std::int32_t seed, RowDims rows) {
    if (!live_[seed] || !r_.wide[seed]) return std::nullopt;
    r_.count = count_rows(value(seed).shape, rows);
    if (!grow_wide(seed, rows) || !grow_between() || !is_consistent()) return std::nullopt;
    find_shifts();
    number_rounds();
    const StripRegion found = r_;
    if (!divide_into_rounds()) return std::nullopt;
    if (leaves_[seed]) return std::nullopt;  // the whole product is needed
    if (r_.rounds.size() == 1 || (model_.tile_bytes == 0 && model_.rows_cut == 0)) return std::move(r_);
    const StripRegion early = std::exchange(r_, found);
    delay_to_later_rounds();
    return divide_into_rounds() && !leaves_[seed] && r_.products_again <= early.products_again ? std::move(r_) : early;
  }

  std::optional<Apart> apart(std::int32_t seed, RowDims rows) {
    if (!live_[seed] || !r_.wide[seed] || !grow_wide(seed, rows)) return std::nullopt;
    const auto n = static_cast<std::int32_t>(g_.values.size());
    std::vector<char> leads_back(g_.values.size(), 0);
    for (std::int32_t v = n - 1; v >= 0; --v) {
      leads_back[v] =
          (by_row(v) && r_.wide[v]) || std::any_of(readers_[v].begin(), readers_[v].end(),
                                                   [&](const Reader& r) { return leads_back[r.value] != 0; });
    }
    Apart made{g_};
    std::map<std::int32_t, std::int32_t> copies;
    for (std::int32_t v = 0; v < n; ++v) {
      if (!live_[v] || r_.wide[v] || value(v).op == Op::matmul || value(v).is_view()) continue;
      for (std::size_t k = 0; k < value(v).inputs.size(); ++k) {
        const std::int32_t u = value(v).inputs[k];
        if (!by_row(u) || !r_.wide[u]) continue;
        const Kind kind = rows_of_result(g_, v, k, r_.rows[u]).kind;
        if (kind == Kind::lost || (kind == Kind::summed && leads_back[v]))
          made.graph.values[v].inputs[k] = copied(u, made, copies);
      }
    }
    const auto second = copies.find(seed);
    if (second == copies.end()) return std::nullopt;
    made.graph.roots.push_back(seed);  // sorting updates the indices of roots
    made.graph.roots.push_back(second->second);
    sort_inputs_first(made.graph);
    made.second = made.graph.roots.back();
    made.graph.roots.pop_back();
    made.seed = made.graph.roots.back();
    made.graph.roots.pop_back();
    return made;
  }

 private:
  std::int32_t copied(std::int32_t v, Apart& made, std::map<std::int32_t, std::int32_t>& copies) const {
    if (!by_row(v) || !r_.wide[v]) return v;
    if (const auto found = copies.find(v); found != copies.end()) return found->second;
    Value copy = value(v);
    copy.node = -1;
    for (std::int32_t& in : copy.inputs) in = copied(in, made, copies);
    if (copy.is_view()) copy.base = copied(copy.base, made, copies);
    made.products_again += copy.op == Op::matmul;
    made.graph.values.push_back(std::move(copy));
    return copies[v] = static_cast<std::int32_t>(made.graph.values.size()) - 1;
  }

  struct Reader {
    std::int32_t value;
    std::size_t input;
  };
  const Value& value(std::int32_t v) const { return g_.values[v]; }
  // Width by elements: masks and halves of a wide value are wide, too.
  bool is_wide(const Value& x) const {
    return !x.is_leaf && x.strips < 0 && x.op != Op::constant && x.shape.numel() * 4 >= model_.large;
  }
  bool by_row(std::int32_t v) const { return r_.role[v] == Role::by_row; }
  bool inside(std::int32_t v) const { return r_.role[v] != Role::outside; }

  bool join(std::int32_t v, RowDims rows) {
    if (by_row(v)) return r_.rows[v] == rows;
    if (r_.role[v] == Role::summed) return false;
    r_.role[v] = Role::by_row;
    r_.rows[v] = rows;
    queue_.push_back(v);
    return true;
  }

  // Wide values connected to each other. False: they do not agree about the rows.
  bool grow_wide(std::int32_t seed, RowDims rows) {
    if (!join(seed, rows)) return false;
    while (!queue_.empty()) {
      const std::int32_t v = queue_.back();
      queue_.pop_back();
      for (const Reader& reader : readers_[v]) {
        const std::int32_t w = reader.value;
        const RowsOfResult f = rows_of_result(g_, w, reader.input, r_.rows[v]);
        if (f.kind == Kind::summed) {
          if (by_row(w)) return false;
          r_.role[w] = Role::summed;
        } else if (f.kind == Kind::rows && r_.wide[w] && (through_products_ || value(w).op != Op::matmul)) {
          if (!join(w, f.rows)) return false;
        }
      }
      if (value(v).op == Op::matmul) continue;  // a region begins with products
      const auto in = rows_of_inputs(g_, v, r_.rows[v]);
      if (!in) return false;
      for (std::size_t k = 0; k < in->size(); ++k) {
        const std::int32_t u = value(v).inputs[k];
        if (!r_.wide[u] || (*in)[k].none() || value(g_.base(u)).is_call() != (value(g_.base(u)).op == Op::matmul))
          continue;
        if (!rows_of_inputs(g_, u, (*in)[k])) continue;
        if (!join(u, (*in)[k])) return false;
      }
    }
    return true;
  }

  // Small values by row: those that wide ones depend on, through steps that stay within rows, and all readers of wide
  // ones, which must see them before they are gone.
  bool grow_between() {
    const auto n = static_cast<std::int32_t>(g_.values.size());
    for (std::int32_t v = 0; v < n; ++v) {
      if (!live_[v] || inside(v)) continue;
      for (std::size_t k = 0; k < value(v).inputs.size(); ++k) {
        const std::int32_t u = value(v).inputs[k];
        if (!by_row(u) && !tentative_[u]) continue;
        const RowsOfResult f = rows_of_result(g_, v, k, r_.rows[u]);
        if (f.kind != Kind::rows) continue;
        if (tentative_[v] && r_.rows[v] != f.rows) {  // rows of one input are columns of another
          tentative_[v] = 0;
          break;
        }
        tentative_[v] = 1;
        r_.rows[v] = f.rows;
      }
    }
    for (std::int32_t v = n - 1; v >= 0; --v) {
      if (!tentative_[v]) continue;
      const bool reads_wide = std::any_of(value(v).inputs.begin(), value(v).inputs.end(),
                                          [&](std::int32_t u) { return by_row(u) && r_.wide[u]; });
      const bool leads_back = std::any_of(readers_[v].begin(), readers_[v].end(), [&](const Reader& r) {
        return by_row(r.value) && rows_of_input(r) == r_.rows[v];
      });
      if (reads_wide || leads_back) r_.role[v] = Role::by_row;
    }
    return true;
  }
  RowDims rows_of_input(const Reader& r) const {
    const auto in = rows_of_inputs(g_, r.value, r_.rows[r.value]);
    return in ? (*in)[r.input] : RowDims{};
  }

  // Checks that members agree about each other's rows, and that every input has as many.
  bool is_consistent() {
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) {
      if (!inside(v)) continue;
      if (by_row(v) && !rows_of_inputs(g_, v, r_.rows[v])) return false;
      const std::vector<RowDims> in = r_.inputs(g_, v);
      for (std::size_t k = 0; k < in.size(); ++k) {
        const std::int32_t u = value(v).inputs[k];
        if (by_row(u) && in[k] != r_.rows[u]) return false;
        if (!in[k].none() && count_rows(value(u).shape, in[k]) != r_.count) return false;
      }
    }
    return true;
  }

  void find_shifts() {
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) {
      const Value& sum = value(v);
      if (r_.role[v] != Role::summed || sum.op != Op::sum || is_half(sum.dtype)) continue;
      const Value& terms = value(sum.inputs[0]);
      if (terms.op != Op::exp) continue;
      const Value& difference = value(terms.inputs[0]);
      if (difference.op != Op::sub) continue;
      const std::int32_t x = difference.inputs[0], shift = g_.base(difference.inputs[1]);
      const std::int32_t maximum = value(shift).op == Op::where ? value(shift).inputs[1] : shift;
      if (value(maximum).op != Op::max || r_.role[maximum] != Role::summed || value(maximum).inputs[0] != x) continue;
      if (value(maximum).attrs.axes != sum.attrs.axes || value(x).dtype != sum.dtype || !by_row(x)) continue;
      if (shift != maximum && !replaces_infinite(shift, maximum)) continue;
      if (is_repeated_along(difference.inputs[1], value(maximum).shape)) r_.shifts[v] = {maximum, shift};
    }
  }
  // where(isfinite(maximum), maximum, a number)
  bool replaces_infinite(std::int32_t v, std::int32_t maximum) const {
    const Value& finite = value(value(v).inputs[0]);
    return finite.op == Op::isfinite && finite.inputs[0] == maximum && value(v).shape == value(maximum).shape &&
           value(g_.base(value(v).inputs[2])).op == Op::constant;
  }
  // Is v a value of this shape, repeated wherever dimensions of size 1 are longer in v?
  bool is_repeated_along(std::int32_t v, const Shape& of) const {
    const Value& x = value(v);
    if (!x.is_view()) return x.shape == of;
    if (x.shape.rank() != of.rank() || x.offset != 0) return false;
    const Strides whole = contiguous_strides(of);
    for (int d = 0; d < of.rank(); ++d) {
      if (of[d] != 1 ? x.shape[d] != of[d] || x.strides[d] != whole[d] : x.shape[d] != 1 && x.strides[d] != 0)
        return false;
    }
    return true;
  }

  // Counts how often a value waits for the whole batch: a sum over rows is known when its round has ended, and so is
  // whatever is computed outside.
  void number_rounds() {
    depth_.assign(g_.values.size(), 0);
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) {
      for (std::int32_t u : r_.reads(g_, v)) {
        const bool after = (r_.role[u] == Role::summed && !r_.shifts.contains(v)) || (by_row(u) && !inside(v));
        depth_[v] = std::max(depth_[v], depth_[u] + (after ? 1 : 0));
      }
      if (value(v).is_view()) depth_[v] = std::max(depth_[v], depth_[g_.base(v)]);
    }
  }

  // Values that no wide value of a later round depends on, such as a loss, are computed in the last possible round: if
  // that computes the product for the gradient, a tile of an earlier one need not know all of it.
  void delay_to_later_rounds() {
    int last = 0;
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) {
      if (inside(v)) last = std::max(last, depth_[v]);
    }
    const std::vector<int> early = depth_;
    std::vector<int> reached(g_.values.size(), 0);  // the last round with a wide value that depends on v
    for (auto v = static_cast<std::int32_t>(g_.values.size()) - 1; v >= 0; --v) {
      if (!live_[v]) continue;
      if (by_row(v) && r_.wide[v]) reached[v] = early[v];
      int latest = inside(v) ? last : last + 1;
      for (const Reader& reader : readers_[v]) {
        reached[v] = std::max(reached[v], reached[reader.value]);
        const bool after = r_.role[v] == Role::summed || (by_row(v) && !inside(reader.value));
        latest = std::min(latest, depth_[reader.value] - (after ? 1 : 0));
      }
      if (r_.shifts.contains(v) || r_.is_shift(v)) continue;  // they are computed together
      if (reached[v] <= early[v]) depth_[v] = std::max(depth_[v], latest);
    }
  }

  // Values of v's round that `targets` need, wide ones of earlier rounds included.
  std::vector<std::int32_t> needed(const std::vector<std::int32_t>& targets, int round) const {
    std::vector<char> in(g_.values.size(), 0);
    for (std::int32_t t : targets) in[t] = 1;
    std::vector<std::int32_t> members;
    for (auto v = static_cast<std::int32_t>(g_.values.size()) - 1; v >= 0; --v) {
      if (!in[v]) continue;
      members.push_back(v);
      for (std::int32_t u : r_.reads(g_, v)) {
        if (by_row(u) && (r_.wide[u] || depth_[u] == round)) in[u] = 1;
      }
    }
    std::reverse(members.begin(), members.end());
    return members;
  }

  bool divide_into_rounds() {
    find_leaving();
    do {
      r_.rounds.clear();
      if (!list_rounds()) return false;
    } while (more_leaves());
    std::vector<int> made(g_.values.size(), 0);
    for (const StripRegion::Round& round : r_.rounds) {
      for (std::int32_t v : round.members) {
        const Value& x = value(v);
        if (x.op == Op::matmul) r_.products_again += made[v]++ > 0;
        if (by_row(v) && r_.wide[v] && !x.is_view()) r_.widest_row = std::max(r_.widest_row, bytes(v) / r_.count);
      }
    }
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) {
      if (made[v] && by_row(v) && r_.wide[v] && !leaves_[v]) r_.saved += bytes(v);
    }
    return !r_.rounds.empty();
  }
  std::int64_t bytes(std::int32_t v) const {
    return value(v).shape.numel() * static_cast<std::int64_t>(size_of(value(v).dtype));
  }

  // Finds members that are results or are read outside.
  void find_leaving() {
    leaves_.assign(g_.values.size(), 0);
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) {
      if (!live_[v] || inside(v)) continue;
      for (std::int32_t u : value(v).inputs) {
        if (inside(u)) leaves_[g_.base(u)] = 1;
      }
      if (value(v).is_view()) leaves_[g_.base(v)] = 1;
    }
    for (std::int32_t r : g_.roots) leaves_[g_.base(r)] = 1;
  }

  bool list_rounds() {
    const auto n = static_cast<std::int32_t>(g_.values.size());
    int last = 0;
    for (std::int32_t v = 0; v < n; ++v) {
      if (inside(v)) last = std::max(last, depth_[v]);
    }
    for (int round = 0; round <= last; ++round) {
      StripRegion::Round now;
      for (std::int32_t v = 0; v < n; ++v) {
        if (!live_[v] || depth_[v] != round || value(v).is_view()) continue;
        if (r_.role[v] != Role::summed && !(by_row(v) && leaves_[v])) continue;
        if (by_row(v) && !is_leading(v)) return false;
        now.outputs.push_back(v);
      }
      if (now.outputs.empty()) continue;
      now.members = needed(now.outputs, round);
      r_.rounds.push_back(std::move(now));
    }
    return true;
  }

  // Finds values of an earlier round read by a later one, other than wide ones, which it recomputes.
  bool more_leaves() {
    bool any = false;
    for (const StripRegion::Round& round : r_.rounds) {
      for (std::int32_t v : round.members) {
        for (std::int32_t u : r_.reads(g_, v)) {
          if (!by_row(u) || std::binary_search(round.members.begin(), round.members.end(), u)) continue;
          any |= !leaves_[g_.base(u)];
          leaves_[g_.base(u)] = 1;
        }
      }
    }
    return any;
  }
  // Are its rows consecutive pieces of memory?
  bool is_leading(std::int32_t v) const {
    std::int64_t before = 1;
    for (int d = 0; d < r_.rows[v].first; ++d) before *= value(v).shape[d];
    return before == 1;
  }

  const ValueGraph& g_;
  const StripModel& model_;
  const bool through_products_;
  std::vector<char> live_, tentative_, leaves_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<std::int32_t> queue_;
  std::vector<int> depth_;
  StripRegion r_;
};

}  // namespace

std::optional<StripRegion> find_region(const ValueGraph& graph, const StripModel& model, std::int32_t seed,
                                       RowDims rows, bool through_products) {
  return Finder(graph, model, through_products).run(seed, rows);
}

void pick_before_differences(ValueGraph& g) {
  bool any = false;
  for (std::size_t v = 0, n = g.values.size(); v < n; ++v) {
    if (g.values[v].op != Op::pick) continue;
    const Value difference = g.values[g.values[v].inputs[0]];
    if (difference.op != Op::sub || difference.is_leaf || difference.strips >= 0) continue;
    const std::int32_t number = g.base(difference.inputs[1]);
    const Value& view = g.values[difference.inputs[1]];
    const auto axis = static_cast<int>(g.values[v].attrs.i[0]);
    if (!view.is_view() || view.strides[axis] != 0 || view.offset != 0 || g.values[number].is_leaf) continue;
    if (g.values[number].shape != g.values[v].shape) continue;
    const Strides whole = contiguous_strides(g.values[v].shape);
    bool same = true;
    for (int d = 0; d < view.shape.rank(); ++d)
      same &=
          d == axis || (view.shape[d] == g.values[v].shape[d] && (view.shape[d] == 1 || view.strides[d] == whole[d]));
    if (!same) continue;
    Value picked = g.values[v];
    picked.node = -1;
    picked.inputs[0] = difference.inputs[0];
    g.values.push_back(std::move(picked));
    Value& made = g.values[v];
    made.op = Op::sub;
    made.attrs = {};
    made.label = nullptr;
    made.inputs = {static_cast<std::int32_t>(g.values.size()) - 1, number};
    any = true;
  }
  if (any) sort_inputs_first(g);
}

ValueGraph with_places_per_reader(ValueGraph g, std::int32_t& seed) {
  std::vector<char> read(g.values.size(), 0);
  for (std::size_t v = 0, n = g.values.size(); v < n; ++v) {
    for (std::size_t k = 0; k < g.values[v].inputs.size(); ++k) {
      const std::int32_t u = g.values[v].inputs[k];
      if (g.values[u].op != Op::place || std::exchange(read[u], 1) == 0 || g.values[v].is_view()) continue;
      Value copy = g.values[u];
      copy.node = -1;
      g.values.push_back(std::move(copy));
      g.values[v].inputs[k] = static_cast<std::int32_t>(g.values.size()) - 1;
    }
  }
  g.roots.push_back(seed);
  sort_inputs_first(g);
  seed = g.roots.back();
  g.roots.pop_back();
  return g;
}

std::optional<Apart> with_directions_apart(const ValueGraph& graph, const StripModel& model, std::int32_t seed,
                                           RowDims rows) {
  const ValueGraph g = with_places_per_reader(graph, seed);
  return Finder(g, model, false).apart(seed, rows);
}

}  // namespace ebb
