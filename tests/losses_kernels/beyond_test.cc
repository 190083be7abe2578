// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ebb/losses.h"
#include "expect_error.h"
#include "losses_kernels/numbers.h"

// The losses beyond PyTorch's: each against a definition written here with plain loops, against differences of first
// and second order, in every dtype and reduction.
namespace ebb {
namespace {

using testing::classes;
using testing::expect_near;
using testing::positive;
using testing::values;
using Doubles = std::vector<double>;
using LossBeyond = std::function<Tensor(const std::vector<Tensor>&, Reduction)>;
using Reference = std::function<Doubles(const std::vector<Doubles>&)>;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double log_sum_exp(const Doubles& x) {
  const double most = *std::max_element(x.begin(), x.end());
  double total = 0;
  for (double v : x) total += std::exp(v - most);
  return most + std::log(total);
}
Doubles unit(const double* x, int n) {
  double square = 0;
  for (int i = 0; i < n; ++i) square += x[i] * x[i];
  Doubles out(x, x + n);
  for (double& v : out) v /= std::sqrt(square);
  return out;
}
double dot_of(const Doubles& a, const Doubles& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}
Doubles elementwise(const std::vector<Doubles>& in, const std::function<double(double, double)>& f) {
  Doubles out;
  for (std::size_t i = 0; i < in[0].size(); ++i) out.push_back(f(in[0][i], in[1][i]));
  return out;
}
// One term of f(row of the first, row of the second) for rows of n.
Doubles by_rows(const std::vector<Doubles>& in, std::size_t n,
                const std::function<double(const double*, const double*, std::size_t)>& f) {
  Doubles out;
  for (std::size_t r = 0; r * n < in[0].size(); ++r) out.push_back(f(&in[0][r * n], &in[1][r * n], r));
  return out;
}

struct BeyondCase {
  const char* name;
  std::vector<Tensor> inputs;  // differentiable
  LossBeyond loss;
  Reference terms;  // what reduction none gives
};

// The Lovász extension: errors in descending order, each multiplied by the growth of the Jaccard loss.
double lovasz(const Doubles& errors, const std::vector<int>& truth) {
  std::vector<std::size_t> order(errors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return errors[a] > errors[b]; });
  double all = 0, loss = 0, before = 0, hits = 0, misses = 0;
  for (int t : truth) all += t;
  for (std::size_t i : order) {
    truth[i] ? hits += 1 : misses += 1;
    const double jaccard = 1 - (all - hits) / (all + misses);
    loss += errors[i] * (jaccard - before);
    before = jaccard;
  }
  return loss;
}

double sparsemax_reference(const double* x, std::size_t n, std::size_t y) {
  Doubles z(x, x + n);
  std::sort(z.rbegin(), z.rend());
  double sum = 0, threshold = 0;
  std::size_t k = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += z[i];
    if (1 + static_cast<double>(i + 1) * z[i] > sum) {
      k = i + 1;
      threshold = (sum - 1) / static_cast<double>(k);
    }
  }
  double loss = 0.5 - x[y];
  for (std::size_t i = 0; i < k; ++i) loss += 0.5 * (z[i] * z[i] - threshold * threshold);
  return loss;
}

std::vector<std::size_t> targets_of(std::int64_t n, std::int64_t count) {
  const auto v = classes(n, count).to_vector<std::int64_t>();
  return {v.begin(), v.end()};
}

