// SPDX-License-Identifier: MIT
// Losses with user-defined formulas from hidden states and a head, compared with the same formulas of logits in memory,
// and the memory of losses that stream logits through ordinary operations.
#include "losses/linear_loss.h"

#include <gtest/gtest.h>

#include "ebb/backward.h"
#include "ebb/losses/preference.h"
#include "ebb/memory.h"
#include "ebb/ops.h"
#include "expect_error.h"
#include "losses_kernels/numbers.h"
#include "test_device.h"

namespace ebb {
namespace {

using testing::classes;

// The peak memory of a call beyond what was live before.
template <class F>
std::size_t peak_of(F&& f) {
  synchronize(default_device());
  const std::size_t live = memory_stats().live;
  reset_peak_memory();
  f();
  synchronize(default_device());
  return memory_stats().peak - live;
}

struct Sizes {
  std::int64_t rows = testing::on_gpu() ? 128 : 512;  // an emulated one is slow
  std::int64_t width = 8, classes = 8000, chunk = 16;
  std::size_t logits() const { return static_cast<std::size_t>(chunk * classes) * 4; }
  std::size_t all_logits() const { return static_cast<std::size_t>(rows * classes) * 4; }
  std::size_t head() const { return static_cast<std::size_t>(width * classes) * 4; }
  // Each thread packs the factors of products in memory of its own.
  std::size_t packed() const {
    return (std::size_t{5} << 20) + (std::size_t{1400} << 10) * static_cast<std::size_t>(num_threads());
  }
};

TEST(LinearCrossEntropy, OfProbabilitiesHoldsTheLogitsOfAChunk) {
  const Sizes s;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = cast(randn({s.rows, s.width}), dtype).eval(),
                 head = cast(randn({s.classes, s.width}) * 0.1, dtype).eval();
    const Tensor target = softmax(randn({s.rows, s.classes})).eval();
    const std::size_t both = peak_of([&] {
      const Tensor vx = variable(x), vh = variable(head);
      const Tensor loss = linear_cross_entropy(vx, vh, target, {.chunk = s.chunk});
      const Gradients g = backward(loss);
      eval({loss, g[vx], g[vh]});
    });
    EXPECT_LT(both, 4 * s.logits() + 4 * s.head() + s.packed()) << name(dtype);
    EXPECT_LT(both, s.all_logits()) << name(dtype);
    const std::size_t alone = peak_of([&] { linear_cross_entropy(x, head, target, {.chunk = s.chunk}).eval(); });
    EXPECT_LT(alone, 3 * s.logits() + 2 * s.head() + s.packed()) << name(dtype);
  }
}

TEST(LinearLoss, HoldsTheLogitsOfAChunk) {
  const Sizes s;
  const Tensor x = randn({s.rows, s.width}).eval(), head = (randn({s.classes, s.width}) * 0.1).eval();
  const Tensor target = randint(0, s.classes, {s.rows}).eval();
  for (const LossOf of : {LossOf::logits, LossOf::log_probs}) {
    LinearLossOptions o;
    o.chunk = s.chunk;
    o.of = of;
    const TermFormula formula = [of](const std::vector<Tensor>& v) {
      return of == LossOf::logits ? logsumexp(v[0], -1) : square(v[0]);
    };
    const std::size_t peak = peak_of([&] {
      const LossAndGradients found = linear_loss({x, head, target, {}, {}}, formula, o, {true, true, false});
      eval({found.loss, found.gradients[0], found.gradients[1]});
    });
    EXPECT_LT(peak, 4 * s.logits() + 4 * s.head() + s.packed());
    EXPECT_LT(peak, s.all_logits());
  }
}

// The formula of linear_dpo_loss, with its pairs split among chunks, gives linear_dpo_loss's value and gradients.
TEST(LinearLoss, OfPairsIsTheLossOfTheRegistry) {
  const Tensor x = randn({6, 4, 5}, DType::f64), head = randn({9, 5}, DType::f64), reference = randn({6}, DType::f64);
  const Tensor target = where(randint(0, 9, {6, 4}) == 3, -100, randint(0, 9, {6, 4})).eval();
  const Tensor shared = full({1}, 1.0, DType::f64);
  const TermFormula dpo = [](const std::vector<Tensor>& v) {
    const Tensor answers = sum(v[0], -1);
    const std::int64_t n = answers.size(0) / 2;
    return dpo_loss(narrow(answers, 0, 0, n), narrow(answers, 0, n, n), narrow(v[1], 0, 0, n), narrow(v[1], 0, n, n),
                    {.reduction = Reduction::none});
  };
  const Tensor vx = variable(x), vh = variable(head), vr = variable(reference);
  const Tensor expected = linear_dpo_loss(vx, vh, target, vr, {}, {.softcap = 2, .temperature = 0.7});
  const Gradients g = backward(expected);
  LinearLossOptions o;
  o.sides = 2;
  o.softcap = 2;
  o.temperature = 0.7;
  o.chunk = 9;  // less than two pairs
  // By the kernel, and by ordinary operations, which shared tensors require.
  for (const std::vector<Tensor>& whole : {std::vector<Tensor>{}, std::vector<Tensor>{shared}}) {
    std::vector<bool> asked(4 + whole.size(), true);
    asked[2] = false;
    const LossAndGradients found = linear_loss({x, head, target, {reference}, whole}, dpo, o, asked);
    EXPECT_TRUE(allclose(found.loss, expected, {.rtol = 1e-12}));
    EXPECT_TRUE(allclose(found.gradients[0], g[vx], {.rtol = 1e-10, .atol = 1e-14}));
    EXPECT_TRUE(allclose(found.gradients[1], g[vh], {.rtol = 1e-10, .atol = 1e-14}));
    EXPECT_TRUE(allclose(found.gradients[3], g[vr], {.rtol = 1e-10, .atol = 1e-14}));
  }
}

// c·tanh(z/c)/τ in one step of the kernel.
// A user-defined formula compared with the same one of stored logits: values, gradients, second derivatives.
TEST(LinearLoss, IsDifferentiableTwiceInEverything) {
  const std::int64_t kept_classes = 9;
  const Tensor x = testing::values({4, 3, 5}, 1), head = testing::values({kept_classes, 5}, 2),
               bias = testing::values({kept_classes}, 3), weight = testing::values({4}, 4),
               scale = testing::values({1}, 5);
  const Tensor raw = reshape(classes(12, kept_classes), {4, 3});
  const Tensor target = where(raw == 2, -100, raw).eval(), kept = target != -100;
  const auto of_log_probs = [](const std::vector<Tensor>& v) { return v[1] * square(sum(v[0], -1)); };
  const auto of_logits = [](const std::vector<Tensor>& v) {  // logits, target, weight, scale
    return v[2] * sum(logsumexp(v[0] * v[3], -1), -1) + mean(tanh(v[0]), std::vector<std::int64_t>{1, 2});
  };
  const auto logits = [&](const std::vector<Tensor>& v) { return 1.5 * (matmul(v[0], t(v[1])) + v[2]) / 0.7; };
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    for (const std::int64_t chunk : {0, 4}) {
      LinearLossOptions o;
      o.temperature = 0.7;
      o.logit_scale = 1.5;
      o.chunk = chunk;
      o.reduction = reduction;
      const auto with = [&o](const Tensor& b, LossOf of) {
        LinearLossOptions all = o;
        all.bias = b;
        all.of = of;
        return all;
      };
      const auto reduce = [&](const Tensor& terms) { return reduction == Reduction::mean ? mean(terms) : sum(terms); };
      const std::vector<std::pair<FunctionOfMany, FunctionOfMany>> both{
          {[&](const std::vector<Tensor>& v) {
             return linear_loss({v[0], v[1], target, {v[3]}}, of_log_probs, with(v[2], LossOf::log_probs));
           },
           [&](const std::vector<Tensor>& v) {
             const Tensor l = gather(log_softmax(logits(v), -1), -1, unsqueeze(where(kept, target, 0), -1));
             return reduce(of_log_probs({where(kept, squeeze(l, -1), 0), v[3]}));
           }},
          {[&](const std::vector<Tensor>& v) {
             return linear_loss({v[0], v[1], target, {v[3]}, {v[4]}}, of_logits, with(v[2], LossOf::logits));
           },
           [&](const std::vector<Tensor>& v) {
             return reduce(of_logits({logits(v), target, v[3], v[4]}));
           }}};
      for (std::size_t k = 0; k < both.size(); ++k) {
        std::vector<Tensor> inputs{x, head, bias, weight};
        if (k == 1) inputs.push_back(scale);
        SCOPED_TRACE(k);
        const auto [value, grads] = value_and_grad(both[k].first)(inputs);
        const auto [expected, expected_grads] = value_and_grad(both[k].second)(inputs);
        testing::expect_near(value, expected.to_vector(), 1e-12);
        for (std::size_t g = 0; g < grads.size(); ++g)
          testing::expect_near(grads[g], expected_grads[g].to_vector(), 1e-11);
        require_gradients(both[k].first, inputs);
        require_second_gradients(both[k].first, inputs);
      }
    }
  }
}

