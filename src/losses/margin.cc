// SPDX-License-Identifier: MIT
#include "ebb/losses/margin.h"

#include <utility>

#include "calls/multilabel_hinges.h"
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "losses/classes.h"
#include "losses/describe.h"
#include "losses/gradients.h"
#include "losses/one_pass.h"
#include "losses/signs.h"
#include "ops/build.h"

// relu is the hinge of all these losses: its derivative at 0 is 0. Gradients are those of the operations.
namespace ebb {

Tensor checked_sign(const Tensor& y, const char* label) { return check(y, abs(y) == 1, label); }

Tensor hinge_of(double margin, const Tensor& y, const Tensor& x) {
  return custom_function([margin](const std::vector<Tensor>& v) { return relu(margin - v[0] * v[1]); },
                         [](const Tensor& grad, const Tensor& hinge, const std::vector<Tensor>& v) {
                           const Tensor open = where(hinge <= 0, 0, -grad);
                           return std::vector<Tensor>{open * v[1], open * v[0]};
                         },
                         {y, x});
}

// Support vector machines.    max(0, 1 − y·x)
Tensor hinge_loss(const Tensor& input, const Tensor& target, const LossOptions& o) {
  const char* op = "hinge_loss";
  require_same_shape(op, "input", input, "target", target);
  const Precision p(op, {input, target});
  const Tensor y = checked_sign(p.wide(target), "hinge_loss: target must be 1 or -1");
  return p.rounded(reduce(op, hinge_of(1, y, p.wide(input)), o.reduction));
}

// x is a distance: small for pairs that belong together (y = 1), at least the margin for others.
//   y = 1: x        y = −1: max(0, margin − x)
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, const HingeEmbeddingOptions& o) {
  const char* op = "hinge_embedding_loss";
  const Precision p(op, {input, target});
  const Shape shape = common_shape(op, {input, target});
  const Tensor y = broadcast_to(checked_sign(p.wide(target), "hinge_embedding_loss: target must be 1 or -1"), shape);
  const Tensor x = broadcast_to(p.wide(input), shape);
  const Tensor terms =
      custom_function([m = o.margin](const std::vector<Tensor>& v) { return where(v[0] == 1, v[1], relu(m - v[1])); },
                      [m = o.margin](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
                        return std::vector<Tensor>{{}, where(v[0] == 1, grad, where(m - v[1] <= 0, 0, -grad))};
                      },
                      {y, x});
  return p.rounded(reduce(op, terms, o.reduction));
}

// y = 1: x1 should be the larger, by the margin; y = −1: x2.    max(0, −y·(x1 − x2) + margin)
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, const MarginOptions& o) {
  const char* op = "margin_ranking_loss";
  const Precision p(op, {input1, input2, target});
  const Shape shape = common_shape(op, {input1, input2, target});
  const Tensor lead = broadcast_to(p.wide(input1) - p.wide(input2), shape);
  return p.rounded(reduce(op, hinge_of(o.margin, broadcast_to(p.wide(target), shape), lead), o.reduction));
}

// Logistic loss.    log(1 + e^(−y·x)) = softplus(−y·x)
Tensor soft_margin_loss(const Tensor& input, const Tensor& target, const LossOptions& o) {
  const char* op = "soft_margin_loss";
  require_same_shape(op, "input", input, "target", target);
  const Precision p(op, {input, target});
  return p.rounded(reduce(op, softplus(-(p.wide(target) * p.wide(input))), o.reduction));
}

namespace {

// 0, 1, ... along the axis of the classes, in i32: the width of f32 is the fastest to compare with it.
Tensor class_numbers(const Tensor& x, int axis) {
  return along_classes(make_leaf(Op::iota, DType::i32, Shape{x.size(axis)}, Payload{}), x, axis);
}

}  // namespace

// Every other class should stay below the right one by the margin.
//   (w_y/C)·Σ_{i≠y} max(0, margin − x_y + x_i)^p
Tensor multi_margin_loss(const Tensor& input, const Tensor& target, const MultiMarginOptions& o) {
  const char* op = "multi_margin_loss";
  require(o.p == 1 || o.p == 2, "{}: p must be 1 or 2, got {}", op, o.p);
  const Precision precision(op, {input});
  require(input.rank() == 1 || input.rank() == 2, "{}: the input must be [C] or [N, C], but it has shape {}", op,
          input.shape());
  const int axis = class_axis(op, input);
  require_class_indices(op, input, axis, target);
  const std::int64_t classes = input.size(axis);
  Tensor weight;
  if (o.weight.defined()) {
    require_class_weight(op, "weight", o.weight, classes);
    const Tensor safe = reshape(clamp(cast(target, DType::i64), 0, classes - 1), {-1});
    weight = reshape(index_select(precision.wide(o.weight), 0, safe), input.shape().with(axis, 1));
  }
  const Tensor x = precision.wide(input), index = unsqueeze(cast(target, DType::i64), axis);
  const Tensor right = pick_class(x, axis, index, "multi_margin_loss: target");
  const Tensor is_right = class_numbers(x, axis) == cast(index, DType::i32);
  const Tensor excess = where(is_right, 0, relu((o.margin - right) + x));
  Tensor terms = sum(o.p == 2 ? square(excess) : excess, axis, true) / static_cast<double>(classes);
  if (weight.defined()) terms = weight * terms;
  return precision.rounded(reduce(op, reshape(terms, target.shape()), o.reduction));
}