std::vector<BeyondCase> cases() {
  const Tensor x = values({4, 6}, 1, 2), y = values({4, 6}, 2, 2), p = positive({4, 6}, 3), q = positive({4, 6}, 4);
  const Tensor mask = cast(values({4, 6}, 5) > 0, DType::f64), label = classes(4, 6);
  const Tensor one = values({6}, 6) - 2, two = values({6}, 7) - 2, three = values({6}, 8) - 2,
               four = values({6}, 9) - 2;
  const std::vector<std::size_t> target = targets_of(4, 6);
  std::vector<BeyondCase> all;

  // robust
  for (double quantile : {0.1, 0.5, 0.9})
    all.push_back(
        {"pinball_loss",
         {x, y},
         [=](const auto& v, Reduction r) { return pinball_loss(v[0], v[1], {.quantile = quantile, .reduction = r}); },
         [=](const auto& v) {
           return elementwise(
               v, [=](double a, double b) { return std::max(quantile * (b - a), (quantile - 1) * (b - a)); });
         }});
  all.push_back(
      {"log_cosh_loss",
       {x, y},
       [](const auto& v, Reduction r) { return log_cosh_loss(v[0], v[1], {.reduction = r}); },
       [](const auto& v) { return elementwise(v, [](double a, double b) { return std::log(std::cosh(a - b)); }); }});
  all.push_back({"wing_loss",
                 {x, y},
                 [](const auto& v, Reduction r) {
                   return wing_loss(v[0], v[1], {.width = 1.3, .curvature = 0.4, .reduction = r});
                 },
                 [](const auto& v) {
                   return elementwise(v, [](double a, double b) {
                     const double d = std::fabs(a - b), c = 1.3 - 1.3 * std::log(1 + 1.3 / 0.4);
                     return d < 1.3 ? 1.3 * std::log(1 + d / 0.4) : d - c;
                   });
                 }});
  // divergences
  const Tensor log_p = log_softmax(x, -1), log_q = log_softmax(y, -1);
  all.push_back({"jsd_loss",
                 {log_p, log_q},
                 [](const auto& v, Reduction r) { return jsd_loss(v[0], v[1], {.beta = 0.3, .reduction = r}); },
                 [](const auto& v) {
                   return by_rows(v, 6, [](const double* a, const double* b, std::size_t) {
                     double total = 0;
                     for (int i = 0; i < 6; ++i) {
                       const double pi = std::exp(a[i]), qi = std::exp(b[i]), m = 0.3 * qi + 0.7 * pi;
                       total += 0.3 * qi * std::log(qi / m) + 0.7 * pi * std::log(pi / m);
                     }
                     return total;
                   });
                 }});
  all.push_back({"tvd_loss",
                 {p, q},
                 [](const auto& v, Reduction r) { return tvd_loss(v[0], v[1], {.reduction = r}); },
                 [](const auto& v) {
                   return by_rows(v, 6, [](const double* a, const double* b, std::size_t) {
                     double total = 0;
                     for (int i = 0; i < 6; ++i) total += 0.5 * std::fabs(a[i] - b[i]);
                     return total;
                   });
                 }});
  all.push_back(
      {"generalized_kl",
       {p, q},
       [](const auto& v, Reduction r) { return generalized_kl(v[0], v[1], {.reduction = r}); },
       [](const auto& v) { return elementwise(v, [](double a, double b) { return b * std::log(b / a) - b + a; }); }});
  // scores
  all.push_back({"poly_loss",
                 {x},
                 [=](const auto& v, Reduction r) { return poly_loss(v[0], label, {.epsilon = 0.7, .reduction = r}); },
                 [=](const auto& v) {
                   return by_rows({v[0], v[0]}, 6, [=](const double* a, const double*, std::size_t r) {
                     const double l = a[target[r]] - log_sum_exp(Doubles(a, a + 6));
                     return -l + 0.7 * (1 - std::exp(l));
                   });
                 }});
  all.push_back({"sparsemax_loss",
                 {x},
                 [=](const auto& v, Reduction r) { return sparsemax_loss(v[0], label, {.reduction = r}); },
                 [=](const auto& v) {
                   return by_rows({v[0], v[0]}, 6, [=](const double* a, const double*, std::size_t r) {
                     return sparsemax_reference(a, 6, target[r]);
                   });
                 }});
  all.push_back({"listnet_loss",
                 {x, y},
                 [](const auto& v, Reduction r) { return listnet_loss(v[0], v[1], {.reduction = r}); },
                 [](const auto& v) {
                   return by_rows(v, 6, [](const double* a, const double* b, std::size_t) {
                     const double la = log_sum_exp(Doubles(a, a + 6)), lb = log_sum_exp(Doubles(b, b + 6));
                     double total = 0;
                     for (int i = 0; i < 6; ++i) total -= std::exp(b[i] - lb) * (a[i] - la);
                     return total;
                   });
                 }});
  const Tensor sign = cast(2 * mask - 1, DType::i64);  // integers follow the input's dtype
  all.push_back(
      {"perceptron_loss",
       {x},
       [=](const auto& v, Reduction r) { return perceptron_loss(v[0], sign, {.reduction = r}); },
       [=](const auto& v) {
         return elementwise({v[0], sign.to_vector()}, [](double a, double s) { return std::max(0.0, -s * a); });
       }});
  // overlap
  const auto overlap = [](auto fraction) {
    return [fraction](const std::vector<Doubles>& v) {
      return by_rows(v, 6, [fraction](const double* a, const double* b, std::size_t) {
        double both = 0, sa = 0, sb = 0;
        for (int i = 0; i < 6; ++i) {
          both += a[i] * b[i];
          sa += a[i];
          sb += b[i];
        }
        return 1 - fraction(both, sa, sb);
      });
    };
  };
  all.push_back({"dice_loss",
                 {p, q},
                 [](const auto& v, Reduction r) { return dice_loss(v[0], v[1], {.smooth = 0.5, .reduction = r}); },
                 overlap([](double both, double a, double b) { return (2 * both + 0.5) / (a + b + 0.5); })});
  all.push_back({"iou_loss",
                 {p, q},
                 [](const auto& v, Reduction r) { return iou_loss(v[0], v[1], {.reduction = r}); },
                 overlap([](double both, double a, double b) { return (both + 1) / (a + b - both + 1); })});
  all.push_back(
      {"tversky_loss",
       {p, q},
       [](const auto& v, Reduction r) { return tversky_loss(v[0], v[1], {.alpha = 0.3, .beta = 0.7, .reduction = r}); },
       overlap([](double both, double a, double b) {
         return (both + 1) / (both + 0.3 * (a - both) + 0.7 * (b - both) + 1);
       })});
  all.push_back({"lovasz_hinge",
                 {x},
                 [=](const auto& v, Reduction r) { return lovasz_hinge(v[0], mask, {.reduction = r}); },
                 [=](const auto& v) {
                   const Doubles t = mask.to_vector();
                   return by_rows({v[0], t}, 6, [](const double* a, const double* b, std::size_t) {
                     Doubles errors;
                     std::vector<int> truth;
                     for (int i = 0; i < 6; ++i) {
                       errors.push_back(std::max(0.0, 1 - a[i] * (2 * b[i] - 1)));
                       truth.push_back(b[i] > 0.5);
                     }
                     return lovasz(errors, truth);
                   });
                 }});
  const Tensor pixels = softmax(2 * sin(values({2, 3, 5}, 4, 7)), 1), map = reshape(classes(10, 3), {2, 5});
  all.push_back({"lovasz_softmax",
                 {pixels},
                 [=](const auto& v, Reduction r) { return lovasz_softmax(v[0], map, {.reduction = r}); },
                 [=](const auto& v) {
                   const auto at = map.template to_vector<std::int64_t>();
                   Doubles out;
                   for (int c = 0; c < 3; ++c) {
                     Doubles errors;
                     std::vector<int> truth;
                     for (std::size_t n = 0; n < 2; ++n) {
                       for (std::size_t i = 0; i < 5; ++i) {
                         truth.push_back(at[n * 5 + i] == c);
                         errors.push_back(
                             std::fabs(truth.back() - v[0][(n * 3 + static_cast<std::size_t>(c)) * 5 + i]));
                       }
                     }
                     out.push_back(lovasz(errors, truth));
                   }
                   return out;
                 }});
  // embeddings
  all.push_back({"info_nce",
                 {x, y},
                 [](const auto& v, Reduction r) { return info_nce(v[0], v[1], {.temperature = 0.4, .reduction = r}); },
                 [](const auto& v) {
                   return by_rows(v, 6, [&v](const double* a, const double*, std::size_t r) {
                     Doubles s;
                     for (std::size_t j = 0; j < 4; ++j) s.push_back(dot_of(unit(a, 6), unit(&v[1][j * 6], 6)) / 0.4);
                     return log_sum_exp(s) - s[r];
                   });
                 }});
  all.push_back({"siglip_loss",
                 {x, y, tensor(4.0, DType::f64), tensor(-1.5, DType::f64)},
                 [](const auto& v, Reduction r) {
                   return siglip_loss(v[0], v[1], {.scale = v[2], .bias = v[3], .reduction = r});
                 },
                 [](const auto& v) {
                   return by_rows({v[0], v[1]}, 6, [&v](const double* a, const double*, std::size_t r) {
                     double term = 0;
                     for (std::size_t j = 0; j < 4; ++j) {
                       const double z = v[2][0] * dot_of(unit(a, 6), unit(&v[1][j * 6], 6)) + v[3][0];
                       term += std::log1p(std::exp(j == r ? -z : z));
                     }
                     return term;
                   });
                 }});
  all.push_back({"nt_xent",
                 {x, y},
                 [](const auto& v, Reduction r) { return nt_xent(v[0], v[1], {.temperature = 0.4, .reduction = r}); },
                 [](const auto& v) {
                   Doubles out;
                   const auto row = [&v](std::size_t i) { return unit(&v[i / 4][i % 4 * 6], 6); };
                   for (std::size_t i = 0; i < 8; ++i) {
                     Doubles s;
                     for (std::size_t j = 0; j < 8; ++j)
                       if (j != i) s.push_back(dot_of(row(i), row(j)) / 0.4);
                     out.push_back(log_sum_exp(s) - dot_of(row(i), row((i + 4) % 8)) / 0.4);
                   }
                   return out;
                 }});
  const Tensor groups = tensor({0, 1, 0, 2});
  all.push_back({"supcon_loss",
                 {x},
                 [=](const auto& v, Reduction r) {
                   // Rows without a partner do not count: the mean is over two of the four.
                   const Tensor rows = supcon_loss(v[0], groups, {.temperature = 0.4, .reduction = r});
                   return r == Reduction::mean ? rows * 0.5 : rows;
                 },
                 [](const auto& v) {
                   Doubles out;
                   const int group[] = {0, 1, 0, 2};
                   for (std::size_t i = 0; i < 4; ++i) {
                     Doubles s, right;
                     for (std::size_t j = 0; j < 4; ++j) {
                       if (j == i) continue;
                       s.push_back(dot_of(unit(&v[0][i * 6], 6), unit(&v[0][j * 6], 6)) / 0.4);
                       if (group[i] == group[j]) right.push_back(s.back());
                     }
                     double term = 0;
                     for (double z : right) term += (log_sum_exp(s) - z) / static_cast<double>(right.size());
                     out.push_back(term);
                   }
                   return out;
                 }});
  const auto face = [=](auto harder, double scale) {
    return [=](const std::vector<Doubles>& v) {
      return by_rows({v[0], v[0]}, 6, [&](const double* a, const double*, std::size_t r) {
        Doubles s;
        for (std::size_t c = 0; c < 6; ++c) s.push_back(dot_of(unit(a, 6), unit(&v[1][c * 6], 6)));
        s[target[r]] = harder(s[target[r]]);
        for (double& z : s) z *= scale;
        return log_sum_exp(s) - s[target[r]];
      });
    };
  };
  const Tensor centres = values({6, 6}, 8);
  all.push_back({"arcface_loss",
                 {x, centres},
                 [=](const auto& v, Reduction r) {
                   return arcface_loss(v[0], v[1], label, {.margin = 0.3, .scale = 4, .reduction = r});
                 },
                 face([](double c) { return std::cos(std::acos(c) + 0.3); }, 4)});
  all.push_back({"cosface_loss",
                 {x, centres},
                 [=](const auto& v, Reduction r) {
                   return cosface_loss(v[0], v[1], label, {.margin = 0.2, .scale = 4, .reduction = r});
                 },
                 face([](double c) { return c - 0.2; }, 4)});
  // preferences
  all.push_back({"dpo_loss",
                 {one, two, three, four},
                 [](const auto& v, Reduction r) {
                   return dpo_loss(v[0], v[1], v[2], v[3], {.beta = 0.7, .label_smoothing = 0.1, .reduction = r});
                 },
                 [](const auto& v) {
                   Doubles out;
                   for (std::size_t i = 0; i < 6; ++i) {
                     const double h = 0.7 * (v[0][i] - v[1][i] - v[2][i] + v[3][i]);
                     out.push_back(-0.9 * std::log(sigmoid_of(h)) - 0.1 * std::log(sigmoid_of(-h)));
                   }
                   return out;
                 }});
  all.push_back(
      {"ipo_loss",
       {one, two, three, four},
       [](const auto& v, Reduction r) { return ipo_loss(v[0], v[1], v[2], v[3], {.beta = 0.7, .reduction = r}); },
       [](const auto& v) {
         Doubles out;
         for (std::size_t i = 0; i < 6; ++i)
           out.push_back(std::pow(v[0][i] - v[1][i] - v[2][i] + v[3][i] - 1 / 1.4, 2));
         return out;
       }});
  const Tensor good = values({6}, 5) > 0;
  all.push_back(
      {"kto_loss",
       {one, two},
       [=](const auto& v, Reduction r) {
         return kto_loss(
             v[0], v[1], good,
             {.beta = 0.7, .desirable_weight = 1.2, .undesirable_weight = 0.8, .kl = tensor(0.2), .reduction = r});
       },
       [=](const auto& v) {
         const auto wanted = good.template to_vector<std::int64_t>();
         Doubles out;
         for (std::size_t i = 0; i < 6; ++i) {
           const double h = 0.7 * (v[0][i] - v[1][i] - static_cast<double>(0.2f));
           out.push_back(wanted[i] ? 1.2 * (1 - sigmoid_of(h)) : 0.8 * (1 - sigmoid_of(-h)));
         }
         return out;
       }});
  all.push_back({"orpo_loss",
                 {one, two},
                 [](const auto& v, Reduction r) { return orpo_loss(v[0], v[1], {.beta = 0.7, .reduction = r}); },
                 [](const auto& v) {
                   return elementwise(v, [](double c, double r) {
                     const auto odds = [](double l) { return std::exp(l) / (1 - std::exp(l)); };
                     return -c - 0.7 * std::log(sigmoid_of(std::log(odds(c) / odds(r))));
                   });
                 }});
  all.push_back({"simpo_loss",
                 {one, two},
                 [](const auto& v, Reduction r) { return simpo_loss(v[0], v[1], {.reduction = r}); },
                 [](const auto& v) {
                   return elementwise(v, [](double c, double r) { return -std::log(sigmoid_of(2 * (c - r) - 1)); });
                 }});
  all.push_back({"cpo_loss",
                 {one, two},
                 [](const auto& v, Reduction r) { return cpo_loss(v[0], v[1], {.reduction = r}); },
                 [](const auto& v) {
                   return elementwise(v, [](double c, double r) { return -std::log(sigmoid_of(0.1 * (c - r))) - c; });
                 }});
  const Tensor old = x + 0.3 * y, reference = x + 0.2 * p, advantages = values({4}, 3);
  all.push_back({"grpo_loss",
                 {x, advantages},
                 [=](const auto& v, Reduction r) {
                   return grpo_loss(
                       v[0], v[1], {.beta = 0.3, .old = old, .reference = reference, .by_token = true, .reduction = r});
                 },
                 [=](const auto& v) {
                   const Doubles o = old.to_vector(), f = reference.to_vector();
                   Doubles out;
                   for (std::size_t i = 0; i < 24; ++i) {
                     const double ratio = std::exp(v[0][i] - o[i]), a = v[1][i / 6], d = f[i] - v[0][i];
                     const double clipped = std::min(std::max(ratio, 0.8), 1.2);
                     out.push_back(-std::min(ratio * a, clipped * a) + 0.3 * (std::exp(d) - d - 1));
                   }
                   return out;
                 }});
  return all;
}

