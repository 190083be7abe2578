// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ebb/ebb.h"
#include "ebb/gradcheck.h"
#include "ebb/memory.h"
#include "expect_error.h"
#include "network/compare.h"
#include "test_device.h"

namespace ebb {
namespace {

using testing::expect_close;
using testing::values;
using Many = std::vector<Tensor>;

// ---- norms ----------------------------------------------------------------------------------------------------------

BatchNormOptions training() {
  BatchNormOptions o;
  o.training = true;
  return o;
}

TEST(BatchNorm, NormalizesChannelsAndMovesTheStatistics) {
  for (const Shape& shape : {Shape{6, 3}, Shape{4, 3, 5}, Shape{4, 3, 2, 5}}) {
    const Tensor x = values(shape, 1) * 3 + 2, w = values({3}, 2), b = values({3}, 3);
    const auto [y, mean_after, var_after] =
        batch_norm(x, zeros({3}, DType::f64), ones({3}, DType::f64), w, b, training());
    for (std::int64_t c = 0; c < 3; ++c) {
      const Tensor channel = select(x, 1, c), centred = channel - mean(channel);
      expect_close(select(y, 1, c), centred / sqrt(mean(square(centred)) + 1e-5) * select(w, 0, c) + select(b, 0, c));
      EXPECT_NEAR(select(mean_after, 0, c).item(), 0.1 * mean(channel).item(), 1e-12);
      EXPECT_NEAR(select(var_after, 0, c).item(), 0.9 + 0.1 * var(channel).item(), 1e-12);
    }
    const Tensor evaluated = batch_norm(x, mean_after, var_after, w, b).y;
    const auto beside = [&](const Tensor& v) {
      return reshape(v, Sizes(shape.rank() == 2 ? Shape{3} : shape.rank() == 3 ? Shape{3, 1} : Shape{3, 1, 1}));
    };
    expect_close(evaluated, (x - beside(mean_after)) / sqrt(beside(var_after) + 1e-5) * beside(w) + beside(b));
  }
}

TEST(ChannelNorms, GradientsAreSlopesTwice) {
  const Tensor x = values({2, 4, 3}, 1), w = values({4}, 2), b = values({4}, 3);
  const FunctionOfMany norms[] = {
      [](const Many& in) { return batch_norm(in[0], {}, {}, in[1], in[2], training()).y; },
      [](const Many& in) {
        return batch_norm(in[0], full({4}, 0.3, DType::f64), full({4}, 2.0, DType::f64), in[1], in[2]).y;
      },
      [](const Many& in) { return group_norm(in[0], 2, in[1], in[2]); },
      [](const Many& in) { return instance_norm(in[0], in[1], in[2]); },
  };
  GradcheckOptions loose;  // differences of gradients: a digit less than differences of values
  loose.rtol = 1e-5, loose.atol = 1e-6;
  for (const FunctionOfMany& f : norms) {
    const GradcheckReport first = check_gradients(f, {x, w, b}), second = check_second_gradients(f, {x, w, b}, loose);
    EXPECT_TRUE(first.passed()) << first;
    EXPECT_TRUE(second.passed()) << second;
  }
}

TEST(ChannelNorms, GroupsOfAnyShapeHaveTheirGradients) {
  for (const Shape& shape : {Shape{3, 4}, Shape{2, 6, 1}, Shape{1, 6, 5}, Shape{2, 4, 2, 3}, Shape{2, 2, 2, 1, 2}}) {
    const std::int64_t channels = shape[1];
    const Tensor x = values(shape, 1), w = values({channels}, 2), b = values({channels}, 3);
    for (const std::int64_t groups : {std::int64_t{1}, std::int64_t{2}, channels}) {
      if (x.numel() / shape[0] / groups == 1) continue;  // each number is its group's mean
      const auto passes = [&](const FunctionOfMany& f, const Many& in) {
        const GradcheckReport report = check_gradients(f, in);
        EXPECT_TRUE(report.passed()) << report << shape.str() << " in groups of " << groups;
      };
      passes([&](const Many& in) { return group_norm(in[0], groups); }, {x});
      passes([&](const Many& in) { return group_norm(in[0], groups, in[1]); }, {x, w});
      passes([&](const Many& in) { return group_norm(in[0], groups, {}, in[1]); }, {x, b});
      passes([&](const Many& in) { return group_norm(in[0], groups, in[1], in[2]); }, {x, w, b});
      passes([&](const Many& in) { return group_norm(x, groups, in[0], in[1]); }, {w, b});
    }
  }
}

// The sums over a channel come first, so that no product of cotangent, weight and normalized image is kept.
TEST(ChannelNorms, GradientOfGroupsKeepsNothingOfTheImagesSize) {
  const Tensor x = variable(randn({8, 32, 4096}, DType::bf16).eval()), w = variable(randn({32}, DType::bf16).eval()),
               b = variable(randn({32}, DType::bf16).eval()), g = randn(x.shape(), DType::bf16).eval();
  const Device device = default_device();
  const std::size_t image = static_cast<std::size_t>(x.numel()) * 2, before = memory_stats(device).live;
  reset_peak_memory(device);
  const Tensor y = group_norm(x, 8, w, b);
  const Gradients all = backward(sum(y * g));
  eval({y, all[x], all[w], all[b]});
  // The tests' second device tells plans neither what a CPU nor what a GPU does; its kernels are recorded here.
  if (device == Device{} || testing::on_gpu()) {
    const std::size_t tiles = device == Device{} ? static_cast<std::size_t>(num_threads()) << 18 : 0;  // of each thread
    EXPECT_LT(memory_stats(device).peak - before, 2 * image + image / 4 + tiles);
  }
}

TEST(ChannelNorms, BackwardByHandIsTheBackwardPass) {
  const Tensor x = variable(values({3, 4, 5}, 1)), w = variable(values({4}, 2)), b = variable(values({4}, 3));
  const Tensor g = values({3, 4, 5}, 4);
  const auto compare = [&](const Tensor& y, const LayerNormGradients& by_hand) {
    BackwardOptions options;
    options.grad = g;
    const Gradients all = backward(y, options);
    expect_close(by_hand.input, all[x]);
    expect_close(by_hand.weight, all[w]);
    expect_close(by_hand.bias, all[b]);
  };
  const Tensor m = values({4}, 5), v = square(values({4}, 6));
  compare(batch_norm(x, {}, {}, w, b, training()).y, batch_norm_backward(g, x, {}, {}, w, training()));
  compare(batch_norm(x, m, v, w, b).y, batch_norm_backward(g, x, m, v, w));
  compare(group_norm(x, 2, w, b), group_norm_backward(g, x, 2, w));
  compare(instance_norm(x, w, b), instance_norm_backward(g, x, w));
}

// The means in the gradient of x are the sums of the weight's and the bias's: with those of the statistics, four.
TEST(BatchNorm, GradientsShareTwoSums) {
  const auto x = variable(values({3, 4, 5}, 1)), w = variable(values({4}, 2)), b = variable(values({4}, 3));
  BackwardOptions options;
  options.grad = values({3, 4, 5}, 4);
  const Gradients all = backward(batch_norm(x, {}, {}, w, b, training()).y, options);
  const std::string text = print_schedule({all[x], all[w], all[b]});
  std::size_t sums = 0;
  for (const char* kind : {"row sum", "columns sum", "total sum"}) {
    for (std::size_t at = 0; (at = text.find(kind, at)) != std::string::npos; ++at) ++sums;
  }
  EXPECT_EQ(sums, 4u) << text;
}

TEST(ChannelNorms, GradientsHaveTheDTypesOfTheirOperands) {
  const auto of_batch = [](const Many& in) { return batch_norm(in[0], {}, {}, in[1], in[2], training()).y; };
  const auto of_groups = [](const Many& in) { return group_norm(in[0], 2, in[1], in[2]); };
  for (const FunctionOfMany& norm : {FunctionOfMany(of_batch), FunctionOfMany(of_groups)}) {
    const auto gradients = [&](DType of_x, DType of_w) {
      const Tensor x = variable(cast(values({3, 4, 5}, 1), of_x)), w = variable(cast(values({4}, 2), of_w)),
                   b = variable(cast(values({4}, 3), of_w));
      const Gradients all = backward(sum(square(cast(norm({x, w, b}), DType::f64))));
      for (const Tensor& t : {x, w, b}) EXPECT_EQ(all[t].dtype(), t.dtype());
      return std::pair{cast(all[x], DType::f64), cast(all[w], DType::f64)};
    };
    const auto [dx, dw] = gradients(DType::f64, DType::f64);
    for (const auto& [of_x, of_w] : {std::pair{DType::f64, DType::f32}, {DType::f32, DType::f64}}) {
      const auto [near_x, near_w] = gradients(of_x, of_w);
      expect_close(near_x, dx, 1e-4);
      expect_close(near_w, dw, 1e-4);
    }
  }
}

TEST(ChannelNorms, HalvesAreComputedWide) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = cast(values({4, 6, 5, 5}, 1) * 4 + 100, dtype), wide = cast(x, DType::f64);
    const double tolerance = dtype == DType::f16 ? 4e-3 : 3e-2;
    expect_close(batch_norm(x, {}, {}, {}, {}, training()).y, batch_norm(wide, {}, {}, {}, {}, training()).y,
                 tolerance);
    expect_close(group_norm(x, 3), group_norm(wide, 3), tolerance);
    expect_close(instance_norm(x), instance_norm(wide), tolerance);
  }
}

