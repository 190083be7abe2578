#include "ebb/losses/ranking.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/classes.h"
#include "losses/gradients.h"
#include "losses/signs.h"
#include "ops/reduce_parts.h"

namespace ebb {
namespace {

// term(x, axis, index [.., 1, ..]) of every row that counts, reduced; the mean is over the rows that count.
template <class Term>
Tensor of_class(const char* op, const Tensor& input, const Tensor& target, std::int64_t ignore_index,
                Reduction reduction, Term term) {
  const Precision p(op, {input});
  const int axis = class_axis(op, input);
  require_class_indices(op, input, axis, target);
  const bool waits = waits_for_total(reduction, input, {});
  const Targets t = prepare_targets(target, axis, input.size(axis), ignore_index, {}, p.compute(), waits);
  const Tensor x = p.wide(waits ? after(input, t.total) : input);
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

// Sparsemax (Martins and Astudillo, 2016). The support S does not move for small changes of x, so it is a constant for
// differentiation: k = |S|, τ = (Σ_S x − 1)/k, and the gradient is x_j − τ on S, less 1 at y.
Tensor sparsemax_loss(const Tensor& input, const Tensor& target, const SparsemaxOptions& o) {
  return of_class("sparsemax_loss", input, target, o.ignore_index, o.reduction,
                  [](const Tensor& logits, int axis, const Tensor& index) {
                    const Tensor x = logits - stop_gradient(max(logits, axis, true));  // the loss does not change
                    const Tensor fixed = stop_gradient(x);
                    const Tensor sorted = sort(fixed, axis, true).first, so_far = cumsum(sorted, axis);
                    Shape along;
                    for (int d = 0; d < x.rank(); ++d) along = along.inserted(d, d == axis ? x.size(axis) : 1);
                    const Tensor rank = reshape(arange(1, x.size(axis) + 1, 1, x.dtype()), along);
                    // The k largest are the support: 1 + k·x_(k) > Σ of them.
                    const Tensor inside = 1 + rank * sorted > so_far;
                    const Tensor k = sum(cast(inside, x.dtype()), axis, true);
                    const Tensor threshold = (sum(where(inside, sorted, 0), axis, true) - 1) / k;
                    const Tensor support = fixed > threshold;
                    const Tensor tau = (sum(where(support, x, 0), axis, true) - 1) / k;
                    return 0.5 * (sum(where(support, square(x), 0), axis, true) - k * square(tau)) + 0.5 -
                           pick_class(x, axis, index, "sparsemax_loss: target");
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

}  // namespace ebb
