#include "ebb/losses/margin.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "losses/classes.h"
#include "losses/gradients.h"
#include "losses/signs.h"
#include "ops/build.h"

// relu is the hinge of all of them: its derivative at 0 is 0. Gradients are those of the operations.
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
  require_same_shape(op, "input", input, "target", target);
  const Precision p(op, {input, target});
  const Tensor y = checked_sign(p.wide(target), "hinge_embedding_loss: target must be 1 or -1"), x = p.wide(input);
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
  require_same_shape(op, "input1", input1, "input2", input2);
  require_same_shape(op, "input1", input1, "target", target);
  const Precision p(op, {input1, input2, target});
  const Tensor lead = p.wide(input1) - p.wide(input2);
  return p.rounded(reduce(op, hinge_of(o.margin, p.wide(target), lead), o.reduction));
}

// Logistic loss.    log(1 + e^(−y·x)) = softplus(−y·x)
Tensor soft_margin_loss(const Tensor& input, const Tensor& target, const LossOptions& o) {
  const char* op = "soft_margin_loss";
  require_same_shape(op, "input", input, "target", target);
  const Precision p(op, {input, target});
  return p.rounded(reduce(op, softplus(-(p.wide(target) * p.wide(input))), o.reduction));
}

namespace {

// 0, 1, ... along the axis of the classes, in i32: numbers as wide as f32 are compared fastest beside it.
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
  Tensor prediction = input, classes_of = target, weight;
  if (o.weight.defined()) {  // what the sweep reads waits for the weights, so that it need not be cut in two
    require_class_weight(op, "weight", o.weight, classes);
    const Tensor safe = reshape(clamp(cast(target, DType::i64), 0, classes - 1), {-1});
    weight = reshape(index_select(precision.wide(o.weight), 0, safe), input.shape().with(axis, 1));
    prediction = after(input, weight), classes_of = after(target, weight);
  }
  const Tensor x = precision.wide(prediction), index = unsqueeze(cast(classes_of, DType::i64), axis);
  const Tensor right = pick_class(x, axis, index, "multi_margin_loss: target");
  const Tensor is_right = class_numbers(x, axis) == cast(index, DType::i32);
  const Tensor excess = where(is_right, 0, relu((o.margin - right) + x));
  Tensor terms = sum(o.p == 2 ? square(excess) : excess, axis, true) / static_cast<double>(classes);
  if (weight.defined()) terms = weight * terms;
  return precision.rounded(reduce(op, reshape(terms, target.shape()), o.reduction));
}

namespace {

// Σ_k Σ_i of max(0, 1 − r_k + x_i) over listed k and counted i: r [N, K], x [N, C] -> [N, 1]. What its gradient needs
// is how many hinges are open in every row of [N, K, C] and in every row of [N, C, K]: two sweeps, neither of which
// ever holds the pairs.
Tensor hinges_between(const Tensor& right, const Tensor& x, const Tensor& listed, const Tensor& counted) {
  auto pairs = [](const Tensor& rows, const Tensor& columns) {
    return std::pair(unsqueeze(rows, 2), unsqueeze(columns, 1));
  };
  return custom_function(
      [=](const std::vector<Tensor>& v) {
        const auto [r, z] = pairs(v[0], v[1]);
        const auto [l, c] = pairs(listed, counted);
        return sum(sum(where(logical_and(l, c), relu(1 + (z - r)), 0), 2), 1, true);
      },
      [=](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
        const auto [r, z] = pairs(v[0], v[1]);
        const auto [l, c] = pairs(listed, counted);
        const Tensor of_right = sum(cast(logical_and(logical_and(l, c), 1 + (z - r) > 0), r.dtype()), 2);
        const auto [zt, rt] = pairs(v[1], v[0]);
        const auto [ct, lt] = pairs(counted, listed);
        const Tensor of_x = sum(cast(logical_and(logical_and(ct, lt), 1 + (zt - rt) > 0), r.dtype()), 2);
        return std::vector<Tensor>{-(grad * of_right), grad * of_x};
      },
      {right, x});
}

// The same for few targets: one sweep over x, in which the targets are numbers of the row. One that is not listed lies
// so high that no hinge below it opens.
Tensor hinges_below_few(const Tensor& x, const Tensor& index, const Tensor& listed) {
  const Tensor numbers = class_numbers(x, 1);
  Tensor total, is_target;
  for (std::int64_t k = 0; k < index.size(1); ++k) {
    const Tensor at = narrow(index, 1, k, 1), counts = narrow(listed, 1, k, 1);
    const Tensor picked = pick_class(x, 1, at, "multilabel_margin_loss: target");
    const Tensor right = where(counts, picked, std::numeric_limits<double>::infinity());
    const Tensor excess = relu(x + (1 - right)), same = numbers == cast(where(counts, at, -1), DType::i32);
    total = total.defined() ? total + excess : excess;
    is_target = is_target.defined() ? logical_or(is_target, same) : same;
  }
  return sum(where(is_target, 0, total), 1, true);
}
constexpr std::int64_t kFewTargets = 8;

}  // namespace

// Every class that is not among the targets should stay below every one that is, by 1.
//   (1/C)·Σ_j Σ_{i∉targets} max(0, 1 − x_{y_j} + x_i)
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target, const LossOptions& o) {
  const char* op = "multilabel_margin_loss";
  require_same_shape(op, "input", input, "target", target);
  const Precision precision(op, {input});
  require(is_integer(target.dtype()), Error::Kind::type, "{}: the target lists classes and must be of integers, not {}",
          op, target.dtype());
  require(input.rank() == 1 || input.rank() == 2, "{}: the input must be [C] or [N, C], but it has shape {}", op,
          input.shape());
  const bool single = input.rank() == 1;
  const Tensor rows = single ? unsqueeze(input, 0) : input;
  const Tensor y = cast(single ? unsqueeze(target, 0) : target, DType::i64);
  const std::int64_t samples = rows.size(0), classes = rows.size(1);
  require(classes > 0, "{}: the input of shape {} has no classes", op, input.shape());
  const Tensor position = expand(unsqueeze(arange(classes), 0), rows.shape());
  const Tensor end = min(where(y == -1, position, classes), 1, true);  // of the list: the first −1
  // The lists are short where there are many classes: their greatest length is computed now.
  const std::int64_t longest = samples > 0 ? std::max<std::int64_t>(max(end).item<std::int64_t>(), 1) : 1;
  const Tensor listed = narrow(position, 1, 0, longest) < end;
  const Tensor index = where(listed, narrow(y, 1, 0, longest), 0);
  Tensor hinges;
  if (longest <= kFewTargets) {
    hinges = hinges_below_few(precision.wide(rows), index, listed);
  } else {
    const Tensor safe = clamp(index, 0, classes - 1);
    const Tensor other = scatter_add(zeros(rows.shape(), DType::i32), 1, safe, cast(listed, DType::i32)) == 0;
    const Tensor x = precision.wide(after(rows, other));
    hinges = hinges_between(gather_class(x, 1, index, "multilabel_margin_loss: target"), x, listed, other);
  }
  const Tensor terms = hinges / static_cast<double>(classes);
  return precision.rounded(reduce(op, reshape(terms, single ? Shape{} : Shape{samples}), o.reduction));
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

}  // namespace ebb