TEST(ChannelNorms, AnEmptyBatchIsEmptyAndErrorsSpeak) {
  const auto r = batch_norm(zeros({0, 3, 2}), zeros({3}), ones({3}), {}, {}, training());
  EXPECT_EQ(r.y.shape(), (Shape{0, 3, 2}));
  EXPECT_EQ(r.y.to_vector().size(), 0u);
  EXPECT_EQ(r.running_var.to_vector(), (std::vector<double>{1, 1, 1}));
  EXPECT_THROW_MESSAGE(batch_norm(zeros({2, 3}), {}, {}),
                       "batch_norm: without training, running statistics are needed");
  EXPECT_THROW_MESSAGE(batch_norm(zeros({1, 3}), {}, {}, {}, {}, training()), "one value per channel has no variance");
  EXPECT_THROW_MESSAGE(group_norm(zeros({2, 3, 4}), 2),
                       "group_norm: 3 channels of shape [2, 3, 4] cannot be divided into 2");
  EXPECT_THROW_MESSAGE(group_norm(zeros({2, 4}), 2, zeros({3})), "group_norm: weight has shape [3]");
}

// ---- attention ------------------------------------------------------------------------------------------------------

Tensor plain(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added, double scale) {
  Tensor s = matmul(q, transpose(k, -1, -2)) * scale;
  if (added.defined()) s = s + added;
  return matmul(softmax(s, -1), v);
}
Tensor causal_mask(std::int64_t t, std::int64_t s) {
  return where(arange(s) <= reshape(arange(t), {t, 1}), 0.0, -std::numeric_limits<double>::infinity());
}

