// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "ebb/autograd.h"
#include "ebb/losses/registry.h"
#include "ebb/ops.h"
#include "ebb/random.h"

// Every loss against plain loops in double precision that share nothing with the library: the value, and the gradient
// as central differences of the loops.
namespace ebb {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;  // one row of every input; class indices as numbers

// The term of a row, or of one element if the loss has one term per element (rows of one number each).
using Reference = std::function<double(const Rows&)>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double log_sum_exp(const Row& x) {
  double total = 0;
  for (double v : x) total += std::exp(v);
  return std::log(total);
}
double dot(const Row& a, const Row& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}
double distance(const Row& a, const Row& b, double p, double eps) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += std::pow(std::abs(a[i] - b[i] + eps), p);
  return std::pow(total, 1 / p);
}
std::size_t index_of(double y) { return static_cast<std::size_t>(y); }
double bce(double x, double y) { return -(y * std::log(sigmoid(x)) + (1 - y) * std::log(sigmoid(-x))); }
double focal(double p, double y) {
  return -0.25 * y * std::pow(1 - p, 2) * std::log(p) - 0.75 * (1 - y) * p * p * std::log(1 - p);
}

enum class Kind { real, probability, positive, label, sign, distribution, log_distribution, classes, list };

struct ReferenceCase {
  const char* loss;
  bool by_row;              // one term per row (else one per element)
  std::vector<Kind> kinds;  // of the inputs; label, sign, classes and list are not varied
  Reference reference;
  LossOptionValues options = {};
};