TEST(Beyond, ValuesAreTheirDefinitionsInEveryReductionAndDtype) {
  for (const BeyondCase& c : cases()) {
    for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      SCOPED_TRACE(std::string(c.name) + " " + std::string(name(dtype)));
      std::vector<Tensor> in;
      std::vector<Doubles> numbers;
      for (const Tensor& x : c.inputs) {
        in.push_back(cast(x, dtype));
        numbers.push_back(in.back().to_vector());
      }
      const double tolerance = dtype == DType::f64   ? 1e-12
                               : dtype == DType::f32 ? 1e-5
                               : dtype == DType::f16 ? 1e-2
                                                     : 2e-2;
      const Doubles terms = c.terms(numbers);
      double total = 0;
      for (double t : terms) total += t;
      const Tensor none = c.loss(in, Reduction::none);
      EXPECT_EQ(none.dtype(), dtype);
      expect_near(none, terms, tolerance);
      expect_near(c.loss(in, Reduction::sum), {total}, tolerance);
      expect_near(c.loss(in, Reduction::mean), {total / static_cast<double>(terms.size())}, tolerance);
      if (std::string(c.name) != "jsd_loss" && std::string(c.name) != "tvd_loss" &&
          std::string(c.name) != "generalized_kl") {
        EXPECT_THROW_MESSAGE(c.loss(in, Reduction::batchmean), "batchmean");
      }
    }
  }
}

