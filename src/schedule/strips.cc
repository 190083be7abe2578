// SPDX-License-Identifier: MIT
#include "schedule/strips.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/format_error.h"
#include "schedule/schedule_model.h"
#include "schedule/strip_region.h"

namespace ebb {
namespace {

using Role = StripRegion::Role;

// ---- lengths --------------------------------------------------------------------------------------------------------

std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Rows of a strip: as many as fit, in strips of nearly equal length.
std::int64_t strip_length(const StripModel& model, std::int64_t rows, std::int64_t row_bytes) {
  const std::int64_t most = std::max(model.least_rows, model.strip_bytes / std::max<std::int64_t>(1, row_bytes));
  const std::int64_t strips = divided(rows, most),
                     together = std::min(kScheduleModel.strip_rows_together, model.least_rows);
  std::int64_t length = divided(divided(rows, strips), together) * together;
  while (rows % length == 1) length += together;  // a sum over one row would be that row
  return length;
}

// ---- the work on a strip --------------------------------------------------------------------------------------------

DType sum_dtype(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

// Builds the graph of a strip: the members of a round with fewer rows, on placeholders for what they read.
class Bodies {
 public:
  Bodies(ValueGraph& graph, const StripRegion& region, const StripRegion::Round& round, const StripModel& model,
         Device device)
      : g_(graph), region_(region), round_(round), model_(model), device_(device) {}

  // False: some result would not have memory of its own.
  bool make(std::int64_t rows, StripBody& body) {
    const Tracing tracing;
    const NoHistory no_history;
    rows_ = rows;
    made_.clear();
    bound_.clear();
    body.rows = rows;
    for (std::int32_t v : round_.members) {
      Tensor t = member(v);
      if (!t.defined()) return false;
      made_[v] = std::move(t);
    }
    std::vector<Tensor> roots;
    std::vector<Node*> nodes;
    for (std::int32_t v : round_.outputs) {
      roots.push_back(made_.at(v));
      nodes.push_back(roots.back().node());
    }
    body.trace.device = device_;
    {
      GraphLock lock(nodes);
      const Traced traced = trace(body.trace, roots, lock, Placeholders::allowed);
      require(traced == Traced::done, "internal: a strip cannot be traced");
      for (Node* n : body.trace.nodes) body.kept.emplace_back(n);
    }
    if (model_.tile_bytes > 0) {
      const StripModel tiles = tiles_of(model_, rows);
      body.plan = make_plan(body.trace, &tiles);
      const bool any = std::any_of(body.plan.steps.begin(), body.plan.steps.end(),
                                   [](const PlanStep& s) { return s.strips != nullptr; });
      if (any && bind(body, roots)) return true;
    }
    body.plan = make_plan(body.trace, nullptr);
    return bind(body, roots);
  }

  const std::vector<std::int32_t>& inputs() const { return inputs_; }  // values of the graph
  const std::vector<StripInput>& strip_inputs() const { return strip_inputs_; }

 private:
  const Value& value(std::int32_t v) const { return g_.values[v]; }

  // Finds the values of the body's plan that are the loop's inputs and outputs.
  bool bind(StripBody& body, const std::vector<Tensor>& roots) const {
    const auto value_of = [&](const Tensor& t) {
      const auto at = std::find(body.trace.nodes.begin(), body.trace.nodes.end(), t.node());
      return at == body.trace.nodes.end() ? -1 : body.plan.graph.of_node[at - body.trace.nodes.begin()];
    };
    body.inputs.assign(inputs_.size(), -1);
    for (const auto& [key, bound] : bound_) body.inputs[bound.input] = value_of(bound.leaf);
    body.outputs.clear();
    for (std::size_t k = 0; k < roots.size(); ++k) {
      const std::int32_t v = value_of(roots[k]);
      const bool again = std::find(body.outputs.begin(), body.outputs.end(), v) != body.outputs.end();
      const std::int32_t whole = round_.outputs[k];
      const bool added = region_.role[whole] == Role::summed && value(whole).op == Op::matmul;
      if (again || !is_filled(body.plan, v, added)) return false;
      body.outputs.push_back(v);
    }
    return true;
  }

  // Does a step fill v's memory? Where results are `added` to what is there, a product has to, which can do that.
  static bool is_filled(const Plan& plan, std::int32_t v, bool added) {
    for (const PlanStep& s : plan.steps) {
      const auto at = std::find(s.outputs.begin(), s.outputs.end(), v);
      if (at == s.outputs.end()) continue;
      if (!added) return true;
      if (!s.strips) return !s.sweep && s.op == Op::matmul;
      const auto k = static_cast<std::size_t>(at - s.outputs.begin());
      return s.strips->outputs[k].kind != StripOutput::Kind::partial &&
             std::all_of(s.strips->bodies.begin(), s.strips->bodies.end(),
                         [&](const StripBody& b) { return is_filled(b.plan, b.outputs[k], true); });
    }
    return false;
  }

  Tensor member(std::int32_t v) {
    const std::vector<RowDims> rows = region_.inputs(g_, v);
    std::vector<Tensor> in;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const std::int32_t u = value(v).inputs[k];
      const auto found = made_.find(u);
      in.push_back(found != made_.end() ? found->second : boundary(u, rows[k]));
      if (!in.back().defined()) return {};
    }
    const Value& x = value(v);
    const bool summed = region_.role[v] == Role::summed;
    if (!summed && places_across(x, region_.rows[v])) return placed_across(v, in);
    const RowDims out = summed ? RowDims{} : region_.rows[v];
    const Attrs attrs = strip_attrs(x, rows[0], out);
    if (!summed) return make_node(x.op, x.dtype, strip_shape(x.shape, out, rows_), in, attrs, x.label);
    if (x.op == Op::matmul) return make_node(x.op, sum_dtype(x.dtype), x.shape, in, attrs, x.label);
    // One result per strip, whose parts are added once all are there.
    if (is_half(x.dtype)) in[0] = make_node(Op::cast, DType::f32, in[0].shape(), {in[0]});
    return make_node(x.op, sum_dtype(x.dtype), strip_shape(x.shape, rows[0], 1), in, attrs, x.label);
  }

  // place(g, index) along the rows, element by element: g where the row's number is the index.
  Tensor placed_across(std::int32_t v, const std::vector<Tensor>& in) {
    const Value& x = value(v);
    const Shape shape = strip_shape(x.shape, region_.rows[v], rows_);
    const auto expanded = [&](const Tensor& t) { return make_node(Op::expand, t.dtype(), shape, {t}); };
    const Tensor index = make_node(Op::cast, DType::i64, in[1].shape(), {in[1]});
    const Tensor here =
        make_node(Op::eq, DType::bool_, shape, {expanded(row_numbers(v, region_.rows[v])), expanded(index)});
    return make_node(Op::where, x.dtype, shape, {here, expanded(in[0]), expanded(make_constant(0.0, x.dtype))});
  }
  Tensor row_numbers(std::int32_t v, RowDims rows) {
    const std::pair<std::int32_t, int> key{value(v).inputs[1], -2};  // the input itself is bound by other names
    auto found = bound_.find(key);
    if (found == bound_.end()) {
      Bound bound;
      bound.leaf = make_leaf(Op::iota, DType::i64, Shape{rows_}, {});
      bound.leaf.node()->payload.operation = bound.leaf.node()->id;
      bound.input = number_of(key, key.first, {StripInput::Kind::row_numbers});
      found = bound_.emplace(key, std::move(bound)).first;
    }
    Shape ones = strip_shape(value(v).shape, rows, rows_);
    for (int d = 0; d < ones.rank(); ++d) ones = ones.with(d, d == rows.first ? rows_ : 1);
    return make_node(Op::reshape, DType::i64, ones, {found->second.leaf});
  }

  struct Bound {
    std::size_t input;
    Tensor leaf, seen;  // seen: in the shape that the reader expects
  };

  // What the strip reads of u, which others make.
  Tensor boundary(std::int32_t u, RowDims rows) {
    const std::pair<std::int32_t, int> key{u, rows.none() ? -1 : rows.first};
    if (const auto found = bound_.find(key); found != bound_.end()) return found->second.seen;
    const Value& b = value(g_.base(u));
    const Shape shape = strip_shape(value(u).shape, rows, rows_);
    Strides strides;
    const bool one_piece = strip_strides(u, rows, strides);
    Bound bound;
    StripInput how;
    how.row_stride = rows.none() ? 0 : strides[rows.first];
    std::int32_t whose = u;
    if (b.op == Op::constant && b.shape.rank() == 0) {
      how = {StripInput::Kind::number, 0, 0, 1};
      whose = g_.base(u);
      Payload unknown;  // the number comes when the strip runs; only that it is one is known
      unknown.real = b.is_one ? 1 : 2;
      unknown.integer = b.is_one ? 1 : 2;
      bound.leaf = make_leaf(Op::constant, b.dtype, Shape{}, unknown);
      if (!b.is_one) bound.leaf.node()->payload.operation = bound.leaf.node()->id;  // never equal to another
      bound.seen = shape.rank() == 0 ? bound.leaf : make_node(Op::expand, b.dtype, shape, {bound.leaf});
    } else if (const int d = one_piece ? ramp_dim(b, shape, strides) : -1; d >= 0) {
      how = {StripInput::Kind::ramp, how.row_stride, value(u).is_view() ? value(u).offset : 0, strides[d]};
      whose = g_.base(u);
      bound.leaf = make_leaf(Op::iota, b.dtype, Shape{shape[d]}, {});
      bound.leaf.node()->payload.operation = bound.leaf.node()->id;
      Shape ones = shape;
      for (int k = 0; k < shape.rank(); ++k) ones = ones.with(k, k == d ? shape[d] : 1);
      const Tensor line = make_node(Op::reshape, b.dtype, ones, {bound.leaf});
      bound.seen = ones == shape ? line : make_node(Op::expand, b.dtype, shape, {line});
    } else if (one_piece && b.op == Op::random_uniform && b.is_leaf && is_dense(shape, strides)) {
      how = {StripInput::Kind::random, how.row_stride, value(u).is_view() ? value(u).offset : 0};
      whose = g_.base(u);
      bound.leaf = bound.seen = make_leaf(Op::random_uniform, b.dtype, shape, {});
      bound.leaf.node()->payload.operation = bound.leaf.node()->id;
    } else {
      // Rows that do not lie evenly, and numbers that are not in memory, are copied once.
      if (!one_piece || b.op == Op::constant || b.op == Op::iota || b.op == Op::random_uniform) {
        const std::int64_t copied_elements = value(u).shape.numel();
        if (copied_elements > region_.count * kScheduleModel.most_copied_per_row) return {};
        if (model_.rows_cut > 0 && copied_elements * 4 >= model_.large) return {};  // as large as the strip
        whose = copied(u);
        strip_strides(whose, rows, strides);
        how.row_stride = rows.none() ? 0 : strides[rows.first];
      }
      bound.leaf = bound.seen = make_placeholder(value(u).dtype, shape, strides, device_);
    }
    bound.input = number_of(key, whose, how);
    return (bound_[key] = std::move(bound)).seen;
  }

  // Strides of a strip of u. False: its rows do not lie one like the other.
  bool strip_strides(std::int32_t u, RowDims rows, Strides& out) const {
    const Value& x = value(u);
    const Strides s = x.is_view() || x.is_leaf ? x.strides : contiguous_strides(x.shape);
    out = {};
    int at = 0;
    for (int d = 0; d < x.shape.rank(); ++d) {
      if (!rows.has(d)) {
        out[at++] = s[d];
        continue;
      }
      if (d > rows.first) continue;
      std::int64_t step = 0, expected = -1;
      for (int r = rows.last - 1; r >= rows.first; --r) {
        if (x.shape[r] == 1) continue;
        if (expected < 0) {
          step = s[r];
        } else if (s[r] != expected) {
          return false;
        }
        expected = s[r] * x.shape[r];
      }
      out[at++] = step;
    }
    return true;
  }

  static bool is_dense(const Shape& shape, const Strides& strides) {
    const Strides dense = contiguous_strides(shape);
    for (int d = 0; d < shape.rank(); ++d)
      if (shape[d] != 1 && strides[d] != dense[d]) return false;
    return true;
  }

  // The one dimension along which a ramp is seen to rise; -1: there is none, or several, or it is no ramp.
  static int ramp_dim(const Value& base, const Shape& shape, const Strides& strides) {
    if (base.op != Op::iota || !base.is_leaf) return -1;
    int found = -1;
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape[d] == 1 || strides[d] == 0) continue;
      if (found >= 0) return -1;
      found = d;
    }
    return found;
  }

