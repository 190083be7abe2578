// SPDX-License-Identifier: MIT
#include "ebb/losses/distance.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "losses/describe.h"
#include "losses/gradients.h"
#include "losses/signs.h"

// Gradients are those of the operations; norm has gradient 0 at the zero vector.
namespace ebb {
namespace {

void require_vectors(const char* op, const Tensor& x) {
  require(x.rank() > 0, "{}: needs vectors along the last axis, but the input is a scalar", op);
}

// max(0, margin + d(a, p) − d(a, n)), the last one min(d(a, n), d(p, n)) with swap
template <class Distance>
Tensor triplet_terms(const Tensor& a, const Tensor& p, const Tensor& n, double margin, bool swap, Distance distance) {
  const Tensor near = distance(a, p);
  Tensor far = distance(a, n);
  if (swap) far = minimum(far, distance(p, n));
  return relu((margin + near) - far);
}

}  // namespace

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletOptions& o) {
  const char* op = "triplet_margin_loss";
  require_same_shape(op, "anchor", anchor, "positive", positive);
  require_same_shape(op, "anchor", anchor, "negative", negative);
  require_vectors(op, anchor);
  require(o.margin > 0, "{}: margin must be positive, got {}", op, o.margin);
  const Precision precision(op, {anchor, positive, negative});
  auto distance = [&o](const Tensor& x, const Tensor& y) { return norm(x - y + o.eps, o.p, -1); };
  const Tensor terms = triplet_terms(precision.wide(anchor), precision.wide(positive), precision.wide(negative),
                                     o.margin, o.swap, distance);
  return precision.rounded(reduce(op, terms, o.reduction));
}

Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const TripletDistanceOptions& o) {
  const char* op = "triplet_margin_with_distance_loss";
  require_same_shape(op, "anchor", anchor, "positive", positive);
  require_same_shape(op, "anchor", anchor, "negative", negative);
  require_vectors(op, anchor);
  require(o.margin > 0, "{}: margin must be positive, got {}", op, o.margin);
  const Precision precision(op, {anchor, positive, negative});
  auto distance = o.distance_function;
  if (!distance) distance = [](const Tensor& x, const Tensor& y) { return norm(x - y + 1e-6, 2, -1); };
  const Tensor terms = triplet_terms(precision.wide(anchor), precision.wide(positive), precision.wide(negative),
                                     o.margin, o.swap, distance);
  return precision.rounded(reduce(op, terms, o.reduction));
}

// c = a·b / sqrt((a·a + ε)·(b·b + ε)), with separate roots so that their product does not overflow
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             const CosineEmbeddingOptions& o) {
  const char* op = "cosine_embedding_loss";
  constexpr double epsilon = 1e-12;
  require_same_shape(op, "input1", input1, "input2", input2);
  require_vectors(op, input1);
  const Shape expected = input1.shape().without(input1.rank() - 1);
  require(target.defined() && target.shape() == expected,
          "{}: target of shape {} for inputs of shape {} must have shape {}, one number a vector", op,
          target.defined() ? target.shape() : Shape{}, input1.shape(), expected);
  const Precision precision(op, {input1, input2});
  const Tensor a = precision.wide(input1), b = precision.wide(input2);
  const Tensor y = checked_sign(precision.wide(target), "cosine_embedding_loss: target must be 1 or -1");
  const Tensor lengths = sqrt(sum(square(a), -1) + epsilon) * sqrt(sum(square(b), -1) + epsilon);
  const Tensor c = sum(a * b, -1) / lengths;
  return precision.rounded(reduce(op, where(y == 1, 1 - c, relu(c - o.margin)), o.reduction));
}

// 1 − c, c = a·b / (‖a‖·‖b‖). A zero vector has no direction: c counts as the constant 0.
namespace {

// Vectors whose squares would overflow or underflow are multiplied by a power of two that prevents it: the result
// depends only on their direction, so the factor is a constant to its gradient. Others are unchanged.
Tensor of_plain_size(const Tensor& x, int axis) {
  if (x.numel() == 0) return x;
  const bool wide = x.dtype() == DType::f64;
  const double large = wide ? 1e150 : 1e15, factor = wide ? 0x1p600 : 0x1p100;
  Tensor scale;
  {
    NoHistory scope;
    const Tensor largest = max(abs(x), axis, true);
    scale = where(largest > large, 1 / factor, where(largest < 1 / large, factor, ones_like(largest)));
  }
  return x * scale;
}

}  // namespace

