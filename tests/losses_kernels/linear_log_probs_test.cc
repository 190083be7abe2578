// SPDX-License-Identifier: MIT
// linear_log_probs and linear_token_statistics compared with the same numbers from logits in memory.
#include <gtest/gtest.h>

#include "ebb/autograd.h"
#include "ebb/backward.h"
#include "ebb/losses/linear_cross_entropy.h"
#include "ebb/ops.h"
#include "expect_error.h"
#include "losses_kernels/numbers.h"
#include "test_device.h"

namespace ebb {
namespace {

using testing::classes;
using testing::expect_near;
using testing::values;

TokenStatisticsOptions everything() {
  TokenStatisticsOptions o;
  o.log_sum_sq_probs = o.mean_logits = true;
  return o;
}

std::vector<Tensor> list(const TokenStatistics& s) {
  return {s.log_probs, s.entropy, s.logsumexp, s.log_sum_sq_probs, s.mean_logits};
}

// The definitions, with all logits in memory.
TokenStatistics plain_statistics(const Tensor& x, const Tensor& head, const Tensor& bias, const Tensor& target,
                                 const TokenStatisticsOptions& o) {
  Tensor z = matmul(x, t(head));
  if (bias.defined()) z = z + bias;
  z = z * o.logit_scale;
  if (o.softcap != 0) z = o.softcap * tanh(z / o.softcap);
  z = z / o.temperature;
  const Tensor log_p = log_softmax(z, -1), kept = target != o.ignore_index;
  TokenStatistics s;
  s.log_probs = squeeze(gather(log_p, -1, unsqueeze(where(kept, target, 0), -1)), -1);
  s.entropy = -sum(exp(log_p) * log_p, -1);
  s.logsumexp = logsumexp(z, -1);
  s.log_sum_sq_probs = logsumexp(2 * log_p, -1);
  s.mean_logits = mean(z, -1);
  s.argmax = argmax(z, -1);
  for (Tensor* each : {&s.log_probs, &s.entropy, &s.logsumexp, &s.log_sum_sq_probs, &s.mean_logits, &s.argmax})
    *each = where(kept, *each, 0);
  return s;
}

struct LogProbCase {
  const char* name;
  bool bias;
  double logit_scale, softcap, temperature;
};
const LogProbCase kLogProbCases[] = {{"plain", false, 1, 0, 1},
                                     {"bias and temperature", true, 1, 0, 0.7},
                                     {"scale", true, 0.3, 0, 1},
                                     {"softcap", true, 1, 2, 1},
                                     {"everything", true, 1.7, 2, 1.3}};

struct LogProbInputs {
  Tensor x = values({2, 7, 6}, 1), head = values({11, 6}, 2, 2), bias = values({11}, 3), target;
  LogProbInputs() {
    std::vector<std::int64_t> y;
    for (std::int64_t i = 0; i < 14; ++i) y.push_back(i == 5 ? -100 : (i * 31 + 5) % 11);
    target = from_data(y, Shape{2, 7});
  }
};

TokenStatisticsOptions options_of(const LogProbCase& c, TokenStatisticsOptions o, const Tensor& bias,
                                  std::int64_t chunk) {
  if (c.bias) o.bias = bias;
  o.logit_scale = c.logit_scale;
  o.softcap = c.softcap;
  o.temperature = c.temperature;
  o.chunk = chunk;
  return o;
}

TEST(LinearLogProbs, AreTheDefinitionsForAnyChunk) {
  const LogProbInputs in;
  for (const LogProbCase& c : kLogProbCases) {
    for (const std::int64_t chunk : {0, 4, 100}) {
      SCOPED_TRACE(std::string(c.name) + ", chunk " + std::to_string(chunk));
      const TokenStatisticsOptions o = options_of(c, everything(), in.bias, chunk);
      const TokenStatistics found = linear_token_statistics(in.x, in.head, in.target, o);
      const TokenStatistics expected = plain_statistics(in.x, in.head, o.bias, in.target, o);
      const auto ours = list(found), theirs = list(expected);
      for (std::size_t k = 0; k < ours.size(); ++k) {
        EXPECT_EQ(ours[k].shape(), in.target.shape());
        expect_near(ours[k], theirs[k].to_vector(), 1e-12);
      }
      EXPECT_EQ(found.argmax.to_vector<std::int64_t>(), expected.argmax.to_vector<std::int64_t>());
      TokenStatisticsOptions alone = o;
      alone.entropy = alone.logsumexp = alone.log_sum_sq_probs = alone.mean_logits = alone.argmax = false;
      const TokenStatistics one = linear_token_statistics(in.x, in.head, in.target, alone);
      expect_near(one.log_probs, expected.log_probs.to_vector(), 1e-12);
      EXPECT_FALSE(one.entropy.defined() || one.argmax.defined());
    }
  }
}

TEST(LinearLogProbs, HaveTheGradientsOfTheDefinitions) {
  const LogProbInputs in;
  for (const LogProbCase& c : kLogProbCases) {
    for (const std::int64_t chunk : {0, 4}) {
      SCOPED_TRACE(std::string(c.name) + ", chunk " + std::to_string(chunk));
      std::vector<std::vector<Tensor>> gradients;
      for (const bool ours : {true, false}) {
        const Tensor x = variable(in.x), head = variable(in.head), bias = variable(in.bias);
        const TokenStatisticsOptions o = options_of(c, everything(), bias, chunk);
        const TokenStatistics s =
            ours ? linear_token_statistics(x, head, in.target, o) : plain_statistics(x, head, o.bias, in.target, o);
        Tensor total = zeros({}, DType::f64);
        std::int64_t phase = 4;
        for (const Tensor& each : list(s)) total = total + sum(each * values(each.shape(), phase++));
        const Gradients g = backward(total);
        gradients.push_back({g[x], g[head]});
        if (c.bias) gradients.back().push_back(g[bias]);
      }
      for (std::size_t k = 0; k < gradients[0].size(); ++k)
        expect_near(gradients[0][k], gradients[1][k].to_vector(), 1e-11);
    }
  }
}

// From values computed earlier, and for the cotangents that exist.
TEST(LinearLogProbs, HaveTheSameGradientsFromValuesOfAnEarlierPass) {
  const LogProbInputs in;
  using Member = Tensor TokenStatistics::*;
  const std::vector<std::vector<Member>> chosen{
      {&TokenStatistics::log_probs},
      {&TokenStatistics::log_probs, &TokenStatistics::entropy},
      {&TokenStatistics::logsumexp, &TokenStatistics::mean_logits},
      {&TokenStatistics::log_probs, &TokenStatistics::entropy, &TokenStatistics::logsumexp,
       &TokenStatistics::log_sum_sq_probs, &TokenStatistics::mean_logits}};
  for (const LogProbCase& c : kLogProbCases) {
    for (const auto& members : chosen) {
      SCOPED_TRACE(std::string(c.name) + ", statistics " + std::to_string(members.size()));
      const Tensor x = variable(in.x), head = variable(in.head), bias = variable(in.bias);
      const TokenStatisticsOptions o = options_of(c, everything(), bias, 4);
      const TokenStatistics s = plain_statistics(x, head, o.bias, in.target, o);
      TokenStatistics cotangents;
      Tensor total = zeros({}, DType::f64);
      std::int64_t phase = 4;
      for (const Member m : members) {
        cotangents.*m = values(in.target.shape(), phase++);
        total = total + sum(s.*m * cotangents.*m);
      }
      const Gradients expected = backward(total);
      const TokenStatistics known = linear_token_statistics(in.x, in.head, in.target, o);
      const auto g = linear_token_statistics_backward(cotangents, known, in.x, in.head, in.target, o);
      EXPECT_EQ(g.x.shape(), in.x.shape());
      expect_near(g.x, expected[x].to_vector(), 1e-11);
      expect_near(g.head, expected[head].to_vector(), 1e-11);
      if (c.bias) expect_near(g.bias, expected[bias].to_vector(), 1e-11);
      const auto alone =
          linear_token_statistics_backward(cotangents, known, in.x, in.head, in.target, o, {true, false, false});
      EXPECT_FALSE(alone.head.defined() || alone.bias.defined());
      expect_near(alone.x, expected[x].to_vector(), 1e-11);
    }
  }
}

// The forward pass is not repeated: a block of classes takes three products.
TEST(LinearLogProbs, TakeThreeProductsForTheirGradients) {
  const Tensor x = values({8, 6}, 1), head = values({11, 6}, 2), target = classes(8, 11), one = ones({8}, DType::f64);
  const TokenStatistics cotangents{.log_probs = one, .entropy = one}, known{.entropy = one, .logsumexp = one};
  const auto g = linear_token_statistics_backward(cotangents, known, x, head, target);
  const std::string plan = print_schedule({g.x, g.head});
  std::size_t products = 0;
  for (std::size_t at = plan.find("call matmul"); at != std::string::npos; at = plan.find("call matmul", at + 1))
    ++products;
  EXPECT_EQ(products, 3u) << plan;
}

// Logits of an ignored row are arbitrary.
TEST(LinearLogProbs, HaveNoGradientWhereTheTargetIsIgnored) {
  const Tensor x = from_data(std::vector<double>{500, 400, 1, 2}, Shape{2, 2}), head = values({3, 2}, 2, 2);
  const Tensor target = from_data(std::vector<std::int64_t>{-100, 1}, Shape{2});
  const TokenStatistics known = linear_token_statistics(x, head, target, everything());
  const Tensor one = ones({2}, DType::f64);
  const auto g = linear_token_statistics_backward({one, one, one, one, one, {}}, known, x, head, target, everything());
  const auto row = linear_token_statistics_backward({one, one, one, one, one, {}}, known,
                                                    from_data(std::vector<double>{0, 0, 1, 2}, Shape{2, 2}), head,
                                                    target, everything());
  EXPECT_EQ(g.x.to_vector()[0], 0);
  EXPECT_EQ(g.x.to_vector()[1], 0);
  EXPECT_EQ(g.x.to_vector(), row.x.to_vector());
  EXPECT_EQ(g.head.to_vector(), row.head.to_vector());
}

TEST(LinearLogProbs, HaveTheDerivativesOfTheDefinitionsInADirection) {
  const LogProbInputs in;
  for (const LogProbCase& c : kLogProbCases) {
    for (const std::int64_t chunk : {0, 4}) {
      SCOPED_TRACE(std::string(c.name) + ", chunk " + std::to_string(chunk));
      const StatisticsTangents v{values(in.x.shape(), 7), values(in.head.shape(), 8),
                                 c.bias ? values(in.bias.shape(), 9) : Tensor{}};
      const TokenStatisticsOptions o = options_of(c, everything(), in.bias, chunk);
      const auto ours = list(linear_token_statistics_jvp(in.x, in.head, in.target, o, v));
      for (std::size_t k = 0; k < ours.size(); ++k) {
        const auto along = [&](const Tensor& step) {
          return list(plain_statistics(in.x + step * v.x, in.head + step * v.head,
                                       c.bias ? in.bias + step * v.bias : Tensor{}, in.target, o))[k];
        };
        expect_near(ours[k], jvp(along, zeros({}, DType::f64), ones({}, DType::f64)).second.to_vector(), 1e-11);
      }
      const auto of_x = list(linear_token_statistics_jvp(in.x, in.head, in.target, o, {v.x, {}, {}}));
      const auto rest = list(linear_token_statistics_jvp(in.x, in.head, in.target, o, {{}, v.head, v.bias}));
      for (std::size_t k = 0; k < ours.size(); ++k) expect_near(of_x[k] + rest[k], ours[k].to_vector(), 1e-12);
    }
  }
}

TEST(LinearLogProbs, OfHalvesAreF32) {
  const Tensor x = cast(values({64, 32}, 1), DType::bf16), head = cast(values({96, 32}, 2, 2), DType::bf16);
  const Tensor target = classes(64, 96);
  for (const double temperature : {1.0, 0.7}) {
    TokenStatisticsOptions o = everything();
    o.temperature = temperature;
    const TokenStatistics exact = plain_statistics(cast(x, DType::f64), cast(head, DType::f64), {}, target, o);
    const TokenStatistics found = linear_token_statistics(x, head, target, o);
    const auto ours = list(found), theirs = list(exact);
    for (std::size_t k = 0; k < ours.size(); ++k) {
      EXPECT_EQ(ours[k].dtype(), DType::f32);
      expect_near(ours[k], theirs[k].to_vector(), 2e-6);
    }
    const Tensor alone = linear_log_probs(x, head, target, {.temperature = temperature});
    EXPECT_EQ(alone.dtype(), DType::f32);
    expect_near(alone, exact.log_probs.to_vector(), 2e-6);
  }
}

TEST(LinearLogProbs, HoldTheLogitsOfAChunk) {
  constexpr std::int64_t kWidth = 8, kClasses = 8000, kChunk = 16;
  const std::int64_t rows = testing::on_gpu() ? 128 : 512;  // an emulated one is slow
  const int threads = num_threads();
  set_num_threads(2);  // each packs factors in memory of its own: with 16 of them that is more than the logits
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = cast(randn({rows, kWidth}), dtype).eval(),
                 head = cast(randn({kClasses, kWidth}) * 0.1, dtype).eval();
    const Tensor target = randint(0, kClasses, {rows}).eval();
    synchronize(default_device());
    const std::size_t live = memory_stats().live;
    reset_peak_memory();
    {
      const Tensor vx = variable(x), vh = variable(head);
      TokenStatisticsOptions o = everything();
      o.chunk = kChunk;
      const TokenStatistics s = linear_token_statistics(vx, vh, target, o);
      const Gradients g = backward(sum(s.log_probs) + sum(s.entropy));
      eval({s.log_probs, s.argmax, g[vx], g[vh]});
    }
    // A chunk's logits, values computed from them, the gradient of the head twice, and the packed factors of products.
    constexpr std::size_t kLogits = static_cast<std::size_t>(kChunk * kClasses) * 4;
    constexpr std::size_t kHead = static_cast<std::size_t>(kWidth * kClasses) * 4;
    const std::size_t packed =
        (std::size_t{5} << 20) + (std::size_t{1400} << 10) * static_cast<std::size_t>(num_threads());
    const std::size_t peak = memory_stats().peak - live;
    EXPECT_LT(peak, 3 * kLogits + 3 * kHead + (dtype == DType::f32 ? std::size_t{1} << 20 : packed)) << name(dtype);
    EXPECT_LT(peak, static_cast<std::size_t>(rows * kClasses) * 4) << name(dtype);
  }
  set_num_threads(threads);
}

TEST(LinearLogProbs, TakeLogitsThatAreInfinite) {
  const Tensor x = values({2, 3}, 1), head = values({4, 3}, 2);
  const Tensor bias = from_data(std::vector<double>{0, -std::numeric_limits<double>::infinity(), 0.5, 0}, Shape{4});
  TokenStatisticsOptions o;
  o.bias = bias;
  const TokenStatistics s = linear_token_statistics(x, head, from_data(std::vector<std::int64_t>{0, 2}, Shape{2}), o);
  for (const Tensor& each : {s.log_probs, s.entropy, s.logsumexp})
    for (const double v : each.to_vector()) EXPECT_TRUE(std::isfinite(v));
}

// As for argmax: the first of equal logits, and NaN before all others.
TEST(LinearLogProbs, ArgmaxIsTheFirstOfTheLargest) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::vector<double>> logits{
      {0, 3, 3, 1}, {-inf, -inf, -inf, -inf}, {inf, nan, nan, 1}, {1, 0, inf, inf}};
  for (const std::vector<double>& row : logits) {
    const Tensor z = from_data(row, Shape{4, 1});
    const TokenStatistics s =
        linear_token_statistics(ones({1, 1}, DType::f64), z, zeros({1}, DType::i64), everything());
    EXPECT_EQ(s.argmax.to_vector<std::int64_t>(), argmax(z, 0).to_vector<std::int64_t>());
  }
}