TEST(Attention, IsTheFormulaForEverySizeOfBlock) {
  for (const auto& [t, s] : {std::pair{1, 1}, {5, 7}, {64, 256}, {65, 257}, {130, 600}}) {
    const Tensor q = values({2, 3, t, 8}, 1), k = values({2, 3, s, 8}, 2), v = values({2, 3, s, 5}, 3);
    const double scale = 1 / std::sqrt(8.0);
    expect_close(scaled_dot_product_attention(q, k, v), plain(q, k, v, {}, scale));
    AttentionOptions causal;
    causal.causal = true, causal.scale = 0.7;
    expect_close(scaled_dot_product_attention(q, k, v, causal), plain(q, k, v, causal_mask(t, s), 0.7));
    AttentionOptions masked;
    masked.mask = values({2, 1, 1, s}, 4);
    expect_close(scaled_dot_product_attention(q, k, v, masked), plain(q, k, v, masked.mask, scale));
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const Tensor a = cast(q, dtype), b = cast(k, dtype), c = cast(v, dtype);
      expect_close(scaled_dot_product_attention(a, b, c, causal),
                   plain(cast(a, DType::f64), cast(b, DType::f64), cast(c, DType::f64), causal_mask(t, s), 0.7),
                   dtype == DType::f32   ? 1e-5
                   : dtype == DType::f16 ? 4e-3
                                         : 3e-2);
    }
    // Heads taken from [batch, time, heads, width] are strided.
    const Tensor strided = transpose(contiguous(transpose(q, 1, 2)), 1, 2);
    expect_close(scaled_dot_product_attention(strided, k, v), plain(q, k, v, {}, scale));
  }
}