const std::vector<ReferenceCase>& cases() {
  using enum Kind;
  static const std::vector<ReferenceCase> table{
      {"mse_loss", false, {real, real}, [](const Rows& r) { return std::pow(r[0][0] - r[1][0], 2); }},
      {"l1_loss", false, {real, real}, [](const Rows& r) { return std::abs(r[0][0] - r[1][0]); }},
      {"smooth_l1_loss",
       false,
       {real, real},
       [](const Rows& r) {
         const double d = std::abs(r[0][0] - r[1][0]);
         return d < 0.5 ? d * d : d - 0.25;
       },
       {{"beta", 0.5}}},
      {"huber_loss",
       false,
       {real, real},
       [](const Rows& r) {
         const double d = std::abs(r[0][0] - r[1][0]);
         return d <= 0.7 ? d * d / 2 : 0.7 * (d - 0.35);
       },
       {{"delta", 0.7}}},
      {"nll_loss", true, {log_distribution, classes}, [](const Rows& r) { return -r[0][index_of(r[1][0])]; }},
      {"cross_entropy",
       true,
       {real, classes},
       [](const Rows& r) { return log_sum_exp(r[0]) - r[0][index_of(r[1][0])]; }},
      {"cross_entropy",
       true,
       {real, classes},
       [](const Rows& r) {
         double smooth = 0;
         for (double x : r[0]) smooth += (log_sum_exp(r[0]) - x) / static_cast<double>(r[0].size());
         const double lse = log_sum_exp(r[0]);
         return 0.8 * (lse - r[0][index_of(r[1][0])]) + 0.2 * smooth + 0.5 * lse * lse;
       },
       {{"label_smoothing", 0.2}, {"z_loss", 0.5}}},
      {"cross_entropy",
       true,
       {real, distribution},
       [](const Rows& r) {
         double total = 0;
         for (std::size_t c = 0; c < r[0].size(); ++c) total += r[1][c] * (log_sum_exp(r[0]) - r[0][c]);
         return total;
       }},
      {"softmax_focal_loss",
       true,
       {real, classes},
       [](const Rows& r) {
         const double l = r[0][index_of(r[1][0])] - log_sum_exp(r[0]);
         return -std::pow(1 - std::exp(l), 2) * l;
       }},
      {"binary_cross_entropy",
       false,
       {probability, probability},
       [](const Rows& r) { return -(r[1][0] * std::log(r[0][0]) + (1 - r[1][0]) * std::log(1 - r[0][0])); }},
      {"binary_cross_entropy_with_logits",
       false,
       {real, probability},
       [](const Rows& r) { return bce(r[0][0], r[1][0]); }},
      {"binary_cross_entropy_with_logits",
       false,
       {real, probability, positive, positive},
       [](const Rows& r) {
         const double y = r[1][0], w = r[2][0], q = r[3][0];
         return -w * (q * y * std::log(sigmoid(r[0][0])) + (1 - y) * std::log(sigmoid(-r[0][0])));
       }},
      {"multilabel_soft_margin_loss",
       true,
       {real, probability},
       [](const Rows& r) {
         double total = 0;
         for (std::size_t c = 0; c < r[0].size(); ++c) total += bce(r[0][c], r[1][c]);
         return total / static_cast<double>(r[0].size());
       }},
      {"sigmoid_focal_loss",
       false,
       {real, probability},
       [](const Rows& r) { return focal(sigmoid(r[0][0]), r[1][0]); }},
      {"asymmetric_loss",
       false,
       {real, probability},
       [](const Rows& r) {
         const double p = sigmoid(r[0][0]), q = std::max(p - 0.05, 0.0), y = r[1][0];
         return -y * (1 - p) * std::log(p) - (1 - y) * std::pow(q, 4) * std::log(1 - q);
       }},
      {"asymmetric_loss",
       false,
       {real, probability},
       [](const Rows& r) {
         const double p = sigmoid(r[0][0]), y = r[1][0];
         return -y * std::pow(1 - p, 0.5) * std::log(p) - (1 - y) * p * p * std::log(1 - p);
       },
       {{"gamma_pos", 0.5}, {"gamma_neg", 2.0}, {"clip", 0.0}}},
      {"focal_loss_on_probabilities",
       false,
       {probability, probability},
       [](const Rows& r) { return focal(r[0][0], r[1][0]); }},
      {"hinge_loss", false, {real, sign}, [](const Rows& r) { return std::max(0.0, 1 - r[0][0] * r[1][0]); }},
      {"hinge_embedding_loss",
       false,
       {positive, sign},
       [](const Rows& r) { return r[1][0] > 0 ? r[0][0] : std::max(0.0, 1 - r[0][0]); }},
      {"margin_ranking_loss",
       false,
       {real, real, sign},
       [](const Rows& r) { return std::max(0.0, 0.3 - r[2][0] * (r[0][0] - r[1][0])); },
       {{"margin", 0.3}}},
      {"soft_margin_loss",
       false,
       {real, sign},
       [](const Rows& r) { return std::log(1 + std::exp(-r[0][0] * r[1][0])); }},
      {"multi_margin_loss",
       true,
       {real, classes},
       [](const Rows& r) {
         double total = 0;
         for (std::size_t i = 0; i < r[0].size(); ++i) {
           if (i != index_of(r[1][0])) total += std::pow(std::max(0.0, 1 - r[0][index_of(r[1][0])] + r[0][i]), 2);
         }
         return total / static_cast<double>(r[0].size());
       },
       {{"p", 2.0}}},
      {"multilabel_margin_loss",
       true,
       {real, list},
       [](const Rows& r) {
         double total = 0;
         const auto end = std::find(r[1].begin(), r[1].end(), -1.0);
         for (auto y = r[1].begin(); y != end; ++y) {
           for (std::size_t i = 0; i < r[0].size(); ++i) {
             if (std::find(r[1].begin(), end, static_cast<double>(i)) != end) continue;
             total += std::max(0.0, 1 - r[0][index_of(*y)] + r[0][i]);
           }
         }
         return total / static_cast<double>(r[0].size());
       }},
      {"triplet_margin_loss",
       true,
       {real, real, real},
       [](const Rows& r) {
         const double far = std::min(distance(r[0], r[2], 2, 1e-6), distance(r[1], r[2], 2, 1e-6));
         return std::max(0.0, 1 + distance(r[0], r[1], 2, 1e-6) - far);
       },
       {{"swap", 1.0}}},
      {"triplet_margin_with_distance_loss",
       true,
       {real, real, real},
       [](const Rows& r) { return std::max(0.0, 1 + distance(r[0], r[1], 2, 1e-6) - distance(r[0], r[2], 2, 1e-6)); }},
      {"cosine_embedding_loss",
       true,
       {real, real, sign},
       [](const Rows& r) {
         const double c = dot(r[0], r[1]) / std::sqrt((dot(r[0], r[0]) + 1e-12) * (dot(r[1], r[1]) + 1e-12));
         return r[2][0] > 0 ? 1 - c : std::max(0.0, c + 0.5);
       },
       {{"margin", -0.5}}},
      {"cosine_similarity_loss",
       true,
       {real, real},
       [](const Rows& r) { return 1 - dot(r[0], r[1]) / std::sqrt(dot(r[0], r[0]) * dot(r[1], r[1])); }},
      {"kl_div", false, {real, probability}, [](const Rows& r) { return r[1][0] * (std::log(r[1][0]) - r[0][0]); }},
      {"kl_div",
       false,
       {real, real},
       [](const Rows& r) { return std::exp(r[1][0]) * (r[1][0] - r[0][0]); },
       {{"log_target", 1.0}}},
      {"kl_divergence",
       true,
       {distribution, distribution},
       [](const Rows& r) {
         double total = 0;
         for (std::size_t i = 0; i < r[0].size(); ++i) total += r[0][i] * std::log(r[0][i] / r[1][i]);
         return total;
       }},
      {"poisson_nll_loss",
       false,
       {real, positive},
       [](const Rows& r) { return std::exp(r[0][0]) - r[1][0] * r[0][0]; }},
      {"poisson_nll_loss",
       false,
       {positive, positive},
       [](const Rows& r) {
         const double t = r[1][0], pi = std::acos(-1.0);
         const double stirling = t > 1 ? t * std::log(t) - t + 0.5 * std::log(2 * pi * t) : 0;
         return r[0][0] - t * std::log(r[0][0] + 1e-8) + stirling;
       },
       {{"log_input", 0.0}, {"full", 1.0}}},
      {"gaussian_nll_loss",
       false,
       {real, real, positive},
       [](const Rows& r) {
         return 0.5 * (std::log(r[2][0]) + std::pow(r[0][0] - r[1][0], 2) / r[2][0] + std::log(2 * std::acos(-1.0)));
       },
       {{"full", 1.0}}},
  };
  return table;
}