  std::int32_t copied(std::int32_t u) {
    const auto [at, fresh] = copies_.try_emplace(u, -1);
    if (!fresh) return at->second;
    Value copy;
    copy.op = Op::copy;
    copy.dtype = value(u).dtype;
    copy.shape = value(u).shape;
    copy.inputs = {u};
    g_.values.push_back(std::move(copy));
    return at->second = static_cast<std::int32_t>(g_.values.size()) - 1;
  }

  // The first body lists the inputs; those of other lengths find them.
  std::size_t number_of(const std::pair<std::int32_t, int>& key, std::int32_t whose, const StripInput& how) {
    const auto [at, fresh] = numbers_.try_emplace(key, inputs_.size());
    if (fresh) {
      inputs_.push_back(whose);
      strip_inputs_.push_back(how);
    }
    return at->second;
  }

  ValueGraph& g_;
  const StripRegion& region_;
  const StripRegion::Round& round_;
  const StripModel& model_;
  const Device device_;
  std::int64_t rows_ = 0;
  std::map<std::int32_t, Tensor> made_;
  std::map<std::pair<std::int32_t, int>, Bound> bound_;
  std::map<std::int32_t, std::int32_t> copies_;
  std::map<std::pair<std::int32_t, int>, std::size_t> numbers_;
  std::vector<std::int32_t> inputs_;
  std::vector<StripInput> strip_inputs_;
};