TEST(Beyond, GradientsAreThoseOfDifferencesOnceAndTwice) {
  for (const BeyondCase& c : cases()) {
    for (Reduction reduction : {Reduction::mean, Reduction::none}) {
      SCOPED_TRACE(c.name);
      const auto f = [&](const std::vector<Tensor>& v) { return c.loss(v, reduction); };
      try {
        require_gradients(f, c.inputs);
        require_second_gradients(f, c.inputs);
      } catch (const Error& e) {
        ADD_FAILURE() << c.name << "\n" << e.what();
      }
    }
  }
}

TEST(Beyond, BitsDoNotDependOnThreads) {
  for (const BeyondCase& c : cases()) {
    SCOPED_TRACE(c.name);
    testing::expect_same_for_all_threads([&]() -> std::vector<Tensor> {
      std::vector<Tensor> in;
      for (const Tensor& x : c.inputs) in.push_back(variable(cast(x, DType::f32)));
      const Tensor loss = c.loss(in, Reduction::mean);
      const Gradients g = backward(loss);
      return {loss, g[in[0]]};
    });
  }
}

TEST(Beyond, NothingGivesNaNOrZero) {
  const Tensor none = zeros({0, 6}, DType::f64), line = zeros({0}, DType::f64), labels = zeros({0}, DType::i64);
  const auto check = [](const char* name, const std::function<Tensor(Reduction)>& f) {
    EXPECT_TRUE(std::isnan(f(Reduction::mean).item())) << name;
    EXPECT_EQ(f(Reduction::sum).item(), 0) << name;
  };
  check("pinball", [&](Reduction r) { return pinball_loss(none, none, {.reduction = r}); });
  check("wing", [&](Reduction r) { return wing_loss(none, none, {.reduction = r}); });
  check("jsd", [&](Reduction r) { return jsd_loss(none, none, {.reduction = r}); });
  check("dice", [&](Reduction r) { return dice_loss(none, none, {.reduction = r}); });
  check("lovasz_hinge", [&](Reduction r) { return lovasz_hinge(none, none, {.reduction = r}); });
  check("poly", [&](Reduction r) { return poly_loss(none, labels, {.reduction = r}); });
  check("sparsemax", [&](Reduction r) { return sparsemax_loss(none, labels, {.reduction = r}); });
  check("listnet", [&](Reduction r) { return listnet_loss(none, none, {.reduction = r}); });
  check("dpo", [&](Reduction r) { return dpo_loss(line, line, line, line, {.reduction = r}); });
}

