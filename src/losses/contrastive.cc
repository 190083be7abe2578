// SPDX-License-Identifier: MIT
#include "ebb/losses/contrastive.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/classes.h"
#include "losses/describe.h"
#include "losses/products.h"
#include "losses/reduction.h"

namespace ebb {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void require_rows(const char* op, const char* name, const Tensor& x) {
  require(x.rank() == 2, "{}: {} must be rows [N, D], got shape {}", op, name, x.shape());
}
void require_temperature(const char* op, double t) {
  require(t > 0, "{}: temperature must be positive, got {}", op, t);
}

// Rows to compare: as given, and in f32 or f64 with length 1, if requested.
struct ComparedRows {
  Tensor given, wide, length;  // length is undefined where rows are not normalised
  ComparedRows(const Precision& p, const Tensor& x, bool normalize = true) : given(x), wide(p.wide(x)) {
    if (!normalize) return;
    length = clamp(norm(wide, 2, -1, true), 1e-12);
    wide = wide / length;
  }
};

// scale·A·Bᵀ. From bf16 rows as given, with the lengths divided out afterwards, it is as exact as from unit rows in
// f32; only the gradient uses rounded factors.
Tensor similarities(const Precision& p, const ComparedRows& a, const ComparedRows& b, double scale = 1) {
  const Tensor scaled = scale == 1 ? a.wide : a.wide * scale;
  if (!rounds_factors(p.result(), a.wide.device(), a.wide.size(0), b.wide.size(0), a.wide.size(1)))
    return matmul(scaled, t(b.wide));
  return rounded_product(scaled, b.wide, {.b = true}, [&] {
    Tensor s = product_of_bf16(a.given, t(b.given));
    if (a.length.defined()) {
      s = s * (scale / a.length) * t(1 / b.length);
    } else if (scale != 1) {
      s = s * scale;
    }
    return s;
  });
}
Tensor row_dots(const Tensor& a, const Tensor& b) { return sum(a * b, -1, true); }

// [N, N]: true where row and column are the same sample.
Tensor itself(std::int64_t n) { return reshape(arange(n), {n, 1}) == reshape(arange(n), {1, n}); }

// Aᵀ·B of centred columns: they cannot use the original numbers without losing the small in the large.
Tensor column_products(const Precision& p, const Tensor& a, const Tensor& b) {
  if (!rounds_factors(p.result(), a.device(), a.size(1), b.size(1), a.size(0))) return matmul(t(a), b);
  return rounded_product(a, b, {.a = true});
}

}  // namespace

// InfoNCE (van den Oord et al., 2018).   lse_j(s_ij) − s_ii
Tensor info_nce(const Tensor& query, const Tensor& key, const InfoNceOptions& o) {
  const char* op = "info_nce";
  require_same_shape(op, "query", query, "key", key);
  require_rows(op, "query", query);
  require_temperature(op, o.temperature);
  const Precision p(op, {query, key, o.negatives});
  const ComparedRows q(p, query, o.normalize), k(p, key, o.normalize);
  Tensor right, others;
  if (o.negatives.defined()) {
    require_rows(op, "negatives", o.negatives);
    require(o.negatives.size(1) == query.size(1), "{}: negatives of shape {} and queries of shape {} differ in length",
            op, o.negatives.shape(), query.shape());
    right = row_dots(q.wide * (1 / o.temperature), k.wide);
    others = cat({right, similarities(p, q, ComparedRows(p, o.negatives, o.normalize), 1 / o.temperature)}, 1);
  } else {
    others = similarities(p, q, k, 1 / o.temperature);
    // From the matrix of the logsumexp, not as row_dots: both then have the same roundings, and so do their gradients,
    // which nearly cancel where the loss is small.
    right = pick_class(others, 1, reshape(arange(query.size(0)), {-1, 1}), op);
  }
  return p.rounded(reduce(op, squeeze(logsumexp(others, -1, true) - right, -1), o.reduction));
}
std::vector<Tensor> info_nce_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                      const InfoNceOptions& o) {
  return pull_back("info_nce", grad, {query, key, o.negatives}, [&o](const std::vector<Tensor>& v) {
    InfoNceOptions with = o;
    with.negatives = v[2];
    return info_nce(v[0], v[1], with);
  });
}

