// SPDX-License-Identifier: MIT
#include "schedule/product_bias.h"

#include <utility>

namespace ebb {
namespace {

// Is it the same contiguous row for all others, viewed in its own shape, or a strip's part of such a row?
bool repeats_a_row(const Value& x) {
  const int last = x.shape.rank() - 1;
  if (!(x.is_view() || x.is_leaf) || last < 1 || x.strides[last] != 1) return false;
  for (int d = 0; d < last; ++d) {
    if (x.shape[d] != 1 && x.strides[d] != 0) return false;
  }
  return true;
}

class RowsAdded {
 public:
  explicit RowsAdded(ValueGraph& graph) : g_(graph), readers_(graph.values.size(), 0) {
    for (const Value& x : g_.values) {
      for (std::int32_t in : x.inputs) ++readers_[in];
    }
    for (std::int32_t r : g_.roots) ++readers_[r];
  }

  void run() {
    std::vector<std::int32_t> now(g_.values.size());
    for (std::size_t v = 0; v < now.size(); ++v) now[v] = static_cast<std::int32_t>(v);
    bool changed = false;
    for (std::size_t v = 0; v < now.size(); ++v) {
      const std::int32_t made = with_row(static_cast<std::int32_t>(v));
      if (made >= 0) now[v] = made, changed = true;
    }
    if (!changed) return;
    const auto follow = [&](std::int32_t& v) { v = static_cast<std::size_t>(v) < now.size() ? now[v] : v; };
    for (Value& x : g_.values) {
      for (std::int32_t& in : x.inputs) follow(in);
      if (!x.is_view() || static_cast<std::size_t>(x.base) >= now.size() || now[x.base] == x.base) continue;
      x.base = g_.base(now[x.base]);  // the product's memory, which is as dense as the sum's would have been
      x.mappable = false;
    }
    for (std::int32_t& v : g_.of_node) follow(v);
    for (std::int32_t& v : g_.roots) follow(v);
    sort_inputs_first(g_);
  }

 private:
  // The product that v adds a row to, perhaps in another shape, with that row; -1 if v is something else.
  std::int32_t with_row(std::int32_t v) {
    const Value& sum = g_.values[v];
    if (sum.op != Op::add || sum.is_leaf || sum.strips >= 0 || !is_half(sum.dtype) || sum.shape.numel() == 0) return -1;
    for (const int k : {0, 1}) {
      const std::int32_t row = sum.inputs[1 - k], seen = sum.inputs[k];
      if (!repeats_a_row(g_.values[row]) || g_.values[row].dtype != sum.dtype) continue;
      std::vector<std::int32_t> shapes;  // from the operand of the addition to the product
      std::int32_t product = seen;
      for (; g_.values[product].op == Op::reshape && readers_[product] == 1; product = g_.values[product].inputs[0])
        shapes.push_back(product);
      if (!takes_row(product, g_.values[row].shape)) continue;
      Value made = g_.values[product];
      made.inputs.push_back(row);
      std::int32_t at = push(std::move(made));
      const std::int32_t base = at;
      for (; !shapes.empty(); shapes.pop_back()) {
        Value view = g_.values[shapes.back()];
        view.inputs[0] = at;
        view.base = base;
        at = push(std::move(view));
      }
      return at;
    }
    return -1;
  }
  // A product of rows by one matrix, whose result is not read without the row.
  bool takes_row(std::int32_t product, const Shape& row) const {
    const Value& x = g_.values[product];
    const auto last = [](const Shape& s) { return s[s.rank() - 1]; };
    if (x.op != Op::matmul || x.attrs.options || x.strips >= 0 || x.inputs.size() != 2 || readers_[product] != 1 ||
        last(x.shape) != last(row))
      return false;
    const Value& factor = g_.values[x.inputs[1]];
    for (int d = 0; d + 2 < factor.shape.rank(); ++d) {
      if (factor.shape[d] != 1 && !(factor.is_view() && factor.strides[d] == 0)) return false;
    }
    return true;
  }
  std::int32_t push(Value v) {
    g_.values.push_back(std::move(v));
    return static_cast<std::int32_t>(g_.values.size()) - 1;
  }

  ValueGraph& g_;
  std::vector<int> readers_;
};

}  // namespace

void add_rows_to_products(ValueGraph& graph) { RowsAdded(graph).run(); }

}  // namespace ebb
