// SPDX-License-Identifier: MIT
#include "ebb/losses/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include "ebb/backward.h"
#include "ebb/losses/classification.h"
#include "ebb/ops.h"
#include "expect_error.h"
#include "losses_kernels/golden.h"
#include "losses_kernels/numbers.h"
#include "test_device.h"

namespace ebb {
namespace {

using testing::classes;
using testing::expect_near;
using testing::positive;
using testing::values;

// The definition, one row after the other in double precision.
std::vector<double> reference_rows(const std::vector<double>& x, const std::vector<double>& w,
                                   const std::vector<double>& bias, const std::vector<double>& weight,
                                   const std::vector<std::int64_t>& y, std::size_t width,
                                   const LinearCrossEntropyOptions& o) {
  std::vector<double> losses;
  const std::size_t classes = w.size() / width;
  for (std::size_t r = 0; r < y.size(); ++r) {
    if (y[r] == o.ignore_index) {
      losses.push_back(0);
      continue;
    }
    std::vector<double> z(classes);
    double most = -1e300;
    for (std::size_t c = 0; c < classes; ++c) {
      for (std::size_t k = 0; k < width; ++k) z[c] += x[r * width + k] * w[c * width + k];
      if (!bias.empty()) z[c] += bias[c];
      if (o.softcap != 0) z[c] = o.softcap * std::tanh(z[c] / o.softcap);
      most = std::max(most, z[c]);
    }
    double total = 0;
    for (double v : z) total += std::exp(v - most);
    const double lse = most + std::log(total);
    const auto at = static_cast<std::size_t>(y[r]);
    const auto weight_of = [&](std::size_t c) { return weight.empty() ? 1.0 : weight[c]; };
    double loss = (1 - o.label_smoothing) * weight_of(at) * (lse - z[at]);
    for (std::size_t c = 0; c < classes; ++c)
      loss += o.label_smoothing / static_cast<double>(classes) * weight_of(c) * (lse - z[c]);
    losses.push_back(loss + weight_of(at) * o.z_loss * lse * lse);
  }
  return losses;
}

struct HeadCase {
  const char* name;
  bool bias, weight;
  double label_smoothing, z_loss, softcap;
};
const HeadCase kHeadCases[] = {
    {"plain", false, false, 0, 0, 0},
    {"bias", true, false, 0, 0, 0},
    {"weight", true, true, 0, 0, 0},
    {"smoothing", false, false, 0.1, 0, 0},
    {"smoothing and weight", true, true, 0.2, 0, 0},
    {"z-loss", true, true, 0.1, 0.01, 0},
    {"softcap", true, true, 0.1, 0.01, 1.5},
};

struct HeadInputs {
  Tensor x = values({7, 5}, 1, 2), head = values({1100, 5}, 2), bias = values({1100}, 3), weight = positive({1100}, 4);
  Tensor target = where(arange(7) == 3, -100, classes(7, 1100));
  LinearCrossEntropyOptions options(const HeadCase& c) const {
    LinearCrossEntropyOptions o;
    if (c.bias) o.bias = bias;
    if (c.weight) o.weight = weight;
    o.label_smoothing = c.label_smoothing;
    o.z_loss = c.z_loss;
    o.softcap = c.softcap;
    return o;
  }
  std::vector<double> reference(const LinearCrossEntropyOptions& o) const {
    return reference_rows(x.to_vector(), head.to_vector(), o.bias.defined() ? bias.to_vector() : std::vector<double>{},
                          o.weight.defined() ? weight.to_vector() : std::vector<double>{},
                          target.to_vector<std::int64_t>(), 5, o);
  }
};

TEST(LinearCrossEntropy, IsItsDefinitionForEveryOptionAndChunk) {
  const HeadInputs in;
  for (const HeadCase& c : kHeadCases) {
    for (std::int64_t chunk : {0, 1, 3, 7, 100}) {
      SCOPED_TRACE(std::string(c.name) + ", chunk " + std::to_string(chunk));
      LinearCrossEntropyOptions o = in.options(c);
      o.chunk = chunk;
      o.reduction = Reduction::none;
      const std::vector<double> rows = in.reference(o);
      expect_near(linear_cross_entropy(in.x, in.head, in.target, o), rows, 1e-12);
      double total = 0, weights = 0;
      const std::vector<std::int64_t> y = in.target.to_vector<std::int64_t>();
      const std::vector<double> w = in.weight.to_vector();
      for (std::size_t r = 0; r < rows.size(); ++r) {
        total += rows[r];
        if (y[r] != -100) weights += c.weight ? w[static_cast<std::size_t>(y[r])] : 1;
      }
      o.reduction = Reduction::sum;
      EXPECT_NEAR(linear_cross_entropy(in.x, in.head, in.target, o).item(), total, 1e-11);
      o.reduction = Reduction::mean;
      EXPECT_NEAR(linear_cross_entropy(in.x, in.head, in.target, o).item(), total / weights, 1e-12);
    }
  }
}

TEST(LinearCrossEntropy, GradientsAreThoseOfDifferencesForEveryOption) {
  const Tensor x = values({4, 3}, 1, 2), head = values({6, 3}, 2), bias = values({6}, 3), weight = positive({6}, 4);
  const Tensor target = where(arange(4) == 1, -100, classes(4, 6));
  for (const HeadCase& c : kHeadCases) {
    for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      SCOPED_TRACE(c.name);
      auto f = [&](const std::vector<Tensor>& v) {
        LinearCrossEntropyOptions o;
        o.bias = v[2];
        if (c.weight) o.weight = weight;
        o.label_smoothing = c.label_smoothing;
        o.z_loss = c.z_loss;
        o.softcap = c.softcap;
        o.reduction = reduction;
        o.chunk = 3;
        return linear_cross_entropy(v[0], v[1], target, o);
      };
      require_gradients(f, {x, head, bias});
      require_second_gradients(f, {x, head, bias});
    }
  }
}

TEST(LinearCrossEntropy, ClassWeightsHaveGradientsToo) {
  const Tensor x = values({4, 3}, 1, 2), head = values({6, 3}, 2), target = classes(4, 6);
  auto f = [&](const std::vector<Tensor>& v) {
    return linear_cross_entropy(v[0], head, target, {.weight = v[1], .label_smoothing = 0.1});
  };
  require_gradients(f, {x, positive({6}, 4)});
}

TEST(LinearCrossEntropy, AgreesWithPyTorch) {
  const Tensor x = values({6, 4}, 1), head = values({9, 4}, 2), bias = values({9}, 3), weight = positive({9}, 4);
  const Tensor target = where(arange(6) == 2, -100, classes(6, 9));
  const auto check = [&](LinearCrossEntropyOptions o, const std::vector<double>& loss, const std::vector<double>& dx,
                         const std::vector<double>& dhead, const std::vector<double>& dbias) {
    const Tensor vx = variable(x), vh = variable(head), vb = variable(bias);
    o.bias = vb;
    const Tensor l = linear_cross_entropy(vx, vh, target, o);
    expect_near(l, loss, 1e-12);
    const Tensor grad = values(l.shape(), 5);
    Gradients g = backward(l, {.grad = grad});
    expect_near(g[vx], dx, 1e-12);
    expect_near(g[vh], dhead, 1e-12);
    expect_near(g[vb], dbias, 1e-12);
    const LinearCrossEntropyGradients by_hand = linear_cross_entropy_backward(grad, x, head, target, o);
    expect_near(by_hand.x, dx, 1e-12);
    expect_near(by_hand.head, dhead, 1e-12);
    expect_near(by_hand.bias, dbias, 1e-12);
  };
  using namespace golden;
  check({}, linear_plain, linear_plain_x, linear_plain_head, linear_plain_bias);
  check({.weight = weight}, linear_weighted, linear_weighted_x, linear_weighted_head, linear_weighted_bias);
  check({.weight = weight, .label_smoothing = 0.1}, linear_smooth, linear_smooth_x, linear_smooth_head,
        linear_smooth_bias);
  check({.reduction = Reduction::sum}, linear_total, linear_total_x, linear_total_head, linear_total_bias);
  check({.reduction = Reduction::none}, linear_rows, linear_rows_x, linear_rows_head, linear_rows_bias);
}

TEST(LinearCrossEntropy, ValueAndGradientsTogetherAreOneCall) {
  const Tensor x = variable(values({5, 3}, 1)), head = variable(values({8, 3}, 2));
  const Tensor loss = linear_cross_entropy(x, head, classes(5, 8));
  const Gradients g = backward(loss);
  const std::string text = print_schedule({loss, g[x], g[head]});
  std::size_t calls = 0;
  for (std::size_t at = text.find("call "); at != std::string::npos; at = text.find("call ", at + 1)) ++calls;
  EXPECT_EQ(calls, 1u) << text;
}

TEST(LinearCrossEntropy, ALossOfTheLossTakesItsValueFirst) {
  const Tensor x = values({5, 3}, 1), head = values({8, 3}, 2), target = classes(5, 8);
  require_gradients([&](const std::vector<Tensor>& v) { return square(linear_cross_entropy(v[0], v[1], target)); },
                    {x, head});
  // The value first, the gradient later: the same numbers.
  const Tensor vx = variable(x);
  const Tensor loss = linear_cross_entropy(vx, head, target);
  const double value = loss.item();
  const Tensor g = backward(loss)[vx];
  const Tensor vy = variable(x);
  const Tensor again = linear_cross_entropy(vy, head, target);
  EXPECT_TRUE(testing::same_bits(g, backward(again)[vy]));
  EXPECT_EQ(value, again.item());
}

TEST(LinearCrossEntropy, OutputsThatAreAskedForLaterAreThere) {
  const Tensor x = variable(values({5, 3}, 1)), head = variable(values({8, 3}, 2));
  const Tensor loss = linear_cross_entropy(x, head, classes(5, 8));
  const Gradients g = backward(loss, {.keep_history = true});
  const double value = loss.item();
  expect_near(g[x] * 2, (2 * g[x]).to_vector(), 0);
  Eager eager;
  const Tensor y = variable(values({5, 3}, 1)), other = variable(values({8, 3}, 2));
  const Tensor now = linear_cross_entropy(y, other, classes(5, 8));
  const Gradients h = backward(now);
  EXPECT_EQ(now.item(), value);
  EXPECT_TRUE(testing::same_bits(h[y], g[x]));
  EXPECT_TRUE(testing::same_bits(h[other], g[head]));
}

TEST(LinearCrossEntropy, BitsDoNotDependOnThreads) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor x = cast(values({150, 64}, 1), dtype).eval(), head = cast(values({3000, 64}, 2), dtype).eval();
    const Tensor bias = cast(values({3000}, 3), dtype).eval(), target = classes(150, 3000).eval();
    testing::expect_same_for_all_threads([&]() -> std::vector<Tensor> {
      const Tensor vx = variable(x), vh = variable(head), vb = variable(bias);
      const Tensor loss = linear_cross_entropy(vx, vh, target, {.bias = vb, .label_smoothing = 0.1, .chunk = 64});
      const Gradients g = backward(loss);
      return {loss, g[vx], g[vh], g[vb]};
    });
  }
}