TEST(Attention, GradientsAreThoseOfTheFormula) {
  for (const auto& [t, s, batch] : {std::tuple{5, 7, 2}, {70, 300, 2}, {70, 300, 17}}) {
    for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const Tensor q = variable(values({batch, t, 8}, 1, dtype)), k = variable(values({batch, s, 8}, 2, dtype)),
                   v = variable(values({batch, s, 6}, 3, dtype));
      AttentionOptions o;
      o.causal = true;
      BackwardOptions with;
      with.grad = values({batch, t, 6}, 4, dtype);
      const Gradients got = backward(scaled_dot_product_attention(q, k, v, o), with);
      const Tensor a = variable(cast(q, DType::f64)), b = variable(cast(k, DType::f64)),
                   c = variable(cast(v, DType::f64));
      with.grad = cast(with.grad, DType::f64);
      const Gradients want = backward(plain(a, b, c, causal_mask(t, s), 1 / std::sqrt(8.0)), with);
      const double tolerance = dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 2e-4 : 0.3;
      expect_close(got[q], want[a], tolerance);
      expect_close(got[k], want[b], tolerance);
      expect_close(got[v], want[c], tolerance);
      const AttentionGradients by_hand = scaled_dot_product_attention_backward(cast(with.grad, dtype), q, k, v, o);
      expect_close(by_hand.q, got[q], 0);
      expect_close(by_hand.v, got[v], 0);
    }
  }
}

TEST(Attention, IsDifferentiableTwiceAndWithALearnedMask) {
  const Tensor q = values({2, 3, 2}, 1), k = values({2, 4, 2}, 2), v = values({2, 4, 3}, 3);
  GradcheckOptions loose;  // differences of gradients: a digit less than differences of values
  loose.rtol = 1e-5, loose.atol = 1e-6;
  const FunctionOfMany f = [](const Many& in) {
    AttentionOptions o;
    o.causal = true;
    return scaled_dot_product_attention(in[0], in[1], in[2], o);
  };
  const GradcheckReport first = check_gradients(f, {q, k, v}), second = check_second_gradients(f, {q, k, v}, loose);
  EXPECT_TRUE(first.passed()) << first;
  EXPECT_TRUE(second.passed()) << second;
  const GradcheckReport mask = check_gradients(FunctionOfMany([&](const Many& in) {
                                                 AttentionOptions o;
                                                 o.mask = in[0];
                                                 return scaled_dot_product_attention(q, k, v, o);
                                               }),
                                               {values({3, 4}, 5)});
  EXPECT_TRUE(mask.passed()) << mask;
}

// Several heads of queries share those of keys and values: as if these were repeated, and their gradients summed.
TEST(Attention, GroupedQueriesAreThoseOfRepeatedKeys) {
  const auto repeated = [](const Tensor& x) {
    const Shape s = x.shape();
    return reshape(broadcast_to(unsqueeze(x, 2), {s[0], s[1], 3, s[2], s[3]}), {s[0], 3 * s[1], s[2], s[3]});
  };
  for (const std::int64_t batch : {1, 9}) {  // threads of a CPU share the rows of a head, or heads
    if (batch > 1 && testing::on_emulated_gpu()) continue;
    for (const std::int64_t heads : {1, 2}) {
      const Tensor q = variable(values({batch, 3 * heads, 70, 4}, 1)), k = variable(values({batch, heads, 260, 4}, 2)),
                   v = variable(values({batch, heads, 260, 5}, 3));
      for (const Tensor& mask : {Tensor(), values({batch, 3 * heads, 70, 260}, 5)}) {
        const AttentionOptions o{.mask = mask, .causal = true};
        const Tensor got = scaled_dot_product_attention(q, k, v, o),
                     want = scaled_dot_product_attention(q, repeated(k), repeated(v), o);
        expect_close(got, want, 0);
        BackwardOptions with;
        with.grad = values({batch, 3 * heads, 70, 5}, 4);
        const Gradients a = backward(got, with), b = backward(want, with);
        expect_close(a[q], b[q], 1e-12);
        expect_close(a[k], b[k], 1e-11);
        expect_close(a[v], b[v], 1e-11);
        const AttentionGradients by_hand = scaled_dot_product_attention_backward(with.grad, q, k, v, o);
        expect_close(by_hand.k, a[k], 0);
        expect_close(by_hand.v, a[v], 0);
      }
    }
  }
  GradcheckOptions loose;
  loose.rtol = 1e-5, loose.atol = 1e-6;
  const FunctionOfMany f = [](const Many& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); };
  const GradcheckReport second =
      check_second_gradients(f, {values({1, 4, 3, 2}, 1), values({1, 2, 3, 2}, 2), values({1, 2, 3, 2}, 3)}, loose);
  EXPECT_TRUE(second.passed()) << second;
  EXPECT_THROW_MESSAGE(
      scaled_dot_product_attention(zeros({1, 5, 3, 2}), zeros({1, 2, 3, 2}), zeros({1, 2, 3, 2})),
      "scaled_dot_product_attention: q, k and v have 5, 2 and 2 heads; those of q must be a multiple of the others'");
}