constexpr std::int64_t kSamples = 6, kColumns = 5;

bool moves(Kind k) { return k != Kind::label && k != Kind::sign && k != Kind::classes && k != Kind::list; }

Tensor make(Kind kind, bool by_row) {
  const Shape shape{kSamples, kColumns};
  const Tensor u = 0.05 + 0.9 * rand(shape, DType::f64), z = 1.5 * randn(shape, DType::f64);
  switch (kind) {
    case Kind::real:
      return z.eval();
    case Kind::probability:
      return u.eval();
    case Kind::positive:
      return (3 * u).eval();
    case Kind::label:
      return cast(u > 0.5, DType::f64).eval();
    case Kind::sign:
      return (2 * cast(by_row ? select(u, 1, 0) > 0.5 : u > 0.5, DType::f64) - 1).eval();
    case Kind::distribution:
      return softmax(0.5 * z).eval();  // no share so small that differences of 1/q lose their digits
    case Kind::log_distribution:
      return log_softmax(z).eval();
    case Kind::classes:
      return randint(0, kColumns, {kSamples}).eval();
    case Kind::list:
      return tensor(
          {{0, 2, -1, 3, 3}, {-1, 0, 0, 0, 0}, {4, 3, 2, 1, 0}, {1, -1, 2, -1, 2}, {2, 2, -1, 0, 0}, {4, 0, -1, 1, 1}});
  }
  return {};
}