TEST(LinearCrossEntropy, HalvesAreComputedInSingleAndRoundedOnce) {
  for (const auto& [dtype, instructions] : testing::kRoundings) {
    const testing::Bf16Instructions scope(instructions);
    // Ten rows are fewer than the width: then the head's gradient is not summed as a whole.
    for (const std::int64_t rows : {40, 10}) {
      const Tensor x = cast(values({rows, 16}, 1), dtype), head = cast(values({300, 16}, 2), dtype);
      const Tensor target = where(arange(rows) == 7, -100, classes(rows, 300));
      const auto run = [&](const Tensor& a, const Tensor& b, std::int64_t chunk) -> std::vector<Tensor> {
        const Tensor va = variable(a), vb = variable(b);
        const Tensor loss =
            linear_cross_entropy(va, vb, target, {.label_smoothing = 0.1, .reduction = Reduction::sum, .chunk = chunk});
        const Gradients g = backward(loss);
        return {loss, g[va], g[vb]};
      };
      const std::vector<Tensor> exact = run(cast(x, DType::f64), cast(head, DType::f64), 0);
      for (std::int64_t chunk : {0, 16, 3})  // one chunk, and several: halves then compute dW in other ways
        testing::expect_rounded_once(run(x, head, chunk), exact, dtype, 3e-6);
    }
  }
}