TEST(LinearLoss, SaysWhatIsWrong) {
  const Tensor x = zeros({4, 5}), head = zeros({9, 5}), target = zeros({4}, DType::i64);
  const auto first = [](const std::vector<Tensor>& v) { return v[0]; };
  EXPECT_THROW_MESSAGE(linear_loss({x, zeros({9, 4}), target}, first),
                       "linear_loss: hidden states of shape [4, 5] and a head of shape [9, 4] do not fit");
  EXPECT_THROW_MESSAGE(linear_loss({x, head, {}}, first), "linear_loss: log-probabilities need a target");
  EXPECT_THROW_MESSAGE(linear_loss({x, head, target, {zeros({3})}}, first),
                       "others[0] of shape [3] must have 4 entries");
  EXPECT_THROW_MESSAGE(linear_loss({x, head, target}, TermFormula()), "linear_loss: there is no formula");
  EXPECT_THROW_MESSAGE(linear_loss({x, head, target}, [](const auto& v) { return sum(v[0]); }),
                       "the formula must return one term per entry, shape [4], got shape []");
  EXPECT_THROW_MESSAGE(linear_loss({x, head, target + 9}, first).eval(), "target[0] = 9 is outside [0, 9)");
  EXPECT_TRUE(std::isnan(linear_loss({zeros({0, 5}), head, zeros({0}, DType::i64)}, first).item()));
}