TEST(Attention, ARowThatSeesNothingIsZeroWithGradientZero) {
  const Tensor q = variable(values({2, 4}, 1)), k = variable(values({3, 4}, 2)), v = variable(values({3, 4}, 3));
  AttentionOptions o;
  o.mask = from_data(std::vector<bool>{false, false, false, true, false, true}, {2, 3});
  const Tensor y = scaled_dot_product_attention(q, k, v, o);
  for (double x : select(y, 0, 0).to_vector()) EXPECT_EQ(x, 0);
  const Gradients g = backward(sum(square(scaled_dot_product_attention(q, k, v, o))));
  for (double x : select(g[q], 0, 0).to_vector()) EXPECT_EQ(x, 0);
  for (double x : g[k].to_vector()) EXPECT_TRUE(std::isfinite(x));
}

TEST(Attention, SameBitsForEveryNumberOfThreads) {
  const int before = num_threads();
  std::vector<double> first;
  for (int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    const Tensor q = variable(values({3, 200, 16}, 1, DType::f32)), k = variable(values({3, 500, 16}, 2, DType::f32));
    const Gradients g = backward(sum(square(scaled_dot_product_attention(q, k, k))));
    std::vector<double> now = g[q].to_vector();
    for (double x : g[k].to_vector()) now.push_back(x);
    if (threads == 1) first = now;
    EXPECT_EQ(now, first) << threads << " threads";
  }
  set_num_threads(before);
}

TEST(Attention, LongSequencesDoNotHoldTheScores) {
  const Tensor q = variable(values({1, 4096, 16}, 1, DType::f32));
  reset_peak_memory();
  const std::size_t start = memory_stats().live;
  eval({backward(sum(square(scaled_dot_product_attention(q, q, q))))[q]});
  EXPECT_LT(memory_stats().peak - start, std::size_t{4096} * 4096);  // a quarter of the scores
}

TEST(Attention, NothingAndErrors) {
  EXPECT_EQ(scaled_dot_product_attention(zeros({0, 4, 2}), zeros({0, 3, 2}), zeros({0, 3, 2})).to_vector().size(), 0u);
  EXPECT_THROW_MESSAGE(scaled_dot_product_attention(zeros({4, 2}), zeros({3, 3}), zeros({3, 2})),
                       "q, k and v of shapes [4, 2], [3, 3] and [3, 2] do not fit");
  AttentionOptions o;
  o.mask = zeros({2, 3});
  EXPECT_THROW_MESSAGE(scaled_dot_product_attention(zeros({4, 2}), zeros({3, 2}), zeros({3, 2}), o),
                       "a mask of shape [2, 3] does not broadcast to the scores' shape [4, 3]");
  manual_seed(1);
  o = {};
  o.dropout = 0.5;
  EXPECT_EQ(scaled_dot_product_attention(ones({4, 2}), ones({3, 2}), ones({3, 2}), o).shape(), (Shape{4, 2}));
}

}  // namespace
}  // namespace ebb