// SigLIP (Zhai et al., 2023).   −log σ(y·z) = softplus(−y·z)
Tensor siglip_loss(const Tensor& first, const Tensor& second, const SiglipOptions& o) {
  const char* op = "siglip_loss";
  require_same_shape(op, "first", first, "second", second);
  require_rows(op, "first", first);
  for (const auto& [name, x] : {std::pair{"scale", o.scale}, std::pair{"bias", o.bias}}) {
    require(!x.defined() || x.numel() == 1, "{}: {} must be one number, got shape {}", op, name,
            x.defined() ? x.shape() : Shape{});
  }
  const Precision p(op, {first, second, o.scale, o.bias});
  const Tensor s = similarities(p, ComparedRows(p, first, o.normalize), ComparedRows(p, second, o.normalize));
  const Tensor scaled = o.scale.defined() ? s * reshape(p.wide(o.scale), {}) : s * 10;
  const Tensor z = o.bias.defined() ? scaled + reshape(p.wide(o.bias), {}) : scaled - 10;
  return p.rounded(reduce(op, sum(softplus(where(itself(first.size(0)), -z, z)), -1), o.reduction));
}
std::vector<Tensor> siglip_loss_backward(const Tensor& grad, const Tensor& first, const Tensor& second,
                                         const SiglipOptions& o) {
  return pull_back("siglip_loss", grad, {first, second, o.scale, o.bias}, [&o](const std::vector<Tensor>& v) {
    SiglipOptions with = o;
    with.scale = v[2];
    with.bias = v[3];
    return siglip_loss(v[0], v[1], with);
  });
}

// NT-Xent (Chen et al., 2020). Row i < N belongs to row i + N and vice versa.
Tensor nt_xent(const Tensor& first, const Tensor& second, const NtXentOptions& o) {
  const char* op = "nt_xent";
  require_same_shape(op, "first", first, "second", second);
  require_rows(op, "first", first);
  require_temperature(op, o.temperature);
  const Precision p(op, {first, second});
  const std::int64_t n = first.size(0);
  const ComparedRows z(p, cat({first, second}, 0));
  const Tensor row = reshape(arange(2 * n), {-1, 1}), other = where(row < n, row + n, row - n);
  const Tensor s = similarities(p, z, z, 1 / o.temperature);
  const Tensor all = logsumexp(where(itself(2 * n), kNever, s), -1, true);
  return p.rounded(reduce(op, squeeze(all - pick_class(s, 1, other, op), -1), o.reduction));
}
std::vector<Tensor> nt_xent_backward(const Tensor& grad, const Tensor& first, const Tensor& second,
                                     const NtXentOptions& o) {
  return pull_back("nt_xent", grad, {first, second},
                   [&o](const std::vector<Tensor>& v) { return nt_xent(v[0], v[1], o); });
}

// SupCon (Khosla et al., 2020), the sum over positives outside of the logarithm.
Tensor supcon_loss(const Tensor& features, const Tensor& labels, const SupConOptions& o) {
  const char* op = "supcon_loss";
  require_rows(op, "features", features);
  require_temperature(op, o.temperature);
  const std::int64_t n = features.size(0);
  require(labels.shape() == Shape{n}, "{}: labels of shape {} do not fit {} rows", op, labels.shape(), n);
  const Precision p(op, {features});
  const ComparedRows z(p, features);
  const Tensor s = similarities(p, z, z, 1 / o.temperature), self = itself(n);
  const Tensor all = logsumexp(where(self, kNever, s), -1, true);
  const Tensor positive = logical_and(reshape(labels, {n, 1}) == reshape(labels, {1, n}), logical_not(self));
  const Tensor count = sum(cast(positive, s.dtype()), -1), some = count > 0;
  // A row alone in the batch has no other to compare with: its logsumexp is −inf and must not be used.
  const Tensor terms = where(some, sum(where(positive, all - s, 0), -1) / where(some, count, 1), 0);
  return p.rounded(reduce_weighted(op, terms, sum(cast(some, s.dtype())), o.reduction));
}
Tensor supcon_loss_backward(const Tensor& grad, const Tensor& features, const Tensor& labels, const SupConOptions& o) {
  return pull_back("supcon_loss", grad, {features},
                   [&](const std::vector<Tensor>& v) { return supcon_loss(v[0], labels, o); })[0];
}

// ---- cosines with a margin ------------------------------------------------------------------------------------------