TEST(LinearLogProbs, TakeSoftcapAndTemperatureTogether) {
  const Tensor x = randn({300, 20}, DType::f64), head = randn({40, 20}, DType::f64);
  const Tensor target = randint(0, 40, {300}).eval();
  const Tensor z = 3 * tanh(matmul(x, t(head)) / 3) / 0.7;
  const Tensor expected = squeeze(gather(log_softmax(z, -1), -1, unsqueeze(target, -1)), -1);
  EXPECT_TRUE(
      allclose(linear_log_probs(x, head, target, {.softcap = 3, .temperature = 0.7}), expected, {.rtol = 1e-11}));
}

// A generator has one token where a trainer has a batch. A GPU's products of f32 have this property on request.
TEST(LinearLogProbs, OfARowDoNotDependOnOtherRows) {
  const bool before = batch_invariant();
  set_batch_invariant(true);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = cast(randn({130, 64}), dtype).eval(), head = cast(randn({200, 64}), dtype).eval();
    const Tensor target = randint(0, 200, {130}).eval();
    for (const bool entropy : {false, true}) {
      TokenStatisticsOptions o;
      o.entropy = entropy;
      o.logsumexp = o.argmax = false;
      const std::vector<double> all = linear_token_statistics(x, head, target, o).log_probs.to_vector();
      for (const std::int64_t rows : {1, 2, 7, 16, 31, 100}) {
        const Tensor some =
            linear_token_statistics(narrow(x, 0, 3, rows), head, narrow(target, 0, 3, rows), o).log_probs;
        EXPECT_EQ(some.to_vector(), std::vector<double>(all.begin() + 3, all.begin() + 3 + rows))
            << name(dtype) << ", " << rows << " rows";
      }
    }
  }
  set_batch_invariant(before);
}

}  // namespace
}  // namespace ebb