Tensor cosine_similarity_loss(const Tensor& input1, const Tensor& input2, const CosineSimilarityOptions& o) {
  const char* op = "cosine_similarity_loss";
  require_same_shape(op, "input1", input1, "input2", input2);
  require_vectors(op, input1);
  const int axis = normalize_axis(op, o.axis, input1.rank());
  const Precision precision(op, {input1, input2});
  const Tensor a = of_plain_size(precision.wide(input1), axis), b = of_plain_size(precision.wide(input2), axis);
  const Tensor lengths = norm(a, 2, axis) * norm(b, 2, axis), none = lengths == 0;
  const Tensor c = where(none, 0, sum(a * b, axis) / where(none, 1, lengths));
  return precision.rounded(reduce(op, 1 - c, o.reduction));
}

// ---- gradients ------------------------------------------------------------------------------------------------------

TripletGradients triplet_margin_loss_backward(const Tensor& grad, const Tensor& anchor, const Tensor& positive,
                                              const Tensor& negative, const TripletOptions& o) {
  const auto g = pull_back("triplet_margin_loss", grad, {anchor, positive, negative},
                           [&](const std::vector<Tensor>& v) { return triplet_margin_loss(v[0], v[1], v[2], o); });
  return {g[0], g[1], g[2]};
}
TripletGradients triplet_margin_with_distance_loss_backward(const Tensor& grad, const Tensor& anchor,
                                                            const Tensor& positive, const Tensor& negative,
                                                            const TripletDistanceOptions& o) {
  const auto g =
      pull_back("triplet_margin_with_distance_loss", grad, {anchor, positive, negative},
                [&](const std::vector<Tensor>& v) { return triplet_margin_with_distance_loss(v[0], v[1], v[2], o); });
  return {g[0], g[1], g[2]};
}
PairGradients cosine_embedding_loss_backward(const Tensor& grad, const Tensor& input1, const Tensor& input2,
                                             const Tensor& target, const CosineEmbeddingOptions& o) {
  // The target only chooses between the branches: it gets no gradient.
  const auto g = pull_back("cosine_embedding_loss", grad, {input1, input2},
                           [&](const std::vector<Tensor>& v) { return cosine_embedding_loss(v[0], v[1], target, o); });
  return {g[0], g[1], {}};
}
PairGradients cosine_similarity_loss_backward(const Tensor& grad, const Tensor& input1, const Tensor& input2,
                                              const CosineSimilarityOptions& o) {
  const auto g = pull_back("cosine_similarity_loss", grad, {input1, input2},
                           [&](const std::vector<Tensor>& v) { return cosine_similarity_loss(v[0], v[1], o); });
  return {g[0], g[1], {}};
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, TripletOptions& o) {
  v("margin", o.margin, "by how much the negative should be farther");
  v("p", o.p, "of the norm");
  v("eps", o.eps, "added to every difference");
  v("swap", o.swap, "the negative's distance is the smaller of those to anchor and positive");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, TripletDistanceOptions& o) {
  v.only_in_cpp(o.distance_function);
  v("margin", o.margin, "by how much the negative should be farther");
  v("swap", o.swap, "the negative's distance is the smaller of those to anchor and positive");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, CosineEmbeddingOptions& o) {
  v("margin", o.margin, "the cosine that pairs which do not belong together may have");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, CosineSimilarityOptions& o) {
  v("axis", o.axis, "along which the vectors lie");
  v("reduction", o.reduction);
}

std::vector<LossInfo> distance_entries() {
  return {
      describe("triplet_margin_loss", "distance", "max(0, m + ‖a − p + ε‖ − ‖a − n + ε‖)",
               {{"anchor"}, {"positive"}, {"negative"}}, triplet_margin_loss),
      describe("triplet_margin_with_distance_loss", "distance", "max(0, m + d(a, p) − d(a, n))",
               {{"anchor"}, {"positive"}, {"negative"}}, triplet_margin_with_distance_loss),
      describe("cosine_embedding_loss", "distance",
               "y = 1: 1 − c;  y = −1: max(0, c − m);  c = a·b/√((a² + ε)(b² + ε))",
               {{"input1"}, {"input2"}, {"target", false}}, cosine_embedding_loss),
      describe("cosine_similarity_loss", "distance", "1 − a·b/(‖a‖·‖b‖)", {{"input1"}, {"input2"}},
               cosine_similarity_loss),
  };
}

}  // namespace ebb