namespace {

// Cross-entropy of scale·cos with the target's cosine c replaced by harder(c).
template <class Harder>
Tensor margin_cosines(const char* op, const char* label, const Tensor& embeddings, const Tensor& weight,
                      const Tensor& target, double scale, Reduction reduction, Harder harder) {
  require_rows(op, "embeddings", embeddings);
  require_rows(op, "weight", weight);
  require(embeddings.size(1) == weight.size(1), "{}: embeddings of shape {} and weight of shape {} differ in length",
          op, embeddings.shape(), weight.shape());
  require(target.shape() == Shape{embeddings.size(0)}, "{}: target of shape {} does not fit {} embeddings", op,
          target.shape(), embeddings.size(0));
  require(scale > 0, "{}: scale must be positive, got {}", op, scale);
  const Precision p(op, {embeddings, weight});
  const Tensor cosines = similarities(p, ComparedRows(p, embeddings), ComparedRows(p, weight));
  require_class_indices(op, cosines, 1, target);
  const Tensor y = reshape(cast(target, DType::i64), {-1, 1});
  const Tensor hard = harder(pick_class(cosines, 1, y, label));
  const Tensor is_target = y == reshape(arange(weight.size(0)), {1, -1});
  const Tensor lse = logsumexp(scale * where(is_target, hard, cosines), -1, true);
  return p.rounded(reduce(op, squeeze(lse - scale * hard, -1), reduction));
}

}  // namespace

// ArcFace (Deng et al., 2019).   cos(θ + m) = cos θ·cos m − sin θ·sin m
Tensor arcface_loss(const Tensor& embeddings, const Tensor& weight, const Tensor& target, const ArcFaceOptions& o) {
  const char* op = "arcface_loss";
  require(o.margin >= 0 && o.margin < std::numbers::pi, "{}: margin must be in [0, π), got {}", op, o.margin);
  const auto harder = [&o](const Tensor& c) {
    // At θ = 0 the sine has no slope in the cosine; it is kept slightly above 0 there.
    const double least = c.dtype() == DType::f64 ? 1e-14 : 1e-7;
    const Tensor sine = sqrt(clamp(1 - square(c), least));
    const Tensor turned = c * std::cos(o.margin) - sine * std::sin(o.margin);
    return where(c > std::cos(std::numbers::pi - o.margin), turned, c - o.margin * std::sin(o.margin));
  };
  return margin_cosines(op, "arcface_loss: target", embeddings, weight, target, o.scale, o.reduction, harder);
}
std::vector<Tensor> arcface_loss_backward(const Tensor& grad, const Tensor& embeddings, const Tensor& weight,
                                          const Tensor& target, const ArcFaceOptions& o) {
  return pull_back("arcface_loss", grad, {embeddings, weight, target},
                   [&o](const std::vector<Tensor>& v) { return arcface_loss(v[0], v[1], v[2], o); });
}

// CosFace (Wang et al., 2018).
Tensor cosface_loss(const Tensor& embeddings, const Tensor& weight, const Tensor& target, const CosFaceOptions& o) {
  return margin_cosines("cosface_loss", "cosface_loss: target", embeddings, weight, target, o.scale, o.reduction,
                        [&o](const Tensor& c) { return c - o.margin; });
}
std::vector<Tensor> cosface_loss_backward(const Tensor& grad, const Tensor& embeddings, const Tensor& weight,
                                          const Tensor& target, const CosFaceOptions& o) {
  return pull_back("cosface_loss", grad, {embeddings, weight, target},
                   [&o](const std::vector<Tensor>& v) { return cosface_loss(v[0], v[1], v[2], o); });
}

// ---- statistics of features -----------------------------------------------------------------------------------------

namespace {

void require_views(const char* op, const Tensor& first, const Tensor& second) {
  require_same_shape(op, "first", first, "second", second);
  require_rows(op, "first", first);
}

}  // namespace

// Zbontar et al., 2021.   c = âᵀ·b̂ / N,  â and b̂ with mean 0 and variance 1 for every feature
Tensor barlow_twins_loss(const Tensor& first, const Tensor& second, const BarlowTwinsOptions& o) {
  const char* op = "barlow_twins_loss";
  require_views(op, first, second);
  const Precision p(op, {first, second});
  const auto standard = [&o](const Tensor& x) {
    const Tensor d = x - mean(x, 0, true);
    return d * rsqrt(mean(square(d), 0, true) + o.eps);
  };
  const Tensor a = standard(p.wide(first)), b = standard(p.wide(second));
  const Tensor c = column_products(p, a, b) / static_cast<double>(first.size(0));
  const Tensor same = itself(first.size(1));
  return p.rounded(sum(where(same, square(c - 1), o.lambda * square(c))));
}
std::vector<Tensor> barlow_twins_loss_backward(const Tensor& grad, const Tensor& first, const Tensor& second,
                                               const BarlowTwinsOptions& o) {
  return pull_back("barlow_twins_loss", grad, {first, second},
                   [&o](const std::vector<Tensor>& v) { return barlow_twins_loss(v[0], v[1], o); });
}

