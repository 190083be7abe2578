// SPDX-License-Identifier: MIT
#include "ebb/losses/ranking.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "losses/classes.h"
#include "losses/describe.h"
#include "losses/gradients.h"
#include "losses/signs.h"
#include "ops/reduce_parts.h"

namespace ebb {
namespace {

// term(x, axis, index [.., 1, ..]) of every counted row, reduced; the mean is over the counted rows.
template <class Term>
Tensor of_class(const char* op, const Tensor& input, const Tensor& target, std::int64_t ignore_index,
                Reduction reduction, Term term) {
  const Precision p(op, {input});
  const int axis = class_axis(op, input);
  require_class_indices(op, input, axis, target);
  const Targets t = prepare_targets(target, axis, input.size(axis), ignore_index, {}, p.compute());
  const Tensor x = p.wide(input);
  const Tensor terms = where(t.keep, term(x, axis, t.index), 0);
  return p.rounded(reduce_weighted(op, reshape(terms, target.shape()), t.total, reduction));
}

}  // namespace

// Poly-1 (Leng et al., 2022).    −log p_y + ε·(1 − p_y),   1 − e^l = −expm1(l)
Tensor poly_loss(const Tensor& input, const Tensor& target, const PolyOptions& o) {
  return of_class("poly_loss", input, target, o.ignore_index, o.reduction,
                  [&o](const Tensor& x, int axis, const Tensor& index) {
                    const LogSoftmax parts = log_softmax_parts(x, axis);
                    const Tensor l = pick_class(parts.z, axis, index, "poly_loss: target") - parts.log_s;
                    return -l - o.epsilon * expm1(l);
                  });
}
LossGradients poly_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const PolyOptions& o) {
  return gradients("poly_loss", poly_loss, grad, input, target, o);
}

namespace {

Tensor sparsemax_threshold(const Tensor& x, int axis) {
  Attrs attrs;
  attrs.i[0] = axis;
  return make_node(Op::sparsemax_threshold, x.dtype(), x.shape().with(axis, 1), {x}, attrs);
}

// With x measured from the threshold, the support S is where it is positive. k = |S|, τ = (Σ_S x − 1)/k is the rounding
// error left, and ½·(Σ_S x² − k·τ²) has the derivative x − τ on S. S is stable under small changes of x.
Tensor support_terms(const Tensor& x, int axis) {
  auto rest = [axis](const Tensor& x, const Tensor& k) { return (sum(relu(x), axis, true) - 1) / k; };
  auto size = [axis](const Tensor& x) { return sum(cast(x > 0, x.dtype()), axis, true); };
  return custom_function(
      [=](const std::vector<Tensor>& v) {
        const Tensor k = size(v[0]);
        return 0.5 * (sum(square(relu(v[0])), axis, true) - k * square(rest(v[0], k)));
      },
      [=](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
        return std::vector<Tensor>{grad * where(v[0] > 0, v[0] - rest(v[0], size(v[0])), 0)};
      },
      {x});
}

}  // namespace

// Sparsemax (Martins and Astudillo, 2016).    ½·Σ_S (x² − τ²) + ½ − x_y does not change when a number is added to all
// x.
Tensor sparsemax_loss(const Tensor& input, const Tensor& target, const SparsemaxOptions& o) {
  return of_class("sparsemax_loss", input, target, o.ignore_index, o.reduction,
                  [](const Tensor& logits, int axis, const Tensor& index) {
                    const Tensor x = logits - sparsemax_threshold(stop_gradient(logits), axis);
                    return support_terms(x, axis) + 0.5 - pick_class(x, axis, index, "sparsemax_loss: target");
                  });
}
LossGradients sparsemax_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const SparsemaxOptions& o) {
  return gradients("sparsemax_loss", sparsemax_loss, grad, input, target, o);
}

// ListNet's top-one form (Cao et al., 2007).    −Σ p·logq = log s − (Σ e·z)/(Σ e),   p = e/Σe the softmax of the
// target, logq = z − log s that of the input: nothing is divided an element
Tensor listnet_loss(const Tensor& input, const Tensor& target, const ListnetOptions& o) {
  const char* op = "listnet_loss";
  require_same_shape(op, "input", input, "target", target);
  require(input.rank() > 0, "{}: needs lists along the last axis, but the input is a scalar", op);
  const Precision p(op, {input, target});
  const Tensor x = p.wide(input), t = p.wide(target);
  if (x.numel() == 0) return p.rounded(reduce(op, sum(x * t, -1), o.reduction));
  const int axis = x.rank() - 1;
  const LogSoftmax q = log_softmax_parts(x, axis);
  const ShiftedExp e = shifted_exp(t, 1u << axis);
  const Tensor terms = q.log_s - sum(e.terms * q.z, -1, true) / e.total;
  return p.rounded(reduce(op, squeeze(terms, -1), o.reduction));
}
LossGradients listnet_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                    const ListnetOptions& o) {
  return gradients("listnet_loss", listnet_loss, grad, input, target, o);
}

Tensor perceptron_loss(const Tensor& input, const Tensor& target, const PerceptronOptions& o) {
  const char* op = "perceptron_loss";
  require_same_shape(op, "input", input, "target", target);
  const Precision p(op, {input, target});
  const Tensor y = checked_sign(p.wide(target), "perceptron_loss: target must be 1 or -1");
  return p.rounded(reduce(op, hinge_of(0, y, p.wide(input)), o.reduction));
}
LossGradients perceptron_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                       const PerceptronOptions& o) {
  return gradients("perceptron_loss", perceptron_loss, grad, input, target, o);
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, PolyOptions& o) {
  v("epsilon", o.epsilon, "the weight of the first term of the series");
  v("ignore_index", o.ignore_index, kIgnored);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, SparsemaxOptions& o) {
  v("ignore_index", o.ignore_index, kIgnored);
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, ListnetOptions& o) {
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, PerceptronOptions& o) {
  v("reduction", o.reduction);
}

std::vector<LossInfo> ranking_entries() {
  return {
      describe("poly_loss", "ranking", "cross_entropy(x, y) + ε·(1 − p_y)", {{"input"}, {"target", false}}, poly_loss),
      describe("sparsemax_loss", "ranking", "½·Σ_{j∈S} (x_j² − τ²) + ½ − x_y", {{"input"}, {"target", false}},
               sparsemax_loss),
      describe("listnet_loss", "ranking", "−Σ softmax(t)·log_softmax(x)", {{"input"}, {"target"}}, listnet_loss),
      describe("perceptron_loss", "ranking", "max(0, −y·x);  y = ±1", {{"input"}, {"target"}}, perceptron_loss),
  };
}

}  // namespace ebb