// Losses whose terms are not per row or per element have their references in tests/losses_kernels.
const std::set<std::string_view> kElsewhere{"pinball_loss",      "log_cosh_loss",
                                            "wing_loss",         "poly_loss",
                                            "sparsemax_loss",    "listnet_loss",
                                            "perceptron_loss",   "jsd_loss",
                                            "tvd_loss",          "generalized_kl",
                                            "dice_loss",         "iou_loss",
                                            "tversky_loss",      "lovasz_hinge",
                                            "lovasz_softmax",    "info_nce",
                                            "nt_xent",           "supcon_loss",
                                            "arcface_loss",      "cosface_loss",
                                            "barlow_twins_loss", "vicreg_loss",
                                            "ctc_loss",          "rnnt_loss",
                                            "dpo_loss",          "ipo_loss",
                                            "kto_loss",          "orpo_loss",
                                            "simpo_loss",        "cpo_loss",
                                            "grpo_loss",         "linear_cross_entropy",
                                            "linear_dpo_loss",   "linear_ipo_loss",
                                            "linear_orpo_loss",  "linear_simpo_loss",
                                            "linear_cpo_loss",   "linear_kto_loss",
                                            "linear_grpo_loss",  "siglip_loss",
                                            "dft_loss",          "load_balancing_loss",
                                            "router_z_loss",     "linear_dft_loss",
                                            "linear_kl_loss",    "linear_jsd_loss"};

TEST(Reference, EveryLossHasOne) {
  for (const LossInfo& loss : loss_registry()) {
    const bool here =
        std::any_of(cases().begin(), cases().end(), [&](const ReferenceCase& c) { return c.loss == loss.name; });
    EXPECT_NE(here, kElsewhere.contains(loss.name)) << loss.name;
  }
}

TEST(Reference, ValuesAndGradientsOfEveryLoss) {
  for (const ReferenceCase& k : cases()) {
    std::uint64_t seed = 11;  // from the name: a new row does not change the numbers of the others
    for (const char* c = k.loss; *c; ++c) seed = seed * 31 + static_cast<unsigned char>(*c);
    manual_seed(seed);
    std::vector<Tensor> inputs, variables;
    std::vector<Row> numbers;
    for (Kind kind : k.kinds) {
      inputs.push_back(make(kind, k.by_row));
      variables.push_back(moves(kind) ? variable(inputs.back()) : inputs.back());
      numbers.push_back(inputs.back().to_vector());
    }
    LossOptionValues options = k.options;
    options["reduction"] = "none";
    const Tensor value = evaluate_loss(k.loss, variables, options);
    const std::int64_t terms = k.by_row ? kSamples : kSamples * kColumns;
    ASSERT_EQ(value.numel(), terms) << k.loss;
    const Tensor cotangent = randn(value.shape(), DType::f64).eval();
    const Gradients gradients = backward(value, {.grad = cotangent});
    const std::vector<double> got = value.to_vector(), g = cotangent.to_vector();

    for (std::int64_t t = 0; t < terms; ++t) {
      Rows rows;
      std::vector<std::size_t> first;  // where the row begins in its input
      for (const Row& all : numbers) {
        const std::size_t width = all.size() / static_cast<std::size_t>(terms);
        first.push_back(static_cast<std::size_t>(t) * width);
        rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(first.back()),
                          all.begin() + static_cast<std::ptrdiff_t>(first.back() + width));
      }
      const double expected = k.reference(rows);
      EXPECT_NEAR(got[static_cast<std::size_t>(t)], expected, 1e-12 * (1 + std::abs(expected)))
          << k.loss << " term " << t;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!moves(k.kinds[i])) continue;
        const std::vector<double> analytic = gradients[variables[i]].to_vector();
        for (std::size_t j = 0; j < rows[i].size(); ++j) {
          const double h = 6e-6, at = rows[i][j];
          rows[i][j] = at + h;
          const double up = k.reference(rows);
          rows[i][j] = at - h;
          const double down = k.reference(rows);
          rows[i][j] = at;
          const double numeric = g[static_cast<std::size_t>(t)] * (up - down) / (2 * h);
          EXPECT_NEAR(analytic[first[i] + j], numeric, 1e-6 * (1 + std::abs(numeric)))
              << k.loss << " term " << t << ", input " << i << "[" << j << "]";
        }
      }
    }
    // mean and sum are the mean and the sum of these terms
    double total = 0;
    for (double v : got) total += v;
    options["reduction"] = "sum";
    EXPECT_NEAR(evaluate_loss(k.loss, inputs, options).item(), total, 1e-10) << k.loss;
    options["reduction"] = "mean";
    EXPECT_NEAR(evaluate_loss(k.loss, inputs, options).item(), total / static_cast<double>(terms), 1e-10) << k.loss;
  }
}

}  // namespace
}  // namespace ebb