namespace {

// Σ_j Σ_{i∉targets} max(0, 1 − x_{y_j} + x_i) of each row. With the cotangent c of a row, the gradient of a class that
// is not listed is c times the number of its open hinges; of a listed one, −c times their number, each time it is
// listed. That is constant between the kinks.
LossKernel multilabel_hinges(const Tensor& target) {
  LossKernel k;
  k.call = [target](const Tensor& x, const Tensor& cotangent) {
    std::vector<Tensor> inputs{x, target};
    std::vector<std::pair<Shape, DType>> outputs{
        {x.rank() == 1 ? Shape{} : Shape{x.size(0)}, compute_dtype(x.dtype())}};
    if (cotangent.defined()) {
      inputs.push_back(cotangent);
      outputs.emplace_back(x.shape(), x.dtype());
    }
    return make_call(Op::multilabel_hinges, inputs, with_options(MultilabelHingesCall()), std::move(outputs));
  };
  k.second = [target](const Tensor& u, const std::vector<Tensor>& v) {
    const DType wide = v[1].dtype();
    const Tensor slopes = multilabel_hinges(target).gradient(cast(v[0], wide), ones(v[1].shape(), wide));
    return std::vector<Tensor>{{}, sum(cast(u, wide) * slopes, -1)};
  };
  return k;
}

}  // namespace

// Every class that is not among the targets should be at least 1 below every one that is.
//   (1/C)·Σ_j Σ_{i∉targets} max(0, 1 − x_{y_j} + x_i)
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target, const LossOptions& o) {
  const char* op = "multilabel_margin_loss";
  require_same_shape(op, "input", input, "target", target);
  const Precision precision(op, {input});
  require(is_integer(target.dtype()), Error::Kind::type, "{}: the target lists classes and must be of integers, not {}",
          op, target.dtype());
  require(input.rank() == 1 || input.rank() == 2, "{}: the input must be [C] or [N, C], but it has shape {}", op,
          input.shape());
  const std::int64_t classes = input.size(-1);
  require(classes > 0, "{}: the input of shape {} has no classes", op, input.shape());
  const bool is_index = target.dtype() == DType::i64 || target.dtype() == DType::i32;
  const Tensor sums = multilabel_hinges(is_index ? target : cast(target, DType::i64)).losses(input);
  return precision.rounded(reduce(op, sums / static_cast<double>(classes), o.reduction));
}

// ---- gradients ------------------------------------------------------------------------------------------------------

LossGradients hinge_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const LossOptions& o) {
  return gradients("hinge_loss", hinge_loss, grad, input, target, o);
}
LossGradients hinge_embedding_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                            const HingeEmbeddingOptions& o) {
  return gradients("hinge_embedding_loss", hinge_embedding_loss, grad, input, target, o);
}
PairGradients margin_ranking_loss_backward(const Tensor& grad, const Tensor& input1, const Tensor& input2,
                                           const Tensor& target, const MarginOptions& o) {
  const auto g = pull_back("margin_ranking_loss", grad, {input1, input2, target},
                           [&](const std::vector<Tensor>& v) { return margin_ranking_loss(v[0], v[1], v[2], o); });
  return {g[0], g[1], g[2]};
}
LossGradients soft_margin_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                        const LossOptions& o) {
  return gradients("soft_margin_loss", soft_margin_loss, grad, input, target, o);
}
LossGradients multi_margin_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                         const MultiMarginOptions& o) {
  return gradients("multi_margin_loss", multi_margin_loss, grad, input, target, o);
}
LossGradients multilabel_margin_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                              const LossOptions& o) {
  return gradients("multilabel_margin_loss", multilabel_margin_loss, grad, input, target, o);
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, LossOptions& o) {
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, HingeEmbeddingOptions& o) {
  v("margin", o.margin, "the distance that pairs which do not belong together should have");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, MarginOptions& o) {
  v("margin", o.margin, "by how much the winner should lead");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, MultiMarginOptions& o) {
  v("p", o.p, "1 or 2");
  v("margin", o.margin, "by how much the right class should lead");
  v("weight", o.weight);
  v("reduction", o.reduction);
}

std::vector<LossInfo> margin_entries() {
  return {
      describe("hinge_loss", "margin", "max(0, 1 − y·x);  y = ±1", {{"input"}, {"target"}}, hinge_loss),
      describe("hinge_embedding_loss", "margin", "y = 1: x;  y = −1: max(0, m − x)", {{"input"}, {"target", false}},
               hinge_embedding_loss),
      describe("margin_ranking_loss", "margin", "max(0, −y·(x1 − x2) + m)", {{"input1"}, {"input2"}, {"target"}},
               margin_ranking_loss),
      describe("soft_margin_loss", "margin", "log(1 + e^(−y·x))", {{"input"}, {"target"}}, soft_margin_loss),
      describe("multi_margin_loss", "margin", "(w_y/C)·Σ_{i≠y} max(0, m − x_y + x_i)^p", {{"input"}, {"target", false}},
               multi_margin_loss),
      describe("multilabel_margin_loss", "margin", "(1/C)·Σ_j Σ_{i∉targets} max(0, 1 − x_{y_j} + x_i)",
               {{"input"}, {"target", false}}, multilabel_margin_loss),
  };
}

}  // namespace ebb
