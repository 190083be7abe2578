// SPDX-License-Identifier: MIT
#include "ebb/losses/segmentation.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/classes.h"
#include "losses/describe.h"
#include "losses/gradients.h"
#include "ops/build.h"

namespace ebb {
namespace {

// Weights a of a prediction and b of a mask in their joint sum.
struct MassShares {
  double input = 1, target = 1;
};
// Σxt and Σ(a·x + b·t) over the reduced axes: two sums, since no loss needs Σx and Σt separately.
struct Overlap {
  Tensor both, mass;
};

Tensor sum_rest(const Tensor& x, int kept) {
  std::vector<std::int64_t> axes;
  for (int d = kept; d < x.rank(); ++d) axes.push_back(d);
  return axes.empty() ? x : sum(x, Axes(axes));
}

// term(overlap), reduced
template <class Term>
Tensor of_overlap(const char* op, const Tensor& input, const Tensor& target, int kept, double smooth, MassShares share,
                  Reduction reduction, Term term) {
  require_same_shape(op, "input", input, "target", target);
  require(kept >= 0 && kept <= input.rank(), "{}: kept_axes must be in [0, {}] for shape {}, got {}", op, input.rank(),
          input.shape(), kept);
  require(smooth >= 0, "{}: smooth must not be negative, got {}", op, smooth);
  const Precision p(op, {input, target});
  const Tensor x = p.wide(input), t = p.wide(target);
  const Tensor mass = share.input == share.target ? share.input * sum_rest(x + t, kept)
                                                  : sum_rest(fma(t, share.target, share.input * x), kept);
  return p.rounded(reduce(op, term(Overlap{sum_rest(x * t, kept), mass}), reduction));
}

// Errors in falling order, each multiplied by the increase of the Jaccard loss 1 − both/either of the hard prediction
// if it is wrong too. A foreground element leaves `both` by one, a background element joins `either`, so the steps are
//   1/either   and   both/(either − 1) − both/either = both/((either − 1)·either),
// without a difference of numbers that are nearly equal; the first of a row without foreground is a step from 0 to 1.
// `foreground` 0 or 1; rows along the last axis. For differentiation the order and the labels are constants.
Tensor lovasz_extension(const Tensor& errors, const Tensor& foreground) {
  const Tensor order = argsort(stop_gradient(errors), -1, true);
  const Tensor sorted = gather(errors, -1, order), truth = gather(stop_gradient(foreground), -1, order);
  const Tensor all = sum(truth, -1, true), so_far = cumsum(truth, -1);
  const Tensor rank = arange(1, errors.size(-1) + 1, 1, errors.dtype());
  const Tensor both = all - so_far, either = all + (rank - so_far);
  const Tensor whole = logical_or(truth == 1, either == 1);
  return sum(sorted * (where(whole, 1, both / (either - 1)) / either), -1);
}

}  // namespace

Tensor dice_loss(const Tensor& input, const Tensor& target, const OverlapOptions& o) {
  return of_overlap("dice_loss", input, target, o.kept_axes, o.smooth, {}, o.reduction,
                    [&o](const Overlap& v) { return 1 - (2 * v.both + o.smooth) / (v.mass + o.smooth); });
}
LossGradients dice_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                 const OverlapOptions& o) {
  return gradients("dice_loss", dice_loss, grad, input, target, o);
}

Tensor iou_loss(const Tensor& input, const Tensor& target, const OverlapOptions& o) {
  return of_overlap("iou_loss", input, target, o.kept_axes, o.smooth, {}, o.reduction,
                    [&o](const Overlap& v) { return 1 - (v.both + o.smooth) / (v.mass - v.both + o.smooth); });
}
LossGradients iou_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                const OverlapOptions& o) {
  return gradients("iou_loss", iou_loss, grad, input, target, o);
}

// TP = Σxt, FP = Σx − Σxt, FN = Σt − Σxt:   α·FP + β·FN = Σ(α·x + β·t) − (α + β)·Σxt
Tensor tversky_loss(const Tensor& input, const Tensor& target, const TverskyOptions& o) {
  require(o.alpha >= 0 && o.beta >= 0, "tversky_loss: alpha and beta must not be negative, got {} and {}", o.alpha,
          o.beta);
  return of_overlap("tversky_loss", input, target, o.kept_axes, o.smooth, {o.alpha, o.beta}, o.reduction,
                    [&o](const Overlap& v) {
                      const Tensor wrong = v.mass - (o.alpha + o.beta) * v.both;
                      return 1 - (v.both + o.smooth) / (v.both + wrong + o.smooth);
                    });
}
LossGradients tversky_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                    const TverskyOptions& o) {
  return gradients("tversky_loss", tversky_loss, grad, input, target, o);
}