// Besides inputs and gradients: the logits of a chunk, the sum of a half head's gradient where that is no larger than
// all logits (on a GPU whatever its size), and small buffers of gemm and rows.
TEST(LinearCrossEntropy, MemoryIsBoundedByTheChunk) {
  struct Size {
    std::int64_t rows, width, classes, chunk;
    DType dtype;
  };
  for (const Size& s : {Size{256, 16, 32000, 16, DType::f32}, Size{64, 16, 128256, 16, DType::f32},
                        Size{64, 16, 128256, 16, DType::bf16}, Size{200, 208, 32000, 16, DType::bf16},
                        Size{256, 16, 32000, 0, DType::f32}}) {
    const Tensor x = cast(randn({s.rows, s.width}), s.dtype).eval();
    const Tensor head = cast(randn({s.classes, s.width}) * 0.1, s.dtype).eval();
    const Tensor target = randint(0, s.classes, {s.rows}).eval();
    const std::size_t element = size_of(s.dtype);
    const std::size_t gradients = static_cast<std::size_t>((s.rows + s.classes) * s.width) * element;
    const std::size_t rows = static_cast<std::size_t>(s.chunk ? s.chunk : s.rows);
    const std::size_t logits = rows * static_cast<std::size_t>(s.classes) * 4;
    const std::size_t all_logits = static_cast<std::size_t>(s.rows * s.classes) * 4;
    const bool sums = s.dtype == DType::bf16 && s.chunk && (s.width <= s.rows || testing::on_gpu());
    const std::size_t sum = sums ? static_cast<std::size_t>(s.classes * s.width) * 4 : 0;
    // A block of the gradient of a half head is 4 MiB; every thread packs its blocks in memory of its own, and as f32
    // where the processor does not multiply bf16 (1,472 KiB on a Cascade Lake).
    const std::size_t small_change =
        (std::size_t{5} << 20) + (std::size_t{1800} << 10) * static_cast<std::size_t>(num_threads());
    synchronize(default_device());  // work in progress has memory of its own
    const std::size_t live = memory_stats().live;
    reset_peak_memory();
    {
      const Tensor vx = variable(x), vh = variable(head);
      const Tensor loss = linear_cross_entropy(vx, vh, target, {.chunk = s.chunk});
      const Gradients g = backward(loss);
      loss.eval();
      EXPECT_TRUE(g[vh].evaluated());
    }
    const std::size_t peak = memory_stats().peak - live;
    EXPECT_LE(peak, gradients + logits + sum + small_change) << s.classes << " classes";
    if (s.chunk) EXPECT_LT(peak, all_logits + (testing::on_gpu() ? sum : 0));
    // The value alone needs no gradients.
    reset_peak_memory();
    linear_cross_entropy(variable(x), variable(head), target, {.chunk = s.chunk}).eval();
    EXPECT_LE(memory_stats().peak - live, logits + small_change);
  }
}

