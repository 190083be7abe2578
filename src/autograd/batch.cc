// SPDX-License-Identifier: MIT
#include "autograd/batch.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "ebb/ops.h"
#include "graph/formula.h"

namespace ebb {
namespace {

// Operations whose index is a list shared by all rows.
bool has_one_index(Op op) { return op == Op::index_select || op == Op::index_zero_add; }

using Copies = std::unordered_map<const Node*, Tensor>;  // of nodes that depend on the hole

bool has_form(const Node& n, const std::unordered_map<const Node*, bool>& depends) {
  if (n.shape.rank() == Shape::kMaxRank) return false;
  switch (info(n.op).cls) {
    case OpClass::alias:
    case OpClass::elementwise:
    case OpClass::reduce:
      return true;
    case OpClass::view:
      return n.op != Op::output && n.op != Op::to_device;
    default:
      break;
  }
  if (n.op == Op::matmul) return !n.attrs.options;  // products of FP8 have scales of their own
  if (has_one_index(n.op) && depends.at(n.inputs[1])) return false;
  return info(n.op).along_axis;
}

// One node for all values of the hole.
class CopyOfNode {
 public:
  CopyOfNode(const Node& n, const Copies& copies, std::int64_t count) : n_(n), copies_(copies), count_(count) {}

  Tensor make() const {
    switch (info(n_.op).cls) {
      case OpClass::alias:
        return copies_.at(n_.inputs[0]);
      case OpClass::elementwise:
        return again(n_.attrs, all_inputs());
      case OpClass::reduce: {
        Attrs attrs = n_.attrs;
        attrs.axes <<= 1;
        return again(attrs, {copies_.at(n_.inputs[0])});
      }
      case OpClass::view:
        return view(copies_.at(n_.inputs[0]));
      default:
        return n_.op == Op::matmul ? product() : along_axis();
    }
  }

 private:
  Shape many(const Shape& one) const { return one.inserted(0, count_); }

  // The input for all values, in the shape [count, one], even if it is the same for all, or broadcast.
  Tensor spread(Node* input, const Shape& one) const {
    const auto copy = copies_.find(input);
    if (copy == copies_.end()) return expand(Tensor(input), many(one));
    Shape shape = copy->second.shape();
    while (shape.rank() <= one.rank()) shape = shape.inserted(1, 1);
    return expand(reshape(copy->second, shape), many(one));
  }

  std::vector<Tensor> all_inputs() const {
    std::vector<Tensor> inputs;
    for (Node* input : n_.inputs) inputs.push_back(spread(input, n_.shape));
    return inputs;
  }

  Tensor again(const Attrs& attrs, const std::vector<Tensor>& inputs) const {
    return make_node(n_.op, n_.dtype, many(n_.shape), inputs, attrs, n_.label);
  }

  Tensor view(const Tensor& copy) const {
    switch (n_.op) {
      case Op::permute: {
        const auto axes = unpack_axes(n_.attrs.i[0]);
        std::vector<int> moved{0};
        for (int d = 0; d < n_.shape.rank(); ++d) moved.push_back(axes[static_cast<std::size_t>(d)] + 1);
        Attrs attrs = n_.attrs;
        attrs.i[0] = pack_axes(moved);
        return again(attrs, {copy});
      }
      case Op::narrow: {
        Attrs attrs = n_.attrs;
        ++attrs.i[0];
        return again(attrs, {copy});
      }
      case Op::expand:
        return spread(n_.inputs[0], n_.shape);
      default:
        return reshape(copy, many(n_.shape));
    }
  }

  Tensor along_axis() const {
    Attrs attrs = n_.attrs;
    ++attrs.i[0];
    std::vector<Tensor> inputs;
    for (Node* input : n_.inputs) {
      const bool shared = has_one_index(n_.op) && input == n_.inputs[1];
      inputs.push_back(shared ? Tensor(input) : spread(input, input->shape));
    }
    return again(attrs, inputs);
  }

  // A·B with one factor common to all values is one product of larger matrices.
  Tensor product() const {
    Node *a = n_.inputs[0], *b = n_.inputs[1];
    const bool of_a = copies_.contains(a), of_b = copies_.contains(b);
    if (n_.shape.rank() == 2 && of_a != of_b) {
      const std::int64_t rows = a->shape[0], inner = a->shape[1], columns = b->shape[1];
      if (of_a) {  // the rows of all A stacked
        const Tensor tall = reshape(copies_.at(a), {count_ * rows, inner});
        return reshape(of_matrices(tall, Tensor(b)), many(n_.shape));
      }
      // The columns of all B side by side: (Bᵀ stacked)·Aᵀ, so that nothing is moved where B is one column.
      const Tensor tall = reshape(transpose(copies_.at(b), 1, 2), {count_ * columns, inner});
      const Tensor all = of_matrices(tall, transpose(Tensor(a), 0, 1));
      return transpose(reshape(all, {count_, columns, rows}), 1, 2);
    }
    return again(n_.attrs, {spread(a, a->shape), spread(b, b->shape)});
  }

  // Keeps this node's dtype, which may be wider than that of its factors.
  Tensor of_matrices(const Tensor& a, const Tensor& b) const {
    return make_node(Op::matmul, n_.dtype, {a.size(0), b.size(1)}, {a, b});
  }

  const Node& n_;
  const Copies& copies_;
  const std::int64_t count_;
};

}  // namespace

Batch::Batch(const Tensor& root, const Tensor& hole) : root_(root), hole_(hole) {
  for (;;) {
    std::vector<Tensor> formulas;
    {
      GraphLock lock(root.node());
      while (!sort(lock)) lock.widen();
      for (Node* n : order_) {
        if (is_folded(*n)) formulas.emplace_back(n);
      }
    }
    if (formulas.empty()) return;
    for (const Tensor& t : formulas) expand(t);
  }
}

bool Batch::sort(GraphLock& lock) {
  order_.clear();
  possible_ = true;
  largest_ = 1;
  std::unordered_map<const Node*, bool> depends{{hole_.node(), true}};
  std::vector<std::pair<Node*, std::size_t>> stack{{root_.node(), 0}};  // a node and its next input
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (!lock.holds(*node)) return false;
    const std::span<Node* const> inputs =
        node->evaluated.load(std::memory_order_acquire) ? std::span<Node* const>() : value_inputs(*node);
    while (next < inputs.size() && depends.contains(inputs[next])) ++next;
    if (!depends.contains(node) && next < inputs.size()) {
      stack.emplace_back(inputs[next], 0);
      continue;
    }
    Node* done = node;
    stack.pop_back();
    if (depends.contains(done)) continue;
    const bool any = std::any_of(inputs.begin(), inputs.end(), [&](Node* in) { return depends.at(in); });
    depends[done] = any;
    if (!any) continue;
    order_.push_back(done);
    largest_ = std::max(largest_, done->shape.numel());
    possible_ = possible_ && has_form(*done, depends);
  }
  return true;
}

Tensor Batch::of(const Tensor& values) const {
  const std::int64_t count = values.size(0);
  Copies copies{{hole_.node(), values}};
  for (const Node* n : order_) copies.emplace(n, CopyOfNode(*n, copies, count).make());
  const auto root = copies.find(root_.node());
  return root == copies.end() ? expand(root_, root_.shape().inserted(0, count)) : root->second;
}

}  // namespace ebb
