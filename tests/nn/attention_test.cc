// SPDX-License-Identifier: MIT
#include "ebb/nn/attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "ebb/memory.h"
#include "ebb/random.h"
#include "expect_error.h"
#include "golden_layers.h"
#include "test_device.h"

// Attention and the transformer's layer: every way to mask, and dropout.
namespace ebb {
namespace {

using namespace nn;
using testing::f64;
using testing::follow;

TEST(AttentionLayer, GivesTheGoldenValues) {
  follow("attention", MultiheadAttention(8, 2, {.dtype = f64}), {2, 5, 8});
  const Tensor lower = unsqueeze(arange(5), 1) >= arange(5);
  for (const nn::AttentionCall& call : {nn::AttentionCall{.causal = true}, nn::AttentionCall{.mask = lower},
                                        nn::AttentionCall{.mask = where(lower, 0.0, -1e300)}}) {
    follow("attention_causal", MultiheadAttention(8, 4, {.dtype = f64}), {2, 5, 8},
           [&](auto& m, const Tensor& x) { return m(x, call); });
  }
  follow("attention_cross", MultiheadAttention(8, 2, {.dtype = f64}), {2, 5, 8},
         [](auto& m, const Tensor& x) { return m(x.slice(1, 0, 2), x.slice(1, 1, 5), x.slice(1, 1, 5) * 2.0); });
  follow("block", TransformerBlock(8, 2, {.hidden = 12, .dtype = f64}), {2, 5, 8},
         [](auto& m, const Tensor& x) { return m(x, {.causal = true}); });
  follow("block_norm_last", TransformerBlock(8, 2, {.hidden = 12, .norm_first = false, .relu = true, .dtype = f64}),
         {2, 5, 8});
}

TEST(AttentionLayer, DoesNotSeePadding) {
  const Tensor padding =
      from_data(std::vector<bool>{false, false, false, true, true, false, true, false, false, false}, {2, 5});
  follow("attention_padding", MultiheadAttention(8, 2, {.dtype = f64}), {2, 5, 8},
         [&](auto& m, const Tensor& x) { return m(x, {.key_padding_mask = padding}); });
  follow("block_padding", TransformerBlock(8, 2, {.hidden = 12, .dtype = f64}), {2, 5, 8},
         [&](auto& m, const Tensor& x) { return m(x, {.key_padding_mask = padding}); });
  // In addition to any other mask: only the flag, one of bool, one of numbers.
  const Tensor lower = unsqueeze(arange(5), 1) >= arange(5);
  const double never = -std::numeric_limits<double>::infinity();
  for (const nn::AttentionCall& call :
       {nn::AttentionCall{.causal = true, .key_padding_mask = padding},
        nn::AttentionCall{.mask = lower, .key_padding_mask = padding},
        nn::AttentionCall{.mask = cast(where(lower, 0.0, never), f64), .key_padding_mask = padding}}) {
    follow("attention_padding_causal", MultiheadAttention(8, 2, {.bias = false, .dtype = f64}), {2, 5, 8},
           [&](auto& m, const Tensor& x) { return m(x, call); });
  }
}

TEST(AttentionLayer, HasTorchsOptionsAndGivesItsWeights) {
  const Tensor padding =
      from_data(std::vector<bool>{false, false, false, true, true, false, true, false, false, false}, {2, 5});
  const nn::MultiheadAttentionOptions options{
      .add_bias_kv = true, .add_zero_attn = true, .kdim = 3, .vdim = 5, .dtype = f64};
  const Tensor lower = unsqueeze(arange(5), 1) >= arange(5);
  const double never = -std::numeric_limits<double>::infinity();
  for (const nn::AttentionCall& call :
       {nn::AttentionCall{.causal = true, .key_padding_mask = padding},
        nn::AttentionCall{.mask = lower, .key_padding_mask = padding},
        nn::AttentionCall{.mask = cast(where(lower, 0.0, never), f64), .key_padding_mask = padding}}) {
    const auto of = [&](const Tensor& x) { return std::pair{x.slice(2, 0, 3), x.slice(2, 3, 8)}; };
    follow("attention_more", MultiheadAttention(8, 2, options), {2, 5, 8}, [&](auto& m, const Tensor& x) {
      const auto [key, value] = of(x);
      return m(x, key, value, call);
    });
    follow("attention_more", MultiheadAttention(8, 2, options), {2, 5, 8}, [&](auto& m, const Tensor& x) {
      const auto [key, value] = of(x);
      return m.with_weights(x, key, value, call).first;
    });
    follow("attention_weights", MultiheadAttention(8, 2, options), {2, 5, 8}, [&](auto& m, const Tensor& x) {
      const auto [key, value] = of(x);
      return m.with_weights(x, key, value, call).second;
    });
  }
  follow("attention_weights_of_heads", MultiheadAttention(8, 2, {.dtype = f64}), {2, 5, 8},
         [](auto& m, const Tensor& x) { return m.with_weights(x, x, x, {.causal = true}, false).second; });
}

TEST(AttentionLayer, WeightsOfAQueryThatSeesNothingAreZero) {
  MultiheadAttention attention(4, 2);
  const Tensor x = variable(randn({1, 3, 4}));
  const auto [y, weights] = attention.with_weights(x, x, x, {.key_padding_mask = ones({1, 3}, DType::bool_)});
  EXPECT_EQ(weights.to_vector(), std::vector<double>(9, 0.0));
  EXPECT_TRUE(all(isfinite(backward(sum(square(y)))[x])).item<bool>());
}

TEST(AttentionLayer, OfARowOfPaddingAloneIsTheBias) {
  MultiheadAttention attention(4, 2);
  attention.out_proj.bias = variable(tensor({1.0, 2.0, 3.0, 4.0}));
  const Tensor y = attention(randn({1, 3, 4}), {.key_padding_mask = ones({1, 3}, DType::bool_)});
  EXPECT_EQ(y[0][1].to_vector(), (std::vector<double>{1, 2, 3, 4}));
}

TEST(AttentionLayer, NeverHoldsItsScores) {
  const std::int64_t length = testing::on_gpu() ? 8192 : 2048;  // a GPU stores up to 32 MiB of them at a time
  const MultiheadAttention attention(16, 2);
  const Tensor x = randn({1, length, 16}).eval();
  reset_peak_memory(default_device());
  const std::size_t before = memory_stats(default_device()).live;
  backward(sum(square(attention(x, {.causal = true}))))[attention.in_proj_weight].eval();
  EXPECT_LT(memory_stats(default_device()).peak - before,
            static_cast<std::size_t>(length * length) * sizeof(float) / 2);  // a quarter of two heads'
}

// The call writes its gradients where that of the projection is.
TEST(AttentionLayer, GradientsOfQueriesKeysAndValuesAreNotCopied) {
  const MultiheadAttention attention(16, 2);
  const Tensor g = backward(sum(square(attention(randn({2, 5, 16}), {.causal = true}))))[attention.in_proj_weight];
  EXPECT_NE(print_schedule({g}).find("call attention_gradient"), std::string::npos);
  EXPECT_EQ(print_schedule({g}).find("call cat"), std::string::npos) << print_schedule({g});
}

// Scores of 0 give weights of 1/4; values of the identity matrix show them.
TEST(AttentionLayer, DropsWeightsWhileTraining) {
  manual_seed(3);
  MultiheadAttention attention(4, 1, {.bias = false, .dropout = 0.5});
  attention.in_proj_weight = variable(cat({zeros({8, 4}), eye(4)}, 0));
  attention.out_proj.weight = variable(eye(4));
  const Tensor x = expand(eye(4), {64, 4, 4});
  int dropped = 0;
  for (double w : attention(x).to_vector()) {
    EXPECT_TRUE(w == 0 || std::abs(w - 0.5) < 1e-6) << w;  // (1/4)/(1 − 1/2)
    dropped += w == 0;
  }
  EXPECT_NEAR(dropped, 512, 64);
  set_training(attention, false);
  for (double w : attention(x).to_vector()) EXPECT_NEAR(w, 0.25, 1e-6);
}

TEST(TransformerLayer, DropsOnlyWhileTraining) {
  TransformerBlock block(8, 2, {.dropout = 0.5});
  const Tensor x = randn({2, 5, 8});
  EXPECT_FALSE(allclose(block(x), block(x)));
  set_training(block, false);
  EXPECT_TRUE(allclose(block(x), block(x)));
}

// A query's result does not depend on later positions, and a model of halves keeps its dtype.
TEST(TransformerLayer, IsCausalAndComputesInHalves) {
  const TransformerBlock block(8, 2);
  const Tensor x = randn({1, 6, 8});
  const Tensor whole = block(x, {.causal = true}), part = block(x.slice(1, 0, 4), {.causal = true});
  EXPECT_TRUE(allclose(whole.slice(1, 0, 4), part, {.rtol = 1e-5, .atol = 1e-6}));
  const Tensor half = cast_parameters(block, DType::bf16)(cast(x, DType::bf16), {.causal = true});
  EXPECT_EQ(half.dtype(), DType::bf16);
  EXPECT_TRUE(allclose(cast(half, DType::f32), whole, {.rtol = 0.1, .atol = 0.1}));
}

// Value and gradients are bit-identical, including dropout, and the activation is not kept.
TEST(TransformerLayer, MakesItsActivationAgain) {
  const Tensor x = randn({4, 32, 16}).eval(), weight = randn({4, 32, 16}).eval();
  for (const bool relu : {false, true}) {
    struct Made {
      std::vector<Tensor> tensors;
      std::size_t peak;
    };
    const auto make = [&](bool again) {
      manual_seed(7);
      const nn::TransformerBlockOptions options{
          .hidden = 1024, .dropout = 0.1, .relu = relu, .recompute_activation = again};
      std::vector<TransformerBlock> blocks{{16, 2, options}, {16, 2, options}, {16, 2, options}};
      for (const Parameter& p : parameters(blocks)) p.tensor->eval();
      const Tensor in = variable(x);
      Made made;
      const Device device = default_device();
      const std::size_t before = memory_stats(device).live;
      reset_peak_memory(device);
      Tensor y = in;
      for (const TransformerBlock& block : blocks) y = block(y);
      Gradients g = backward(sum(y * weight));
      made.tensors = {y, g[in]};
      for (const Parameter& p : parameters(blocks)) made.tensors.push_back(g[*p.tensor]);
      eval(made.tensors);
      made.peak = memory_stats(device).peak - before;
      return made;
    };
    const Made kept = make(false), again = make(true);
    ASSERT_EQ(kept.tensors.size(), again.tensors.size());
    for (std::size_t k = 0; k < kept.tensors.size(); ++k)
      EXPECT_EQ(kept.tensors[k].to_vector(), again.tensors[k].to_vector()) << k;
    EXPECT_LT(again.peak, kept.peak - 4 * 32 * 1024 * sizeof(float));  // one of three, at least
  }
}

TEST(AttentionLayer, SaysWhatIsWrong) {
  EXPECT_THROW_MESSAGE(MultiheadAttention(10, 3), "a width of 10 is not divisible by 3 heads");
  EXPECT_THROW_MESSAGE(MultiheadAttention(8, 2)(ones({5, 8})), "inputs must have shape [batch, time, 8], got [5, 8]");
  EXPECT_THROW_MESSAGE(MultiheadAttention(8, 2)(ones({2, 5, 8}), {.key_padding_mask = ones({2, 4}, DType::bool_)}),
                       "MultiheadAttention: key_padding_mask must be bool of shape [2, 5], got bool of shape [2, 4]");
  EXPECT_THROW_MESSAGE(MultiheadAttention(8, 2)(ones({2, 5, 8}), {.key_padding_mask = ones({2, 5})}),
                       "key_padding_mask must be bool of shape [2, 5], got f32 of shape [2, 5]");
}

}  // namespace
}  // namespace ebb
