// SPDX-License-Identifier: MIT
// The graph of values, and how each is made.
#include <utility>

#include "schedule/schedule_model.h"
#include "schedule/simplifier.h"

namespace ebb {

ValueGraph Simplifier::run() {
  g_.values.reserve(t_.nodes.size() + 8);
  g_.of_node.assign(t_.nodes.size(), -1);
  if (large_ != kNeverLarge) find_slices_of_products();
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(t_.nodes.size()); ++i) g_.of_node[i] = visit(i);
  for (std::int32_t r : t_.roots) {
    g_.of_node[r] = in_memory(g_.of_node[r]);
    g_.roots.push_back(g_.of_node[r]);
  }
  take_losses_from_gradients();
  return std::move(g_);
}

std::int32_t Simplifier::visit(std::int32_t i) {
  const Node& n = *t_.nodes[i];
  if (t_.is_leaf(i)) return leaf(i);
  const OpInfo& row = info(n.op);
  const bool same_value = row.cls == OpClass::alias || n.op == Op::to_device;  // moves have been made: see Tracer
  if (same_value && n.op != Op::depend) return g_.of_node[t_.inputs_of(i)[0]];
  Value v;
  v.op = n.op;
  v.dtype = n.dtype;
  v.shape = n.shape;
  v.attrs = n.attrs;
  v.label = n.label;
  v.node = i;
  v.is_unique = t_.unique[i];
  for (std::int32_t in : t_.inputs_of(i)) v.inputs.push_back(g_.of_node[in]);
  return add(std::move(v));
}

std::int32_t Simplifier::leaf(std::int32_t i) {
  if (t_.same[i] != i) return g_.of_node[t_.same[i]];
  const Node& n = *t_.nodes[i];
  Value v;
  const bool stored = t_.stored[i];
  v.op = stored ? Op::data : n.op;
  v.dtype = n.dtype;
  v.shape = n.shape;
  v.node = i;
  v.is_leaf = true;
  v.strides = v.op == Op::data ? n.storage.strides : contiguous_strides(n.shape);
  v.is_one = !stored && n.op == Op::constant && (is_floating(n.dtype) ? n.payload.real == 1.0 : n.payload.integer == 1);
  return push(std::move(v));
}

std::int32_t Simplifier::push(Value v) {
  g_.values.push_back(std::move(v));
  return static_cast<std::int32_t>(g_.values.size()) - 1;
}

std::int32_t Simplifier::add(Value v) {
  switch (info(v.op).cls) {
    case OpClass::view:
    case OpClass::alias:
      return add_view(std::move(v));
    case OpClass::elementwise:
      return add_elementwise(std::move(v));
    case OpClass::reduce:
      return add_reduce(std::move(v));
    default:
      break;
  }
  if ((v.op == Op::pick || v.op == Op::place)) {
    // With one column there is no row to sweep; the library's kernels do it. A long row alone is not swept as a row:
    // its reductions are totals, which many blocks or threads share.
    const auto axis = static_cast<int>(v.attrs.i[0]);
    const Shape& full = v.op == Op::pick ? at(v.inputs[0]).shape : v.shape;
    const bool alone = full.numel() == full[axis] && full[axis] > kScheduleModel.long_row;
    if (full[axis] == 1 || full.numel() == 0 || alone) {
      v.op = v.op == Op::pick ? Op::gather : Op::scatter_zero_add;
    }
  }
  if (info(v.op).cls == OpClass::library) {
    for (std::int32_t& in : v.inputs) in = in_memory(in);
    if (large_ != kNeverLarge) {
      if (const std::int32_t product = product_of_padded(v); product >= 0) return product;
    }
    if (v.op == Op::cat) {
      if (const std::int32_t whole = joined_again(v); whole >= 0) return whole;
    }
    if (v.op == Op::cat || v.op == Op::pad_zero) {
      if (const std::int32_t wide = widened_when_joined(v); wide >= 0) return wide;
    }
    if (const std::int32_t last = pooled_as_it_lies(v); last >= 0) return last;
    if (const std::int32_t spread = spread_in_planes(v); spread >= 0) return spread;
    if (const std::int32_t last = with_channels_last(v); last >= 0) return last;
  }
  return intern(std::move(v));
}