// Bardes et al., 2022.
Tensor vicreg_loss(const Tensor& first, const Tensor& second, const VicRegOptions& o) {
  const char* op = "vicreg_loss";
  require_views(op, first, second);
  require(first.size(0) != 1, "{}: a batch of one sample has no variance; give at least two", op);
  const Precision p(op, {first, second});
  const Tensor a = p.wide(first), b = p.wide(second);
  const auto n = static_cast<double>(first.size(0)), d = static_cast<double>(first.size(1));
  const auto spread = [&](const Tensor& x) {
    const Tensor z = x - mean(x, 0, true);
    const Tensor deviation = sqrt(sum(square(z), 0) / (n - 1) + o.eps);
    const Tensor cov = column_products(p, z, z) / (n - 1);
    const Tensor outside = where(itself(x.size(1)), 0, square(cov));
    return (0.5 * o.variance) * mean(relu(1 - deviation)) + (o.covariance / d) * sum(outside);
  };
  return p.rounded(o.invariance * mean(square(a - b)) + spread(a) + spread(b));
}
std::vector<Tensor> vicreg_loss_backward(const Tensor& grad, const Tensor& first, const Tensor& second,
                                         const VicRegOptions& o) {
  return pull_back("vicreg_loss", grad, {first, second},
                   [&o](const std::vector<Tensor>& v) { return vicreg_loss(v[0], v[1], o); });
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, InfoNceOptions& o) {
  v("negatives", o.negatives);
  v("temperature", o.temperature, "τ");
  v("normalize", o.normalize, "rows are scaled to length 1");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, SiglipOptions& o) {
  v("scale", o.scale);
  v("bias", o.bias);
  v("normalize", o.normalize, "rows are scaled to length 1");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, NtXentOptions& o) {
  v("temperature", o.temperature, "τ");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, SupConOptions& o) {
  v("temperature", o.temperature, "τ");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, ArcFaceOptions& o) {
  v("margin", o.margin, "an angle");
  v("scale", o.scale, "of the cosines");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, CosFaceOptions& o) {
  v("margin", o.margin, "taken from the target's cosine");
  v("scale", o.scale, "of the cosines");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, BarlowTwinsOptions& o) {
  v("lambda", o.lambda, "the weight of the redundancy");
  v("eps", o.eps, "added to the variances");
}

template <class V>
void each_option(V& v, VicRegOptions& o) {
  v("invariance", o.invariance, "the weight of the difference of the views");
  v("variance", o.variance, "the weight of too little spread");
  v("covariance", o.covariance, "the weight of the redundancy");
  v("eps", o.eps, "under the root of the standard deviation");
}

std::vector<LossInfo> contrastive_entries() {
  return {
      describe("info_nce", "contrastive", "−log e^(q_i·k_i/τ) / Σ_j e^(q_i·k_j/τ)", {{"query"}, {"key"}}, info_nce),
      describe("siglip_loss", "contrastive", "Σ_j softplus(−y_ij·(scale·a_i·b_j + bias)), y_ij = 1 for i = j, else −1",
               {{"first"}, {"second"}}, siglip_loss),
      describe("nt_xent", "contrastive", "−log e^(z_i·z'_i/τ) / Σ_{j≠i} e^(z_i·z_j/τ)", {{"first"}, {"second"}},
               nt_xent),
      describe("supcon_loss", "contrastive", "−mean_{p: same label} log e^(z_i·z_p/τ) / Σ_{j≠i} e^(z_i·z_j/τ)",
               {{"features"}, {"labels", false}}, supcon_loss),
      describe("arcface_loss", "contrastive", "cross_entropy(s·cos θ, y) with cos(θ_y + m) for the target",
               {{"embeddings"}, {"weight"}, {"target", false}}, arcface_loss),
      describe("cosface_loss", "contrastive", "cross_entropy(s·cos θ, y) with cos θ_y − m for the target",
               {{"embeddings"}, {"weight"}, {"target", false}}, cosface_loss),
      describe("barlow_twins_loss", "contrastive", "Σ (1 − c_ii)² + λ·Σ_{i≠j} c_ij²", {{"first"}, {"second"}},
               barlow_twins_loss),
      describe("vicreg_loss", "contrastive", "i·mse + v·mean max(0, 1 − std)/2 + c·Σ_{i≠j} cov_ij²/D",
               {{"first"}, {"second"}}, vicreg_loss),
  };
}

}  // namespace ebb
