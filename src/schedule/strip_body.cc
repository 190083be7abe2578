// SPDX-License-Identifier: MIT
#include "schedule/strip_body.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/format_error.h"
#include "schedule/schedule_model.h"

namespace ebb {
namespace {

using Role = StripRegion::Role;

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
      body.trace.read_key();
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

  // Does a step fill v's memory? Where results are `added` to what is there, it must be a product, which can add.
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
    if (const auto shifted = region_.shifts.find(v); shifted != region_.shifts.end())
      return shifted_sum(v, shifted->second.maximum);
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
    if (region_.compared.contains(v)) return placed_by_comparison(v, in);
    if (summed && x.op == Op::pick) return picked_across(v, rows[0], in);
    const RowDims out = summed ? RowDims{} : region_.rows[v];
    const Attrs attrs = strip_attrs(x, rows[0], out);
    if (!summed) return make_node(x.op, x.dtype, strip_shape(x.shape, out, rows_), in, attrs, x.label);
    if (x.op == Op::matmul) return make_node(x.op, sum_dtype(x.dtype), x.shape, in, attrs, x.label);
    // One result per strip; the parts are added once all are there.
    if (is_half(x.dtype)) in[0] = make_node(Op::cast, DType::f32, in[0].shape(), {in[0]});
    return make_node(x.op, sum_dtype(x.dtype), strip_shape(x.shape, rows[0], 1), in, attrs, x.label);
  }

  // Σ exp(x − m) of a strip, with its own maximum; 0 where all x are −inf.
  Tensor shifted_sum(std::int32_t v, std::int32_t maximum) {
    const Tensor x = made_.at(value(maximum).inputs[0]), top = made_.at(maximum);
    const auto expanded = [&](const Tensor& t, const Shape& to) { return make_node(Op::expand, t.dtype(), to, {t}); };
    const Tensor zero = make_constant(0.0, top.dtype());
    const Tensor finite = make_node(Op::isfinite, DType::bool_, top.shape(), {top});
    const Tensor shift = make_node(Op::where, top.dtype(), top.shape(), {finite, top, expanded(zero, top.shape())});
    const Tensor difference = make_node(Op::sub, x.dtype(), x.shape(), {x, expanded(shift, x.shape())});
    const Tensor terms = make_node(Op::exp, x.dtype(), x.shape(), {difference});
    const RowDims rows = region_.rows[value(maximum).inputs[0]];
    return make_node(Op::sum, x.dtype(), top.shape(), {terms}, strip_attrs(value(v), rows, {}), value(v).label);
  }

  // place(g, index) along the rows, element by element: g where the row's number is the index.
  Tensor placed_across(std::int32_t v, const std::vector<Tensor>& in) {
    const Shape shape = strip_shape(value(v).shape, region_.rows[v], rows_);
    const Tensor g = make_node(Op::expand, in[0].dtype(), shape, {in[0]});
    return where_the_index_is(v, region_.rows[v], in[1], g);
  }
  // The same along the columns.
  Tensor placed_by_comparison(std::int32_t v, const std::vector<Tensor>& in) {
    const Shape shape = strip_shape(value(v).shape, region_.rows[v], rows_);
    const int axis = strip_dim(region_.rows[v], static_cast<int>(value(v).attrs.i[0]));
    Shape ones = shape;
    for (int d = 0; d < ones.rank(); ++d) ones = ones.with(d, d == axis ? shape[axis] : 1);
    const Tensor column =
        make_node(Op::reshape, DType::i64, ones, {make_leaf(Op::iota, DType::i64, {shape[axis]}, {})});
    const Tensor g = make_node(Op::expand, in[0].dtype(), shape, {in[0]});
    return where_equal(column, in[1], g);
  }
  // pick(x, index) along the rows: the sum of x where the row's number equals the index, which occurs once or never.
  Tensor picked_across(std::int32_t v, RowDims rows, const std::vector<Tensor>& in) {
    const Tensor x = is_half(in[0].dtype()) ? make_node(Op::cast, DType::f32, in[0].shape(), {in[0]}) : in[0];
    Attrs attrs;
    attrs.axes = 1u << strip_dim(rows, static_cast<int>(value(v).attrs.i[0]));
    return make_node(Op::sum, x.dtype(), strip_shape(value(v).shape, rows, 1), {where_the_index_is(v, rows, in[1], x)},
                     attrs);
  }
  Tensor where_the_index_is(std::int32_t v, RowDims rows, const Tensor& index, const Tensor& x) {
    return where_equal(row_numbers(v, rows), index, x);
  }
  static Tensor where_equal(const Tensor& number, const Tensor& index, const Tensor& x) {
    const auto expanded = [&](const Tensor& t) { return make_node(Op::expand, t.dtype(), x.shape(), {t}); };
    const Tensor wide = make_node(Op::cast, DType::i64, index.shape(), {index});
    const Tensor here = make_node(Op::eq, DType::bool_, x.shape(), {expanded(number), expanded(wide)});
    return make_node(Op::where, x.dtype(), x.shape(), {here, x, expanded(make_constant(0.0, x.dtype()))});
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

  // The strip's part of u, which is computed elsewhere.
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
      Payload unknown;  // the number is known when the strip runs; only whether it is one is known now
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
      // Rows at uneven distances, and numbers that are not in memory, are copied once.
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

  // Strides of a strip of u. False: its rows do not all have the same layout.
  bool strip_strides(std::int32_t u, RowDims rows, Strides& out) const {
    const Value& x = value(u);
    const Strides s = strides_of(x);
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

  // The one dimension along which a ramp rises; -1: none, or several, or not a ramp.
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

  // The first body lists the inputs; those of other lengths look them up.
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

}  // namespace

std::optional<StripBodies> make_bodies(ValueGraph& graph, const StripRegion& region, const StripRegion::Round& round,
                                       const StripModel& model, Device device, std::int64_t length) {
  Bodies bodies(graph, region, round, model, device);
  StripBodies made;
  for (const std::int64_t rows : {std::min(length, region.count), region.count % length}) {
    if (rows > 0 && !bodies.make(rows, made.bodies.emplace_back())) return std::nullopt;
  }
  made.inputs = bodies.inputs();
  made.strip_inputs = bodies.strip_inputs();
  return made;
}

}  // namespace ebb