TEST(Beyond, ExtremeInputsAreFiniteWhereMathematicsIs) {
  const Tensor far = from_data({-1e4, 0.0, 1e4}, {3}), zero = zeros({3}, DType::f64);
  expect_near(log_cosh_loss(far, zero, {.reduction = Reduction::none}), {1e4 - std::log(2.0), 0, 1e4 - std::log(2.0)},
              1e-14);
  expect_near(log_cosh_loss(full({1}, 1e-9, DType::f64), zeros({1}, DType::f64)), {5e-19}, 1e-30);
  // A distribution with zeros: log 0 = −inf on both sides.
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor a = variable(from_data({0.0, -inf, -inf}, {1, 3})), b = from_data({-inf, 0.0, -inf}, {1, 3});
  const Tensor apart = jsd_loss(a, b);
  EXPECT_NEAR(apart.item(), std::log(2.0), 1e-15);
  for (double g : backward(apart)[a].to_vector()) EXPECT_FALSE(std::isnan(g));
  // Sparsemax stops at a lead of one; scores of ±1e4 are no problem.
  EXPECT_EQ(sparsemax_loss(from_data({3.0, 1.0, -1e4}, {1, 3}), tensor({0})).item(), 0);
  EXPECT_NEAR(sparsemax_loss(from_data({-1e4, 1e4}, {1, 2}), tensor({0})).item(), 2e4, 1e-8);
  expect_near(dpo_loss(far, zero, zero, zero, {.beta = 1, .reduction = Reduction::none}), {1e4, std::log(2.0), 0},
              1e-14);
  EXPECT_EQ(generalized_kl(zero, zero).item(), 0);
  // The two views agree and no feature varies: no NaN from the roots.
  const Tensor same = variable(ones({3, 2}, DType::f64));
  const Tensor flat = vicreg_loss(same, same) + barlow_twins_loss(same, same);
  EXPECT_TRUE(std::isfinite(flat.item()));
  for (double g : backward(flat)[same].to_vector()) EXPECT_TRUE(std::isfinite(g));
}

