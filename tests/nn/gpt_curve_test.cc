// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <functional>

#include "ebb/losses.h"
#include "ebb/nn.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "first_values.h"
#include "golden_numbers.h"

// A small GPT in f32, from the same initial values on the same text, learns as in PyTorch.
namespace ebb {
namespace {

struct Gpt {
  nn::Embedding tokens{32, 16}, positions{8, 16};
  std::vector<nn::TransformerBlock> blocks{{16, 2}, {16, 2}};
  nn::LayerNorm norm{16};
  nn::Linear head{16, 32, {.bias = false}};
  template <class V>
  void visit(V&& v) {
    v("tokens", tokens);
    v("positions", positions);
    v("blocks", blocks);
    v("norm", norm);
    v("head", head);
  }
  Tensor features(const Tensor& x) const {
    Tensor h = tokens(x) + positions(arange(x.size(1)));
    for (const auto& block : blocks) h = block(h, {.causal = true});
    return reshape(norm(h), {-1, 16});
  }
};

void follow(const std::function<Tensor(const Gpt&, const Tensor&, const Tensor&)>& loss_of) {
  const std::vector<double> expected = testing::golden("nn/golden/curves.txt").at("gpt_adamw").at(0);
  ASSERT_EQ(expected.size(), 100u);
  std::vector<std::int64_t> text;
  for (std::int64_t i = 0; i < 36; ++i) text.push_back(i * i / 3 % 32);
  const Tensor all = from_data(text, {4, 9});
  const Tensor x = contiguous(all.slice(1, 0, 8)), y = reshape(all.slice(1, 1, 9), {-1});
  Gpt gpt = testing::with_first_values(Gpt{});
  AdamW adamw({.lr = 1e-3, .weight_decay = 0.1});
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const Tensor loss = loss_of(gpt, x, y);
    adamw.step(gpt, backward(loss));
    ASSERT_NEAR(loss.item(), expected[t], 1e-4 * expected[t]) << "step " << t;
  }
}

TEST(GptCurve, IsPyTorchs) {
  follow([](const Gpt& gpt, const Tensor& x, const Tensor& y) { return cross_entropy(gpt.head(gpt.features(x)), y); });
}

TEST(GptCurve, IsTheSameWithoutEverHoldingTheLogits) {
  follow([](const Gpt& gpt, const Tensor& x, const Tensor& y) {
    return linear_cross_entropy(gpt.features(x), gpt.head.weight, y);
  });
}

}  // namespace
}  // namespace ebb