TEST(LinearLogProbs, OfNoRowsAreEmpty) {
  const TokenStatistics s =
      linear_token_statistics(zeros({0, 3}), values({4, 3}, 2), zeros({0}, DType::i64), everything());
  EXPECT_EQ(s.entropy.numel(), 0);
  EXPECT_EQ(s.argmax.dtype(), DType::i64);
}

TEST(LinearLogProbs, NameWhatIsWrong) {
  const Tensor x = values({2, 3}, 1), head = values({4, 3}, 2), wrong = from_data(std::vector<std::int64_t>{0, 4}, {2});
  EXPECT_THROW_MESSAGE(linear_token_statistics(x, head, wrong).entropy.eval(),
                       "linear_log_probs: target must be a class of the head");
  EXPECT_THROW_MESSAGE(linear_log_probs(x, head, wrong).eval(), "linear_log_probs: target[1] = 4 is outside [0, 4)");
  EXPECT_THROW_MESSAGE(linear_log_probs(x, head, wrong, {.temperature = 0}), "temperature must be positive, got 0");
  const Tensor target = classes(2, 4), g = values({2}, 3);
  EXPECT_THROW_MESSAGE(linear_token_statistics_backward({.entropy = g}, {.logsumexp = g}, x, head, target),
                       "needs the values of logsumexp, and those of entropy");
  EXPECT_THROW_MESSAGE(linear_token_statistics_backward({}, {.logsumexp = g}, x, head, target), "no cotangent");
  EXPECT_THROW_MESSAGE(linear_token_statistics_jvp(x, head, target, {}, {.x = g}),
                       "a tangent of x of shape [2], it has [2, 3]");
  EXPECT_THROW_MESSAGE(linear_token_statistics_jvp(x, head, target, {}, {}), "there is no tangent");
}

}  // namespace
}  // namespace ebb