// Rows with few and with many classes in the support, along either axis; its gradient is sparsemax less one at the
// target.
TEST(Beyond, SparsemaxOfLongRows) {
  const std::int64_t n = 1003;
  for (DType dtype : {DType::f32, DType::f64}) {
    for (double spread : {0.0, 1e-3, 1.0, 30.0}) {
      const Tensor x = cast(spread * values({4, n}, 11) + 5, dtype).eval(), label = classes(4, n);
      Doubles z = x.to_vector();
      for (double& v : z) v -= 5;  // changes nothing, and keeps the digits of the squares
      const std::vector<std::size_t> target = targets_of(4, n);
      Doubles expected;
      for (std::size_t r = 0; r < 4; ++r) expected.push_back(sparsemax_reference(&z[r * n], n, target[r]));
      const double near = dtype == DType::f64 ? 1e-12 : 1e-5;
      const Tensor v = variable(x), loss = sparsemax_loss(v, label, {.reduction = Reduction::none});
      const Tensor g = backward(sum(loss))[v];
      expect_near(loss, expected, near * (1 + spread));
      const Doubles gradient = g.to_vector();
      for (std::size_t r = 0; r < 4; ++r) {
        double total = 0;
        for (std::size_t i = 0; i < n; ++i) {
          const double share = gradient[r * n + i] + (i == target[r] ? 1 : 0);
          EXPECT_GE(share, -near);
          total += share;
        }
        EXPECT_NEAR(total, 1, near);
      }
      const Tensor columns = reshape(transpose(x, 0, 1), {1, n, 4});
      expect_near(sparsemax_loss(columns, reshape(label, {1, 4}), {.reduction = Reduction::none}), expected,
                  near * (1 + spread));
    }
  }
  EXPECT_TRUE(std::isnan(sparsemax_loss(from_data({0.0, std::nan(""), 1.0}, {1, 3}), tensor({0})).item()));
}