TEST(LinearCrossEntropy, ExtremeAndEmptyInputs) {
  const Tensor head = values({4, 3}, 2);
  // All rows are ignored: the mean is NaN, the gradient 0.
  const Tensor x = variable(values({2, 3}, 1)), w = variable(head);
  const Tensor loss = linear_cross_entropy(x, w, full({2}, -100));
  const Gradients g = backward(loss);
  EXPECT_TRUE(std::isnan(loss.item()));
  expect_near(g[x], std::vector<double>(6, 0.0), 0);
  expect_near(g[w], std::vector<double>(12, 0.0), 0);
  // No rows.
  const Tensor none = variable(zeros({0, 3}, DType::f64));
  EXPECT_TRUE(std::isnan(linear_cross_entropy(none, head, zeros({0}, DType::i64)).item()));
  const Tensor sum = linear_cross_entropy(none, w, zeros({0}, DType::i64), {.reduction = Reduction::sum});
  const Gradients e = backward(sum);
  EXPECT_EQ(sum.item(), 0);
  expect_near(e[w], std::vector<double>(12, 0.0), 0);
  // One class: certain. Logits of ±1e4: finite.
  EXPECT_EQ(linear_cross_entropy(values({2, 3}, 1), values({1, 3}, 2), zeros({2}, DType::i64)).item(), 0);
  const Tensor big = variable(values({2, 3}, 1, 1e4));
  const Tensor large = linear_cross_entropy(big, head, tensor({0, 1}));
  const Tensor slope = backward(large)[big];
  EXPECT_TRUE(std::isfinite(large.item()));
  for (double v : slope.to_vector()) EXPECT_TRUE(std::isfinite(v));
}