// ---- the graph with loops -------------------------------------------------------------------------------------------

class Strips {
 public:
  Strips(ValueGraph& graph, const StripModel& model, Device device) : g_(graph), model_(model), device_(device) {}

  std::vector<StripLoopPtr> run() {
    bool any = false;
    while (loops_.size() < kScheduleModel.most_loops && take_best()) any = true;
    if (any) forget_the_dead();
    return std::move(loops_);
  }

 private:
  static constexpr int kMany = 1 << 20;

  std::int64_t bytes(const Value& x) const { return x.shape.numel() * static_cast<std::int64_t>(size_of(x.dtype)); }

  bool take_best() {
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) {
      const Value& x = g_.values[v];
      if (x.op != Op::matmul || x.strips >= 0 || !is_floating(x.dtype) || bytes(x) < model_.large) continue;
      const std::optional<StripRegion> region = best_region(v);
      if ((!region || region->products_again > 0) && take_apart(v, region ? region->products_again : kMany))
        return true;
      if (region && replace(*region)) return true;
    }
    return false;
  }

  // Two directions of one product, each in strips of its own: this takes the one that the other waits for.
  bool take_apart(std::int32_t seed, int products_again) {
    const int rank = g_.values[seed].shape.rank();
    const RowDims across{rank - 1, rank}, along{rank - 2, rank - 1};
    if (model_.rows_cut > 0) return false;
    for (const auto& [rows, others] : {std::pair(along, across), std::pair(across, along)}) {
      std::optional<Apart> apart = with_directions_apart(g_, model_, seed, rows);
      if (!apart || apart->products_again >= products_again) continue;
      const auto first = find_region(apart->graph, model_, apart->second, others, false);
      const auto then = find_region(apart->graph, model_, apart->seed, rows, false);
      if (!first || !then || first->products_again > 0 || then->products_again > 0) continue;
      if (then->saved < model_.large_enough_to_repeat || !is_worth(*first) || !is_worth(*then)) continue;
      ValueGraph before = std::exchange(g_, std::move(apart->graph));
      if (replace(*first)) return true;
      g_ = std::move(before);
    }
    return false;
  }
  bool is_worth(const StripRegion& region) const {
    const std::int64_t length = strip_length(model_, region.count, region.widest_row);
    if (region.count < 2 * model_.least_rows || length * 2 > region.count) return false;
    return model_.rows_cut == 0 || is_worth_tiles(region, length * region.widest_row);
  }
  // Each tile adds to the sums over tiles, in memory: they are to move less than what the tile keeps in the cache.
  // Positions of numbers that fail a check are counted from the first row alone.
  bool is_worth_tiles(const StripRegion& region, std::int64_t tile_bytes) const {
    std::int64_t added = 0;
    for (const StripRegion::Round& round : region.rounds) {
      for (std::int32_t v : round.members) {
        const Value& x = g_.values[v];
        if (x.op == Op::check) return false;
        if (region.role[v] == Role::summed && x.op == Op::matmul)
          added += x.shape.numel() * static_cast<std::int64_t>(size_of(sum_dtype(x.dtype)));
      }
    }
    return 2 * added <= tile_bytes;
  }

  std::optional<StripRegion> best_region(std::int32_t seed) const {
    const Shape& shape = g_.values[seed].shape;
    const int rank = shape.rank();
    std::optional<StripRegion> best;
    for (const RowDims dims : {RowDims{rank - 2, rank - 1}, RowDims{rank - 1, rank}, RowDims{0, rank - 2}}) {
      const RowDims rows = trimmed(shape, dims);
      if (rows.none() || count_rows(shape, rows) == model_.rows_cut) continue;
      for (const bool through_products : {true, false}) {
        std::optional<StripRegion> found = find_region(g_, model_, seed, rows, through_products);
        if (!found || found->saved < (found->products_again ? model_.large_enough_to_repeat : model_.large)) continue;
        if (!is_worth(*found)) continue;
        const auto merit = [](const StripRegion& r) { return std::pair(-r.products_again, r.saved); };
        if (!best || merit(*found) > merit(*best)) best = std::move(found);
      }
    }
    return best;
  }

  bool replace(const StripRegion& region) {
    std::vector<std::shared_ptr<StripLoop>> loops;
    std::vector<std::vector<std::int32_t>> inputs;
    std::vector<char> product_made(g_.values.size(), 0);
    for (const StripRegion::Round& round : region.rounds) {
      auto loop = std::make_shared<StripLoop>();
      const std::int64_t length = strip_length(model_, region.count, region.widest_row);
      loop->rows = region.count;
      loop->tiles = model_.rows_cut > 0;
      loop->strips = divided(region.count, length);
      Bodies bodies(g_, region, round, model_, device_);
      loop->bodies.emplace_back();
      if (!bodies.make(length, loop->bodies.back())) return false;
      if (const std::int64_t rest = region.count % length; rest != 0) {
        loop->bodies.emplace_back();
        if (!bodies.make(rest, loop->bodies.back())) return false;
      }
      loop->inputs = bodies.strip_inputs();
      for (std::int32_t v : round.members) {
        if (g_.values[v].op == Op::matmul && std::exchange(product_made[v], 1)) ++loop->products_again;
      }
      inputs.push_back(bodies.inputs());
      loops.push_back(std::move(loop));
    }
    for (std::size_t r = 0; r < loops.size(); ++r) {
      const auto id = static_cast<std::int32_t>(loops_.size());
      for (std::int32_t v : region.rounds[r].outputs) {
        const std::int32_t from = output(region, v, *loops[r]);
        Value& x = g_.values[from];
        x.inputs = inputs[r];
        x.strips = id;
        x.strip_output = static_cast<std::int32_t>(loops[r]->outputs.size()) - 1;
      }
      loops_.push_back(std::move(loops[r]));
    }
    sort_inputs_first(g_);
    return true;
  }

  // Adds an output that v will be made of, and returns the value that stands for it.
  std::int32_t output(const StripRegion& region, std::int32_t v, StripLoop& loop) {
    const Value x = g_.values[v];
    const DType dtype = sum_dtype(x.dtype);
    if (region.role[v] == Role::by_row) {
      loop.outputs.push_back({StripOutput::Kind::rows, x.shape.numel() / region.count});
      return v;
    }
    if (x.op == Op::matmul) {
      loop.outputs.push_back({StripOutput::Kind::sum, x.shape.numel()});
      return dtype == x.dtype ? v : cast_to(v, x);
    }
    loop.outputs.push_back({StripOutput::Kind::partial, x.shape.numel()});
    const int first = region.rows[x.inputs[0]].first;
    std::int64_t before = 1;
    for (int d = 0; d < first; ++d) before *= x.shape[d];
    if (before > 1) return parts_of_columns(v, x, loop.strips);
    const std::int32_t total = dtype == x.dtype ? v : cast_to(v, x);
    Value parts = g_.values[total];
    parts.shape = x.shape.with(first, loop.strips);
    const std::int32_t made = push(std::move(parts));
    g_.values[total].inputs = {made};
    g_.values[total].attrs.axes = 1u << first;
    return made;
  }
  // Where rows are not the outermost dimension, parts do not lie as the sum over it would need them: they are lines of
  // a matrix, whose sum is then seen in v's shape.
  std::int32_t parts_of_columns(std::int32_t v, const Value& x, std::int64_t strips) {
    Value total = x;
    total.dtype = sum_dtype(x.dtype);
    total.attrs.axes = 1;
    Value parts = total;
    total.shape = Shape{1, x.shape.numel()};
    parts.shape = Shape{strips, x.shape.numel()};
    const std::int32_t made = push(std::move(parts));
    total.inputs = {made};
    Value seen;
    seen.op = Op::reshape;
    seen.dtype = total.dtype;
    seen.shape = x.shape;
    seen.strides = contiguous_strides(x.shape);
    seen.inputs = {push(std::move(total))};
    seen.base = seen.inputs[0];
    const std::int32_t view = push(std::move(seen));
    become(v, x.dtype == sum_dtype(x.dtype) ? Op::copy : Op::cast, view);
    return made;
  }
  std::int32_t push(Value x) {
    g_.values.push_back(std::move(x));
    return static_cast<std::int32_t>(g_.values.size()) - 1;
  }
  void become(std::int32_t v, Op op, std::int32_t input) {
    Value& x = g_.values[v];
    x.op = op;
    x.attrs = {};
    x.label = nullptr;
    x.inputs = {input};
  }
  // v becomes a rounded copy of a new value, which is returned.
  std::int32_t cast_to(std::int32_t v, const Value& x) {
    Value wide = x;
    wide.dtype = sum_dtype(x.dtype);
    const std::int32_t made = push(std::move(wide));
    become(v, Op::cast, made);
    return made;
  }

  // What the loops make inside is no part of the graph any more, and must not be taken for a reader.
  void forget_the_dead() {
    std::vector<char> live(g_.values.size(), 0);
    for (std::int32_t r : g_.roots) live[r] = 1;
    for (std::size_t v = g_.values.size(); v-- > 0;) {
      if (!live[v]) continue;
      for (std::int32_t in : g_.values[v].inputs) live[in] = 1;
      if (g_.values[v].is_view()) live[g_.values[v].base] = 1;
    }
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      Value& x = g_.values[v];
      if (live[v] || x.is_leaf) continue;
      x.op = Op::constant;
      x.node = x.base = x.strips = -1;
      x.inputs.clear();
    }
  }

  ValueGraph& g_;
  const StripModel& model_;
  const Device device_;
  std::vector<StripLoopPtr> loops_;
};

}  // namespace

std::vector<StripLoopPtr> make_strips(ValueGraph& graph, const StripModel& model, Device device) {
  return Strips(graph, model, device).run();
}

}  // namespace ebb