TEST(Beyond, StatisticsOfFeatures) {
  const Tensor a = values({5, 3}, 1), b = values({5, 3}, 2);
  const Doubles x = a.to_vector(), y = b.to_vector();
  const auto column = [](const Doubles& v, int c, bool standard, double eps) {
    Doubles out;
    double mean = 0, var = 0;
    for (int r = 0; r < 5; ++r) mean += v[static_cast<std::size_t>(r * 3 + c)] / 5;
    for (int r = 0; r < 5; ++r) out.push_back(v[static_cast<std::size_t>(r * 3 + c)] - mean);
    for (double d : out) var += d * d / 5;
    if (standard)
      for (double& d : out) d /= std::sqrt(var + eps);
    return out;
  };
  double twins = 0, vic = 0;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      const double c = dot_of(column(x, i, true, 1e-5), column(y, j, true, 1e-5)) / 5;
      twins += i == j ? (c - 1) * (c - 1) : 5e-3 * c * c;
      for (const Doubles* v : {&x, &y}) {
        const double cov = dot_of(column(*v, i, false, 0), column(*v, j, false, 0)) / 4;
        vic += i == j ? 25.0 / 2 / 3 * std::max(0.0, 1 - std::sqrt(cov + 1e-4)) : cov * cov / 3;
      }
    }
  }
  for (std::size_t k = 0; k < 15; ++k) vic += 25 * (x[k] - y[k]) * (x[k] - y[k]) / 15;
  EXPECT_NEAR(barlow_twins_loss(a, b).item(), twins, 1e-12);
  EXPECT_NEAR(vicreg_loss(a, b).item(), vic, 1e-12);
  require_gradients([](const auto& v) { return barlow_twins_loss(v[0], v[1]); }, {a, b});
  require_second_gradients([](const auto& v) { return barlow_twins_loss(v[0], v[1]); }, {a, b});
  require_gradients([](const auto& v) { return vicreg_loss(v[0], v[1]); }, {a, b});
  require_second_gradients([](const auto& v) { return vicreg_loss(v[0], v[1]); }, {a, b});
}

TEST(Beyond, FusedLinearFormsAreTheLossesOfTheirLogProbabilities) {
  const Tensor x = values({4, 3, 5}, 1), head = values({8, 5}, 2);
  const Tensor target = reshape(where(arange(12) == 7, -100, classes(12, 8)), {4, 3});
  const Tensor l = log_softmax(matmul(x, t(head)), -1);
  const Tensor kept = target != -100;
  const Tensor token = where(kept, squeeze(gather(l, -1, unsqueeze(where(kept, target, 0), -1)), -1), 0);
  const Tensor total = sum(token, -1), average = total / sum(cast(kept, DType::f64), -1), ref = values({4}, 3);
  const auto first = [](const Tensor& v) { return narrow(v, 0, 0, 2); };
  const auto last = [](const Tensor& v) { return narrow(v, 0, 2, 2); };
  EXPECT_NEAR(linear_dpo_loss(x, head, target, ref).item(),
              dpo_loss(first(total), last(total), first(ref), last(ref)).item(), 1e-13);
  EXPECT_NEAR(linear_ipo_loss(x, head, target, ref).item(),
              ipo_loss(first(total), last(total), first(ref), last(ref)).item(), 1e-12);
  EXPECT_NEAR(linear_orpo_loss(x, head, target).item(), orpo_loss(first(average), last(average)).item(), 1e-13);
  EXPECT_NEAR(linear_simpo_loss(x, head, target).item(), simpo_loss(first(average), last(average)).item(), 1e-13);
  EXPECT_NEAR(linear_cpo_loss(x, head, target).item(), cpo_loss(first(total), last(total)).item(), 1e-13);
  const Tensor good = tensor({true, false, false, true});
  EXPECT_NEAR(linear_kto_loss(x, head, target, ref, good).item(), kto_loss(total, ref, good).item(), 1e-13);
  const Tensor advantages = values({4}, 5);
  EXPECT_NEAR(linear_grpo_loss(x, head, target, advantages).item(), grpo_loss(token, advantages, {.mask = kept}).item(),
              1e-13);
  const auto dpo = [&](const std::vector<Tensor>& v) { return linear_dpo_loss(v[0], v[1], target, ref); };
  require_gradients(dpo, {x, head});
  require_second_gradients(dpo, {x, head});
  const Tensor old = token - 0.1;  // without it the ratio is 1 whatever x is, and differences see nothing
  require_gradients(
      [&](const std::vector<Tensor>& v) { return linear_grpo_loss(v[0], v[1], target, advantages, {.old = old}); },
      {x, head});
  // In bf16 only the loss is rounded: the log-probabilities of whole answers are not.
  const Tensor half = linear_dpo_loss(cast(x, DType::bf16), cast(head, DType::bf16), target, ref);
  const Tensor wide =
      linear_dpo_loss(cast(cast(x, DType::bf16), DType::f64), cast(cast(head, DType::bf16), DType::f64), target, ref);
  EXPECT_NEAR(half.item(), wide.item(), 0x1p-8 * wide.item());
}