TEST(LinearCrossEntropy, RowsThatDoNotCountTakePartInNothing) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = cast(values({30, 8}, 1), dtype), head = cast(values({50, 8}, 2), dtype);
    const Tensor rows = arange(0, 30, 3), target = where(remainder(arange(30), 3) == 0, classes(30, 50), -100);
    const auto run = [&](const Tensor& at, const Tensor& y) -> std::vector<Tensor> {
      const Tensor v = variable(at), w = variable(head);
      const Tensor loss = linear_cross_entropy(v, w, y, {.chunk = 4});
      const Gradients g = backward(loss);
      return {loss, g[v], g[w]};
    };
    const auto some = run(x, target), few = run(index_select(x, 0, rows), index_select(target, 0, rows));
    EXPECT_EQ(some[0].item(), few[0].item());
    EXPECT_TRUE(testing::same_bits(index_select(some[1], 0, rows), few[1]));
    if (testing::on_gpu()) {  // they take places of the chunks, as zeros: sums over chunks are divided differently
      expect_near(some[2], few[2].to_vector(), dtype == DType::f32 ? 1e-7 : 1e-3);
    } else {
      EXPECT_TRUE(testing::same_bits(some[2], few[2]));
    }
    EXPECT_EQ(sum(abs(some[1][1])).item(), 0);
  }
}

TEST(LinearCrossEntropy, TakesAnyLeadingAxesIndicesOfBothTypesAndViews) {
  const Tensor x = values({2, 3, 4}, 1), head = values({4, 9}, 2);
  const Tensor target = reshape(classes(6, 9), {2, 3});
  const Tensor rows = linear_cross_entropy(x, t(head), cast(target, DType::i32), {.reduction = Reduction::none});
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  const Tensor flat = linear_cross_entropy(reshape(x, {6, 4}), contiguous(t(head)), reshape(target, {6}),
                                           {.reduction = Reduction::none});
  EXPECT_TRUE(testing::same_bits(rows, flat));
  const Tensor log_probs = linear_log_probs(x, t(head), target);
  expect_near(log_probs, (-rows).to_vector(), 0);
  expect_near(linear_sequence_log_probs(x, t(head), target), sum(-rows, -1).to_vector(), 1e-15);
  const Tensor warm = linear_log_probs(x, t(head), target, {.temperature = 2});
  expect_near(warm, linear_log_probs(0.5 * x, t(head), target).to_vector(), 1e-14);
}