// Berman et al., 2018. Errors of a binary mask: 1 − x·(2t − 1), and only positive ones count.
Tensor lovasz_hinge(const Tensor& input, const Tensor& target, const LovaszHingeOptions& o) {
  const char* op = "lovasz_hinge";
  require_same_shape(op, "input", input, "target", target);
  require(input.rank() > 0 || !o.per_sample, "{}: needs samples along the first axis, but the input is a scalar", op);
  const Precision p(op, {input});
  const std::int64_t samples = o.per_sample ? input.size(0) : 1;
  const Sizes rows{samples, samples == 0 ? 0 : input.numel() / samples};
  const Tensor number = p.wide(reshape(target, rows));
  const Tensor t = check(number, logical_or(number == 0, number == 1), "lovasz_hinge: target must be 0 or 1");
  const Tensor x = reshape(p.wide(input), rows);
  if (input.numel() == 0) return p.rounded(reduce(op, sum(x, -1), o.reduction));
  const Tensor errors = 1 - x * (2 * t - 1);
  const Tensor order = relu(errors);
  return p.rounded(reduce(op, lovasz_extension(order, t), o.reduction));
}
LossGradients lovasz_hinge_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                    const LovaszHingeOptions& o) {
  return gradients("lovasz_hinge", lovasz_hinge, grad, input, target, o);
}

// Errors of class c: |[y = c] − p_c|. Ignored elements have error 0 and no foreground: they come last and add nothing.
Tensor lovasz_softmax(const Tensor& input, const Tensor& target, const LovaszSoftmaxOptions& o) {
  const char* op = "lovasz_softmax";
  const Precision p(op, {input});
  require(input.rank() >= 2, "{}: needs probabilities [N, C, ...], got shape {}", op, input.shape());
  require_class_indices(op, input, 1, target);
  const std::int64_t classes = input.size(1);
  const Tensor x = reshape(transpose(p.wide(input), 0, 1), {classes, target.numel()});
  Tensor y = reshape(cast(target, DType::i64), {1, target.numel()});
  const Tensor keep = y != o.ignore_index;
  y = check(y, logical_or(logical_not(keep), logical_and(y >= 0, y < classes)),
            "lovasz_softmax: target must be a class index");
  if (target.numel() == 0) return p.rounded(reduce(op, sum(x, -1), o.reduction));
  const Tensor hit = logical_and(keep, y == reshape(arange(classes), {classes, 1}));
  const Tensor foreground = cast(hit, x.dtype());
  const Tensor terms = lovasz_extension(where(keep, abs(foreground - x), 0), foreground);
  if (!o.present_only) return p.rounded(reduce(op, terms, o.reduction));
  const Tensor present = cast(any(hit, -1), x.dtype());
  return p.rounded(reduce_weighted(op, terms * present, sum(present), o.reduction));
}
LossGradients lovasz_softmax_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                      const LovaszSoftmaxOptions& o) {
  return gradients("lovasz_softmax", lovasz_softmax, grad, input, target, o);
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, OverlapOptions& o) {
  v("smooth", o.smooth, "added above and below the fraction");
  v("kept_axes", o.kept_axes, "how many leading axes keep their terms");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, TverskyOptions& o) {
  v("alpha", o.alpha, "what a false positive counts");
  v("beta", o.beta, "what a false negative counts");
  v("smooth", o.smooth, "added above and below the fraction");
  v("kept_axes", o.kept_axes, "how many leading axes keep their terms");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, LovaszHingeOptions& o) {
  v("per_sample", o.per_sample, "each sample is a term; false: all together are one");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, LovaszSoftmaxOptions& o) {
  v("present_only", o.present_only, "only classes that some target has count");
  v("ignore_index", o.ignore_index, kIgnored);
  v("reduction", o.reduction);
}

std::vector<LossInfo> segmentation_entries() {
  return {
      describe("dice_loss", "segmentation", "1 − (2·Σxt + s)/(Σx + Σt + s)", {{"input"}, {"target"}}, dice_loss),
      describe("iou_loss", "segmentation", "1 − (Σxt + s)/(Σx + Σt − Σxt + s)", {{"input"}, {"target"}}, iou_loss),
      describe("tversky_loss", "segmentation", "1 − (TP + s)/(TP + α·FP + β·FN + s)", {{"input"}, {"target"}},
               tversky_loss),
      describe("lovasz_hinge", "segmentation", "the Lovász extension of the Jaccard loss, of hinges 1 − (2y − 1)·x",
               {{"input"}, {"target", false}}, lovasz_hinge),
      describe("lovasz_softmax", "segmentation", "the Lovász extension of the Jaccard loss, of errors |[y = c] − p_c|",
               {{"input"}, {"target", false}}, lovasz_softmax),
  };
}

}  // namespace ebb
