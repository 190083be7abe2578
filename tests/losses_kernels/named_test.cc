// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <limits>

#include "ebb/losses.h"
#include "ebb/losses/registry.h"
#include "expect_error.h"
#include "losses_kernels/numbers.h"

// Losses with established names: the GRPO family, dynamic fine-tuning, divergences of two heads, routers of experts,
// weights of tokens. Definitions are written out in f64.
namespace ebb {
namespace {

using testing::classes;
using testing::expect_near;
using testing::values;
using Doubles = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
double tolerance_of(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 2e-2 : 1e-1;
}

// ---- the GRPO family ------------------------------------------------------------------------------------------------

constexpr std::size_t kB = 4, kT = 6;

struct Policy {
  Tensor policy = values({kB, kT}, 1), old = policy + values({kB, kT}, 2, 0.6),
         reference = policy + values({kB, kT}, 3, 0.5), advantages = values({kB}, 4);
  Tensor mask = reshape(remainder(arange(kB * kT), 5) != 3, {kB, kT});
};

// A term per token, 0 if it is ignored, and their reduction by `mean`; as in TRL.
struct Definition {
  Doubles terms;
  double mean = 0;
};
Definition definition(GrpoLossType type, const Policy& in, double beta, double delta) {
  const Doubles l = in.policy.to_vector(), o = in.old.to_vector(), f = in.reference.to_vector(),
                a = in.advantages.to_vector(), kept = in.mask.to_vector();
  const bool of_answer = type == GrpoLossType::gspo || type == GrpoLossType::luspo;
  Definition d;
  double all = 0, by_answer = 0, by_sum = 0, count = 0;
  for (std::size_t b = 0; b < kB; ++b) {
    double n = 0, mean_ratio = 0, sum = 0;
    for (std::size_t k = b * kT; k < (b + 1) * kT; ++k) {
      n += kept[k];
      mean_ratio += kept[k] * (l[k] - o[k]);
    }
    for (std::size_t k = b * kT; k < (b + 1) * kT; ++k) {
      const double ratio = std::exp(of_answer ? mean_ratio / n : l[k] - o[k]), r = f[k] - l[k];
      double term = 0;
      if (type == GrpoLossType::cispo) {
        term = -std::min(ratio, 1.2) * a[b] * l[k];
      } else if (type == GrpoLossType::sapo) {
        const double t = a[b] > 0 ? 1 : 1.05;
        term = -4 / t / (1 + std::exp(-t * (ratio - 1))) * a[b];
      } else {
        const double free = delta > 0 ? std::min(ratio, delta) : ratio, clipped = std::min(std::max(ratio, 0.8), 1.2);
        term = -std::min(free * a[b], clipped * a[b]);
      }
      term = kept[k] * (term + beta * (std::exp(r) - r - 1));
      d.terms.push_back(term);
      sum += term;
    }
    all += sum;
    count += n;
    by_answer += sum / n / kB;
    by_sum += sum / kB;
  }
  switch (type) {
    case GrpoLossType::bnpo:
    case GrpoLossType::dapo:
    case GrpoLossType::cispo:
      d.mean = all / count;
      break;
    case GrpoLossType::dr_grpo:
      d.mean = all / (kB * kT);
      break;
    case GrpoLossType::luspo:
      d.mean = by_sum;
      break;
    default:
      d.mean = by_answer;
  }
  return d;
}

constexpr GrpoLossType kTypes[] = {GrpoLossType::grpo,  GrpoLossType::bnpo, GrpoLossType::dr_grpo, GrpoLossType::dapo,
                                   GrpoLossType::cispo, GrpoLossType::gspo, GrpoLossType::sapo,    GrpoLossType::luspo};

TEST(GrpoFamily, ValuesAreTheirDefinitionsInEveryReductionAndDtype) {
  for (GrpoLossType type : kTypes) {
    for (double delta : {0.0, 1.3}) {
      for (DType dtype : kDTypes) {
        SCOPED_TRACE(static_cast<int>(type));
        Policy in;
        for (Tensor* x : {&in.policy, &in.old, &in.reference, &in.advantages}) *x = cast(*x, dtype);
        const Definition d = definition(type, in, 0.3, delta);
        const auto loss = [&](Reduction r) {
          return grpo_loss(in.policy, in.advantages,
                           {.loss_type = type,
                            .beta = 0.3,
                            .old = in.old,
                            .reference = in.reference,
                            .mask = in.mask,
                            .delta = delta,
                            .reduction = r});
        };
        double total = 0;
        for (double x : d.terms) total += x;
        EXPECT_EQ(loss(Reduction::none).dtype(), dtype);
        expect_near(loss(Reduction::none), d.terms, tolerance_of(dtype));
        expect_near(loss(Reduction::sum), {total}, tolerance_of(dtype));
        expect_near(loss(Reduction::mean), {d.mean}, tolerance_of(dtype));
        EXPECT_THROW_MESSAGE(loss(Reduction::batchmean), "grpo_loss: it has no batchmean");
      }
    }
  }
}

TEST(GrpoFamily, GradientsAreThoseOfDifferencesOnceAndTwice) {
  const Policy in;
  for (GrpoLossType type : kTypes) {
    SCOPED_TRACE(static_cast<int>(type));
    for (double delta : {0.0, 1.3}) {
      const auto f = [&](const std::vector<Tensor>& v) {
        return grpo_loss(
            v[0], v[1],
            {.loss_type = type, .beta = 0.3, .old = v[2], .reference = v[3], .mask = in.mask, .delta = delta});
      };
      // The ratio of cispo is a constant: below, with a fixed one.
      if (type == GrpoLossType::cispo) continue;
      require_gradients(f, {in.policy, in.advantages, in.old, in.reference});
      require_second_gradients(f, {in.policy, in.advantages, in.old, in.reference});
    }
  }
  const Tensor v = variable(in.policy);
  const GrpoOptions cispo{.loss_type = GrpoLossType::cispo, .old = in.old};
  const Tensor factor = minimum(exp(in.policy - in.old), 1.2) * reshape(in.advantages, {-1, 1});
  expect_near(backward(grpo_loss(v, in.advantages, cispo))[v], (-factor / static_cast<double>(kB * kT)).to_vector(),
              1e-14);
}

TEST(GrpoFamily, AdvantagesMayBeOfTokens) {
  const Policy in;
  const Tensor repeated = expand(reshape(in.advantages, {-1, 1}), {kB, kT});
  for (GrpoLossType type : kTypes) {
    const GrpoOptions o{.loss_type = type, .old = in.old, .mask = in.mask};
    expect_near(grpo_loss(in.policy, repeated, o), grpo_loss(in.policy, in.advantages, o).to_vector(), 1e-15);
  }
}

TEST(GrpoFamily, DividesByTheLengthAndTheTokensThatItIsGiven) {
  const Policy in;
  const double total = grpo_loss(in.policy, in.advantages, {.reduction = Reduction::sum}).item();
  EXPECT_NEAR(
      grpo_loss(in.policy, in.advantages, {.loss_type = GrpoLossType::dr_grpo, .max_completion_length = 10}).item(),
      total / 40, 1e-14);
  EXPECT_NEAR(grpo_loss(in.policy, in.advantages, {.loss_type = GrpoLossType::dapo, .num_items_in_batch = 7}).item(),
              total / 7, 1e-14);
}

TEST(GrpoFamily, NoTokenThatCountsIsNoLossAndMaskedNaNIsNotSeen) {
  const Policy in;
  const Tensor nan = full({kB, kT}, std::numeric_limits<double>::quiet_NaN(), DType::f64);
  for (GrpoLossType type : kTypes) {
    const Tensor none = zeros({kB, kT}, DType::bool_);
    EXPECT_EQ(grpo_loss(nan, in.advantages, {.loss_type = type, .mask = none}).item(), 0);
    const GrpoOptions o{.loss_type = type, .old = in.old, .mask = in.mask};
    const Tensor partly = variable(where(in.mask, in.policy, nan));
    const Tensor loss = grpo_loss(partly, in.advantages, o);
    EXPECT_EQ(loss.item(), grpo_loss(in.policy, in.advantages, o).item()) << static_cast<int>(type);
    for (double g : backward(loss)[partly].to_vector()) EXPECT_TRUE(std::isfinite(g)) << static_cast<int>(type);
    EXPECT_TRUE(std::isnan(grpo_loss(nan, in.advantages, {.loss_type = type}).item()));
    EXPECT_EQ(grpo_loss(zeros({0, 3}), zeros({0}), {.loss_type = type, .reduction = Reduction::sum}).item(), 0);
  }
}

TEST(GrpoFamily, NamesWhatIsWrong) {
  const Policy in;
  EXPECT_THROW_MESSAGE(grpo_loss(in.policy, values({kB, 2})),
                       "grpo_loss: advantages of shape [4, 2] do not fit 4 answers of 6 tokens; give [B] or [B, T]");
  EXPECT_THROW_MESSAGE(grpo_loss(in.policy, in.advantages, {.loss_type = GrpoLossType::dapo, .by_token = true}),
                       "by_token is for loss_type grpo, got dapo");
  EXPECT_THROW_MESSAGE(grpo_loss(in.policy, in.advantages, {.delta = 1.1}), "delta must be above 1 + clip_high = 1.2");
  EXPECT_THROW_MESSAGE(grpo_loss(in.policy, in.advantages, {.sapo_temperature_neg = 0}),
                       "temperatures must be positive");
  EXPECT_THROW_MESSAGE(grpo_loss(in.policy, in.advantages, {.num_items_in_batch = -1}), "must not be negative");
  EXPECT_THROW_MESSAGE(evaluate_loss("grpo_loss", {in.policy, in.advantages}, {{"loss_type", "ppo"}}),
                       "loss_type: 'ppo' is not grpo, bnpo, dr_grpo, dapo, cispo, gspo, sapo or luspo");
  EXPECT_EQ(evaluate_loss("grpo_loss", {in.policy, in.advantages}, {{"loss_type", "luspo"}}).item(),
            grpo_loss(in.policy, in.advantages, {.loss_type = GrpoLossType::luspo}).item());
}

// ---- dynamic fine-tuning, weights of tokens ----------------------------------------------------------------------

TEST(Dft, IsCrossEntropyWeightedByProbabilities) {
  const Tensor exact = values({5, 7}, 1, 2), target = tensor({3, 0, -100, 6, 2}), weights = values({5}, 2, 0.4) + 1;
  for (DType dtype : kDTypes) {
    const Tensor kept_weights = where(target != -100, weights, 0);
    for (Reduction r : {Reduction::none, Reduction::sum, Reduction::mean}) {
      const Tensor x = variable(cast(exact, dtype)), wide = variable(cast(x, DType::f64).eval());
      const Tensor each = cross_entropy(wide, target, {.reduction = Reduction::none});
      const Tensor terms = stop_gradient(exp(-each)) * each * weights;
      const Tensor loss = dft_loss(x, target, {.token_weight = weights, .reduction = r});
      const Tensor expected = r == Reduction::none  ? where(target != -100, terms, 0)
                              : r == Reduction::sum ? sum(where(target != -100, terms, 0))
                                                    : sum(where(target != -100, terms, 0)) / sum(kept_weights);
      EXPECT_EQ(loss.dtype(), dtype);
      expect_near(loss, expected.to_vector(), tolerance_of(dtype));
      expect_near(backward(sum(loss))[x], backward(sum(expected))[wide].to_vector(), tolerance_of(dtype));
    }
    EXPECT_THROW_MESSAGE(dft_loss(exact, target, {.reduction = Reduction::batchmean}), "batchmean");
  }
  // Second derivatives: those of the sum with its weights held constant.
  const auto held = [&](const std::vector<Tensor>& v) { return dft_loss(v[0], target, {.reduction = Reduction::sum}); };
  const Tensor v = variable(exact), g = backward(held({v}), {.create_graph = true})[v];
  const Tensor p = exp(-cross_entropy(exact, target, {.reduction = Reduction::none})), d = values({5, 7}, 9);
  const Tensor hessian_times_d = backward(sum(g * d))[v];
  const Tensor u = variable(exact);
  const Tensor plain =
      backward(sum(p * cross_entropy(u, target, {.reduction = Reduction::none})), {.create_graph = true})[u];
  expect_near(hessian_times_d, backward(sum(plain * d))[u].to_vector(), 1e-13);
}

TEST(Dft, ExtremesAndErrors) {
  const Tensor x = variable(from_data({0.0, -kInf, 3.0, 1e4, 0.0, -1e4}, {2, 3}));
  const Tensor loss = dft_loss(x, tensor({1, 2}), {.reduction = Reduction::none});
  expect_near(loss, {0, 0}, 0);  // p = 0: the limit of −p·log p
  for (double g : backward(sum(loss))[x].to_vector()) EXPECT_EQ(g, 0);
  EXPECT_TRUE(std::isnan(dft_loss(full({1, 2}, std::nan(""), DType::f64), tensor({0})).item()));
  EXPECT_TRUE(std::isnan(dft_loss(zeros({0, 3}), zeros({0}, DType::i64)).item()));
  EXPECT_EQ(linear_dft_loss(zeros({0, 3}), zeros({5, 3}), zeros({0}, DType::i64), {.reduction = Reduction::sum}).item(),
            0);
  EXPECT_THROW_MESSAGE(dft_loss(zeros({2, 3}), tensor({0, 7})).eval(), "dft_loss: target[1] = 7 is outside [0, 3)");
  EXPECT_THROW_MESSAGE(dft_loss(zeros({2, 3}), tensor({0, 1}), {.token_weight = zeros({3})}),
                       "dft_loss: token_weight of shape [3] does not fit losses of shape [2]; give one per loss");
  EXPECT_THROW_MESSAGE(
      linear_dft_loss(zeros({2, 3}), zeros({5, 3}), tensor({0, 1, 2})),
      "linear_dft_loss: hidden states of shape [2, 3], a head of shape [5, 3] and target of shape [3] do");
}

TEST(TokenWeight, MultipliesEachLossAndTheMeanDividesByTheirSum) {
  const Tensor x = values({6, 5}, 1), head = values({7, 5}, 2), w = values({6}, 3, 0.4) + 1,
               of_class = values({7}, 4, 0.3) + 1;
  const Tensor target = tensor({3, 0, -100, 6, 2, 1}), kept = target != -100;
  const Tensor class_weight = where(kept, index_select(of_class, 0, where(kept, target, 0)), 0);
  const auto require_all = [&](const auto& loss_with) {
    for (const Tensor& classes_weight : {Tensor(), of_class}) {
      const Tensor terms = loss_with(classes_weight, Tensor(), Reduction::none) * w;
      const Tensor weights = classes_weight.defined() ? class_weight * w : where(kept, w, 0);
      expect_near(loss_with(classes_weight, w, Reduction::none), terms.to_vector(), 1e-14);
      expect_near(loss_with(classes_weight, w, Reduction::sum), sum(terms).to_vector(), 1e-14);
      expect_near(loss_with(classes_weight, w, Reduction::mean), (sum(terms) / sum(weights)).to_vector(), 1e-14);
    }
  };
  require_all([&](const Tensor& cw, const Tensor& tw, Reduction r) {
    return cross_entropy(matmul(x, t(head)), target,
                         {.weight = cw, .label_smoothing = 0.1, .token_weight = tw, .reduction = r});
  });
  require_all([&](const Tensor& cw, const Tensor& tw, Reduction r) {
    return linear_cross_entropy(x, head, target,
                                {.weight = cw, .label_smoothing = 0.1, .token_weight = tw, .reduction = r});
  });
  require_gradients(
      [&](const std::vector<Tensor>& v) { return linear_cross_entropy(v[0], v[1], target, {.token_weight = w}); },
      {x, head});
  require_second_gradients(
      [&](const std::vector<Tensor>& v) { return linear_cross_entropy(v[0], v[1], target, {.token_weight = w}); },
      {x, head});
  require_gradients([&](const std::vector<Tensor>& v) { return cross_entropy(v[0], target, {.token_weight = w}); },
                    {values({6, 7}, 5)});
  // Probabilities, and the gradients separately.
  const Tensor q = softmax(values({6, 7}, 6), -1);
  const Tensor each = cross_entropy(matmul(x, t(head)), q, {.reduction = Reduction::none});
  const double expected = (sum(each * w) / sum(w)).item();
  EXPECT_NEAR(cross_entropy(matmul(x, t(head)), q, {.token_weight = w}).item(), expected, 1e-14);
  EXPECT_NEAR(linear_cross_entropy(x, head, q, {.token_weight = w}).item(), expected, 1e-14);
  const Tensor vx = variable(x);
  const LinearCrossEntropyGradients g =
      linear_cross_entropy_backward(tensor(0.7, DType::f64), x, head, target, {.weight = of_class, .token_weight = w});
  const Tensor loss = linear_cross_entropy(vx, head, target, {.weight = of_class, .token_weight = w});
  expect_near(g.x, backward(0.7 * loss)[vx].to_vector(), 1e-14);
  EXPECT_THROW_MESSAGE(linear_cross_entropy(x, head, target, {.token_weight = values({5})}),
                       "linear_cross_entropy: token_weight of shape [5] does not fit losses of shape [6]");
  EXPECT_THROW_MESSAGE(cross_entropy(q, target, {.token_weight = tensor({1, 1, 1, 1, 1, 1})}),
                       "cross_entropy: token_weight must be floating, got i64");
}

// ---- divergences of two heads ------------------------------------------------------------------------------------

struct Heads {
  Tensor x = values({2, 3, 5}, 1), head = values({7, 5}, 2), teacher = values({2, 3, 4}, 3), other = values({7, 4}, 4);
  Tensor mask = tensor({{true, false, true}, {true, true, false}});
  std::vector<Tensor> all() const { return {x, head, teacher, other}; }
};
// Probabilities of one row.
Doubles softmax_of(const Doubles& x, const Doubles& head, std::size_t row, std::size_t width, double temperature) {
  Doubles p(7);
  double total = 0;
  for (std::size_t c = 0; c < 7; ++c) {
    double z = 0;
    for (std::size_t k = 0; k < width; ++k) z += x[row * width + k] * head[c * width + k];
    total += p[c] = std::exp(z / temperature);
  }
  for (double& v : p) v /= total;
  return p;
}
enum class Kind { kl, reverse, jsd };
Doubles divergences(Kind kind, const Heads& h) {
  Doubles out;
  for (std::size_t row = 0; row < 6; ++row) {
    const Doubles p = softmax_of(h.x.to_vector(), h.head.to_vector(), row, 5, 1.5),
                  q = softmax_of(h.teacher.to_vector(), h.other.to_vector(), row, 4, 1.5);
    double term = 0;
    for (std::size_t c = 0; c < 7; ++c) {
      const double m = 0.3 * q[c] + 0.7 * p[c];
      term += kind == Kind::kl        ? q[c] * std::log(q[c] / p[c])
              : kind == Kind::reverse ? p[c] * std::log(p[c] / q[c])
                                      : 0.3 * q[c] * std::log(q[c] / m) + 0.7 * p[c] * std::log(p[c] / m);
    }
    out.push_back(term);
  }
  return out;
}
Tensor loss_of(Kind kind, const std::vector<Tensor>& v, const Tensor& mask, Reduction r) {
  if (kind == Kind::jsd) {
    return linear_jsd_loss(v[0], v[1], v[2], v[3], {.beta = 0.3, .temperature = 1.5, .mask = mask, .reduction = r});
  }
  return linear_kl_loss(v[0], v[1], v[2], v[3],
                        {.reverse = kind == Kind::reverse, .temperature = 1.5, .mask = mask, .reduction = r});
}

TEST(TwoHeads, ValuesAreTheirDefinitionsInEveryReductionAndDtype) {
  for (Kind kind : {Kind::kl, Kind::reverse, Kind::jsd}) {
    for (DType dtype : kDTypes) {
      Heads h;
      for (Tensor* x : {&h.x, &h.head, &h.teacher, &h.other}) *x = cast(*x, dtype);
      const Doubles terms = divergences(kind, h), kept = h.mask.to_vector();
      double all = 0, some = 0;
      for (std::size_t k = 0; k < 6; ++k) all += terms[k], some += kept[k] * terms[k];
      EXPECT_EQ(loss_of(kind, h.all(), {}, Reduction::none).dtype(), dtype);
      EXPECT_EQ(loss_of(kind, h.all(), {}, Reduction::none).shape(), (Shape{2, 3}));
      expect_near(loss_of(kind, h.all(), {}, Reduction::none), terms, tolerance_of(dtype));
      expect_near(loss_of(kind, h.all(), {}, Reduction::sum), {all}, tolerance_of(dtype));
      expect_near(loss_of(kind, h.all(), {}, Reduction::mean), {all / 6}, tolerance_of(dtype));
      expect_near(loss_of(kind, h.all(), h.mask, Reduction::mean), {some / 4}, tolerance_of(dtype));
      EXPECT_THROW_MESSAGE(loss_of(kind, h.all(), {}, Reduction::batchmean), "batchmean");
    }
  }
}

TEST(TwoHeads, GradientsAreThoseOfDifferencesOnceAndTwice) {
  const Heads h;
  for (Kind kind : {Kind::kl, Kind::reverse, Kind::jsd}) {
    const auto f = [&](const std::vector<Tensor>& v) { return loss_of(kind, v, h.mask, Reduction::mean); };
    require_gradients(f, h.all());
    require_second_gradients(f, h.all());
  }
}

TEST(TwoHeads, ClassesOfProbabilityZeroCountNothing) {
  Heads h;
  const Tensor one = variable(from_data({1e3, 0.0}, {1, 2})), two = variable(from_data({1e3, -1e3}, {1, 2}));
  const Tensor head = from_data({1.0, 0.0, -1.0, 0.0, 0.0, 1.0}, {3, 2});
  for (Kind kind : {Kind::kl, Kind::reverse, Kind::jsd}) {
    const Tensor loss = loss_of(kind, {one, head, two, head}, {}, Reduction::sum);
    EXPECT_NEAR(loss.item(), 0, 1e-12);
    for (double g : backward(loss)[one].to_vector()) EXPECT_TRUE(std::isfinite(g));
    EXPECT_EQ(loss_of(kind, {zeros({0, 2}), head, zeros({0, 2}), head}, {}, Reduction::sum).item(), 0);
    EXPECT_TRUE(std::isnan(loss_of(kind, {zeros({0, 2}), head, zeros({0, 2}), head}, {}, Reduction::mean).item()));
  }
}

TEST(TwoHeads, NamesWhatIsWrong) {
  const Heads h;
  EXPECT_THROW_MESSAGE(linear_kl_loss(h.x, h.other, h.teacher, h.other),
                       "linear_kl_loss: hidden states of shape [2, 3, 5] and a head of shape [7, 4] do not fit");
  EXPECT_THROW_MESSAGE(linear_kl_loss(h.x, h.head, h.teacher, h.head),
                       "the teacher's hidden states of shape [2, 3, 4]");
  EXPECT_THROW_MESSAGE(linear_kl_loss(h.x, h.head, values({2, 4}), h.other), "are not of the same tokens");
  EXPECT_THROW_MESSAGE(linear_kl_loss(h.x, h.head, h.teacher, values({6, 4})), "must have the same classes");
  EXPECT_THROW_MESSAGE(linear_jsd_loss(h.x, h.head, h.teacher, h.other, {.beta = 1}), "linear_kl_loss has the limits");
  EXPECT_THROW_MESSAGE(linear_jsd_loss(h.x, h.head, h.teacher, h.other, {.temperature = 0}),
                       "temperature must be positive");
  EXPECT_THROW_MESSAGE(linear_jsd_loss(h.x, h.head, h.teacher, h.other, {.mask = tensor({true})}),
                       "linear_jsd_loss: mask of shape [1] does not fit tokens of shape [2, 3]");
}

// ---- routers of experts ------------------------------------------------------------------------------------------

// E·Σ f·P of tokens in which none of the logits are equal.
double balance_of(const Doubles& logits, const Doubles& kept, std::size_t experts, std::size_t top) {
  Doubles f(experts), mean(experts);
  double n = 0, loss = 0;
  for (std::size_t r = 0; r < kept.size(); ++r) {
    if (kept[r] == 0) continue;
    n += 1;
    const double* z = &logits[r * experts];
    double total = 0;
    for (std::size_t e = 0; e < experts; ++e) total += std::exp(z[e]);
    for (std::size_t e = 0; e < experts; ++e) {
      mean[e] += std::exp(z[e]) / total;
      std::size_t larger = 0;
      for (std::size_t k = 0; k < experts; ++k) larger += z[k] > z[e];
      f[e] += larger < top;
    }
  }
  for (std::size_t e = 0; e < experts; ++e) loss += f[e] / n * mean[e] / n;
  return static_cast<double>(experts) * loss;
}

TEST(Routing, ValuesAreTheirDefinitions) {
  const Tensor exact = values({2, 4, 5}, 1, 2), mask = tensor({true, false, true, true});
  for (DType dtype : kDTypes) {
    const Tensor logits = cast(exact, dtype);
    const Doubles z = logits.to_vector(), all(8, 1), some{1, 0, 1, 1, 1, 0, 1, 1};
    for (std::size_t top : {1u, 2u, 5u}) {
      const auto k = static_cast<std::int64_t>(top);
      EXPECT_EQ(load_balancing_loss(logits).dtype(), dtype);
      expect_near(load_balancing_loss(logits, {.top_k = k}), {balance_of(z, all, 5, top)}, tolerance_of(dtype));
      expect_near(load_balancing_loss(logits, {.top_k = k, .mask = mask}), {balance_of(z, some, 5, top)},
                  tolerance_of(dtype));
    }
    Doubles squares;
    double sum_of_all = 0, sum_of_some = 0;
    for (std::size_t r = 0; r < 8; ++r) {
      double s = 0;
      for (std::size_t e = 0; e < 5; ++e) s += std::exp(z[r * 5 + e]);
      squares.push_back(std::log(s) * std::log(s));
      sum_of_all += squares.back();
      sum_of_some += some[r] * squares.back();
    }
    expect_near(router_z_loss(logits, {.reduction = Reduction::none}), squares, tolerance_of(dtype));
    expect_near(router_z_loss(logits, {.reduction = Reduction::sum}), {sum_of_all}, tolerance_of(dtype));
    expect_near(router_z_loss(logits), {sum_of_all / 8}, tolerance_of(dtype));
    expect_near(router_z_loss(logits, {.mask = mask}), {sum_of_some / 6}, tolerance_of(dtype));
    EXPECT_THROW_MESSAGE(router_z_loss(logits, {.reduction = Reduction::batchmean}), "batchmean");
  }
}

TEST(Routing, GradientsAreThoseOfDifferencesOnceAndTwice) {
  const Tensor logits = values({2, 4, 5}, 1, 2), mask = tensor({true, false, true, true});
  const auto balance = [&](const std::vector<Tensor>& v) { return load_balancing_loss(v[0], {.mask = mask}); };
  const auto z = [&](const std::vector<Tensor>& v) { return router_z_loss(v[0], {.mask = mask}); };
  for (const FunctionOfMany& f : {FunctionOfMany(balance), FunctionOfMany(z)}) {
    require_gradients(f, {logits});
    require_second_gradients(f, {logits});
  }
}

TEST(Routing, ExtremesAndErrors) {
  // One expert takes everything: E·1·1; equal logits: the first ones are chosen, top_k.
  EXPECT_EQ(load_balancing_loss(from_data({1e4, 0.0, 0.0, 1e4, 0.0, 0.0}, {2, 3}), {.top_k = 1}).item(), 3);
  EXPECT_NEAR(load_balancing_loss(zeros({4, 3}, DType::f64)).item(), 2, 1e-15);
  EXPECT_TRUE(std::isnan(load_balancing_loss(zeros({0, 3})).item()));
  EXPECT_TRUE(std::isnan(load_balancing_loss(full({2, 3}, std::nan(""), DType::f64)).item()));
  EXPECT_TRUE(std::isnan(router_z_loss(zeros({0, 3})).item()));
  EXPECT_EQ(router_z_loss(zeros({0, 3}), {.reduction = Reduction::sum}).item(), 0);
  EXPECT_EQ(router_z_loss(from_data({1e200, -kInf}, {1, 2})).item(), kInf);
  EXPECT_THROW_MESSAGE(load_balancing_loss(zeros({4, 3}), {.top_k = 4}),
                       "load_balancing_loss: top_k must be between 1 and the 3 experts, got 4");
  EXPECT_THROW_MESSAGE(load_balancing_loss(zeros({4, 3}), {.mask = tensor({true, false})}),
                       "load_balancing_loss: mask of shape [2] does not broadcast");
  EXPECT_THROW_MESSAGE(router_z_loss(zeros({4, 0})),
                       "router_z_loss: needs the router's logits [.., E], got shape [4, 0]");
  EXPECT_THROW_MESSAGE(router_z_loss(zeros({4, 3}, DType::i64)), "cast it to a floating dtype");
}

}  // namespace
}  // namespace ebb