// Probabilities use ordinary operations, a chunk of rows at a time; the gradients are those of the whole.
TEST(LinearCrossEntropy, TakesProbabilities) {
  const Tensor x = randn({9, 4}, DType::f64), head = randn({5, 4}, DType::f64), bias = randn({5}, DType::f64);
  const Tensor p = softmax(randn({9, 5}, DType::f64));
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const LinearCrossEntropyOptions o{
        .bias = bias, .label_smoothing = 0.1, .z_loss = 0.01, .softcap = 3, .reduction = reduction, .chunk = 4};
    const CrossEntropyOptions plain{.label_smoothing = 0.1, .z_loss = 0.01, .softcap = 3, .reduction = reduction};
    const Tensor logits = linear(x, head, bias), loss = linear_cross_entropy(x, head, p, o);
    EXPECT_TRUE(allclose(loss, cross_entropy(logits, p, plain), {.rtol = 1e-12}));
    const Tensor g = randn(loss.shape(), DType::f64);
    const LinearCrossEntropyGradients found = linear_cross_entropy_backward(g, x, head, p, o);
    const LossGradients behind = cross_entropy_backward(g, logits, p, plain);
    const auto [of_x, of_head, of_bias] = linear_backward(behind.input, x, head);
    EXPECT_TRUE(allclose(found.x, of_x, {.rtol = 1e-10, .atol = 1e-14}));
    EXPECT_TRUE(allclose(found.target, behind.target, {.rtol = 1e-10, .atol = 1e-14}));
    EXPECT_TRUE(allclose(found.head, of_head, {.rtol = 1e-10, .atol = 1e-14}));
    EXPECT_TRUE(allclose(found.bias, of_bias, {.rtol = 1e-10, .atol = 1e-14}));
  }
}

// A head [V, d1, d2, H] is d1·d2 heads; a mean is over all their rows together.
TEST(LinearCrossEntropy, TakesHeadsWithFurtherAxes) {
  const Tensor x = randn({6, 4}, DType::f64), head = randn({5, 2, 3, 4}, DType::f64);
  const Tensor bias = randn({5, 2, 3}, DType::f64), weight = rand({5}, DType::f64);
  Tensor y = randint(0, 5, {6, 2, 3});
  y = where(y == 3, -100, y);
  const Tensor logits = reshape(linear(x, reshape(head, {30, 4}), reshape(bias, {30})), {6, 5, 2, 3});
  const Tensor p = softmax(randn({6, 5, 2, 3}, DType::f64), 1);
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const LinearCrossEntropyOptions o{.bias = bias, .weight = weight, .reduction = reduction};
    const CrossEntropyOptions plain{.weight = weight, .reduction = reduction};
    EXPECT_TRUE(allclose(linear_cross_entropy(x, head, y, o), cross_entropy(logits, y, plain), {.rtol = 1e-12}));
    EXPECT_TRUE(allclose(linear_cross_entropy(x, head, p, o), cross_entropy(logits, p, plain), {.rtol = 1e-12}));
  }
  EXPECT_THROW_MESSAGE(linear_cross_entropy(x, head, zeros({6, 2}, DType::i64)), "give [6, 2, 3]");
}

TEST(LinearCrossEntropy, NamesWhatIsWrong) {
  const Tensor x = values({4, 3}), head = values({10, 3});
  EXPECT_THROW_KIND(linear_cross_entropy(x, head, tensor({1, 2, 3, 17})).eval(), index,
                    "linear_cross_entropy: target[3] = 17 is outside [0, 10)");
  EXPECT_THROW_MESSAGE(linear_cross_entropy(x, head, tensor({1, 2, 3, 17}), {.weight = ones({10}, DType::f64)}).eval(),
                       "target[3] = 17 is outside [0, 10)");
  EXPECT_THROW_KIND(linear_cross_entropy(x, head, values({4})), type, "must be class indices");
  EXPECT_THROW_MESSAGE(linear_cross_entropy(x, values({10, 4}), classes(4, 10)), "do not fit");
  EXPECT_THROW_MESSAGE(linear_cross_entropy(x, head, classes(3, 10)), "target of shape [3]");
  EXPECT_THROW_MESSAGE(linear_cross_entropy(x, head, classes(4, 10), {.weight = values({9})}),
                       "weight of shape [9] does not fit 10 classes");
  EXPECT_THROW_MESSAGE(linear_cross_entropy(x, head, classes(4, 10), {.label_smoothing = 2}), "label_smoothing");
  EXPECT_THROW_MESSAGE(linear_cross_entropy(x, head, classes(4, 10), {.reduction = Reduction::batchmean}), "reduction");
}

}  // namespace
}  // namespace ebb