TEST(Beyond, BackwardFunctionsAreWhatTheGraphUses) {
  const Tensor x = values({3, 4}, 1), y = values({3, 4}, 2), g = tensor(0.7, DType::f64);
  const Tensor vx = variable(x), vy = variable(y);
  const auto same = [&](const Tensor& loss, const Tensor& dx, const Tensor& dy) {
    const Gradients all = backward(loss, {.grad = g});
    expect_near(dx, all[vx].to_vector(), 1e-15);
    expect_near(dy, all[vy].to_vector(), 1e-15);
  };
  const LossGradients wing = wing_loss_backward(g, x, y);
  same(wing_loss(vx, vy), wing.input, wing.target);
  const std::vector<Tensor> nce = info_nce_backward(g, x, y);
  same(info_nce(vx, vy), nce[0], nce[1]);
  const std::vector<Tensor> cpo = cpo_loss_backward(g, x, y);
  same(cpo_loss(vx, vy), cpo[0], cpo[1]);
}

TEST(Beyond, NamesWhatIsWrong) {
  const Tensor x = values({3, 4}), y = values({3, 4}, 1);
  EXPECT_THROW_MESSAGE(pinball_loss(x, y, {.quantile = 2}), "quantile must be in [0, 1], got 2");
  EXPECT_THROW_MESSAGE(wing_loss(x, y, {.width = 0}), "width must be positive");
  EXPECT_THROW_MESSAGE(dice_loss(x, values({3, 5})), "must have the same shape");
  EXPECT_THROW_MESSAGE(dice_loss(x, y, {.kept_axes = 3}), "kept_axes must be in [0, 2]");
  EXPECT_THROW_MESSAGE(lovasz_hinge(x, y).eval(), "lovasz_hinge: target must be 0 or 1");
  EXPECT_THROW_MESSAGE(perceptron_loss(x, y).eval(), "perceptron_loss: target");
  EXPECT_THROW_MESSAGE(poly_loss(x, tensor({0, 1, 9})).eval(), "poly_loss: target[2] = 9");
  EXPECT_THROW_MESSAGE(arcface_loss(x, values({5, 4}), tensor({0, 1, 9})).eval(), "arcface_loss: target");
  EXPECT_THROW_MESSAGE(info_nce(x, y, {.temperature = 0}), "temperature must be positive");
  EXPECT_THROW_MESSAGE(supcon_loss(x, tensor({1, 2})), "labels of shape [2] do not fit 3 rows");
  EXPECT_THROW_MESSAGE(generalized_kl(x, y).eval(), "must not be negative");
  EXPECT_THROW_MESSAGE(jsd_loss(x, y, {.beta = 1}), "beta must be between 0 and 1");
  EXPECT_THROW_MESSAGE(dpo_loss(x, y, x, y, {.beta = -1}), "beta must be positive");
  EXPECT_THROW_MESSAGE(grpo_loss(x, values({4})), "advantages of shape [4] do not fit 3 answers");
  EXPECT_THROW_MESSAGE(vicreg_loss(values({1, 4}), values({1, 4})), "at least two");
  EXPECT_THROW_MESSAGE(linear_dpo_loss(values({3, 2, 4}), values({5, 4}), reshape(classes(6, 5), {3, 2}), values({4})),
                       "as many rejected answers as chosen");
}

}  // namespace
}  // namespace ebb