std::int32_t Simplifier::in_memory(std::int32_t v) {
  const Value& b = at(at(v).is_view() ? at(v).base : v);
  const bool made_up = b.op == Op::constant || (b.is_leaf && (b.op == Op::iota || b.op == Op::random_uniform));
  if (!made_up) return v;
  const std::int32_t source = at(v).shape.numel() > 0 ? uniform_source(v) : -1;
  Value copy;
  copy.op = Op::copy;
  copy.dtype = at(v).dtype;
  copy.shape = source >= 0 ? Shape{} : at(v).shape;
  copy.inputs = {source >= 0 ? source : v};
  const Shape shape = at(v).shape;
  const std::int32_t made = intern(std::move(copy));
  return source >= 0 ? uniform(made, shape) : made;
}

std::int32_t Simplifier::intern(Value v) {
  const std::int32_t index = push(std::move(v));
  auto [it, fresh] = merged_.insert(index);
  if (!fresh) g_.values.pop_back();
  return *it;
}

std::int32_t Simplifier::uniform_source(std::int32_t v) const {
  const Value& x = at(v);
  if (x.op == Op::expand && at(x.inputs[0]).shape.rank() == 0) return x.inputs[0];
  if (x.shape.rank() == 0 && !x.is_view()) return v;
  return -1;
}

std::int32_t Simplifier::uniform(std::int32_t source, const Shape& shape) {
  if (shape.rank() == 0) return source;
  Value v;
  v.op = Op::expand;
  v.dtype = at(source).dtype;
  v.shape = shape;
  v.inputs = {source};
  return finish_view(std::move(v));
}

std::int32_t Simplifier::literal(double value, DType dtype) {
  Value v;
  v.op = Op::constant;
  v.dtype = dtype;
  v.literal = value;
  v.is_one = value == 1;
  return intern(std::move(v));
}

Strides strides_of(const Value& v) {
  if (v.is_view() || v.is_leaf) return v.strides;
  if (v.room == 0) return contiguous_strides(v.shape);
  const int last = v.shape.rank() - 1;
  return contiguous_strides(v.shape.with(last, v.shape[last] + v.room));
}

std::int64_t allocated_elements(const Value& v) {
  const std::int64_t n = v.shape.numel();
  return v.room == 0 ? n : n / v.shape[v.shape.rank() - 1] * v.room + n;
}

ValueGraph simplify(const Trace& trace, const SimplifyOptions& options) { return Simplifier(trace, options).run(); }

std::vector<std::int32_t> sort_inputs_first(ValueGraph& g) {
  const auto n = static_cast<std::int32_t>(g.values.size());
  std::vector<std::int32_t> place(n, -1), order;
  std::vector<std::pair<std::int32_t, bool>> stack;  // a value, and whether its inputs are on the stack above it
  for (std::int32_t v = 0; v < n; ++v) {
    stack.emplace_back(v, false);
    while (!stack.empty()) {
      const auto [top, entered] = stack.back();
      stack.pop_back();
      if (place[top] >= 0) continue;
      if (entered) {
        place[top] = static_cast<std::int32_t>(order.size());
        order.push_back(top);
        continue;
      }
      stack.emplace_back(top, true);
      const Value& x = g.values[top];
      if (x.is_view()) stack.emplace_back(x.base, false);
      for (auto in = x.inputs.rbegin(); in != x.inputs.rend(); ++in) stack.emplace_back(*in, false);
    }
  }
  std::vector<Value> sorted;
  for (std::int32_t v : order) {
    Value& x = sorted.emplace_back(std::move(g.values[v]));
    for (std::int32_t& in : x.inputs) in = place[in];
    if (x.is_view()) x.base = place[x.base];
  }
  g.values = std::move(sorted);
  for (std::int32_t& v : g.of_node) v = place[v];
  for (std::int32_t& v : g.roots) v = place[v];
  return place;
}

}  // namespace ebb
