// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "ebb/losses.h"
#include "ebb/nn.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "ebb/random.h"
#include "expect_error.h"
#include "golden_layers.h"

// Layers match torch.nn's, and models are values whose parameters have names.
namespace ebb {
namespace {

using namespace nn;

using testing::f64;
using testing::follow;
using testing::names;

TEST(Layers, GiveTheGoldenValues) {
  follow("linear", Linear(5, 3, {.dtype = f64}), {2, 4, 5});
  follow("linear_no_bias", Linear(5, 3, {.bias = false, .dtype = f64}), {4, 5});
  follow("embedding", Embedding(5, 3, {.padding_index = 2, .dtype = f64}), {1}, [](auto& m, const Tensor& x) {
    return m(tensor({{1, 2, 4}, {4, 0, 2}})) * x;
  });
  follow("layer_norm", LayerNorm(6, {.dtype = f64}), {3, 6});
  follow("rms_norm", RMSNorm(6, {.eps = 1e-6, .dtype = f64}), {3, 6});
  follow("sequential", Sequential(Linear(5, 8, {.dtype = f64}), Gelu{}, Linear(8, 2, {.dtype = f64})), {3, 5});
}

// ---- models ---------------------------------------------------------------------------------------------------------

struct Block {
  Linear inner{4, 4};
  LayerNorm norm{4};
  Dropout dropout{0.5};
  Tensor operator()(const Tensor& x) const { return x + dropout(inner(norm(x))); }
  template <class V>
  void visit(V&& v) {
    v("inner", inner);
    v("norm", norm);
    v("dropout", dropout);
  }
};

struct Model {
  std::vector<Block> blocks = std::vector<Block>(2);
  std::optional<Linear> head = Linear(4, 2, {.bias = false});
  Buffer calls{zeros({})};
  template <class V>
  void visit(V&& v) {
    v("blocks", blocks);
    v("head", head);
    v("calls", calls);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor h = x;
    for (const Block& b : blocks) h = b(h);
    return (*head)(h);
  }
};

TEST(Models, NameTheirParameters) {
  Model m;
  EXPECT_EQ(names(parameters(m)),
            (std::vector<std::string>{"blocks.0.inner.weight", "blocks.0.inner.bias", "blocks.0.norm.weight",
                                      "blocks.0.norm.bias", "blocks.1.inner.weight", "blocks.1.inner.bias",
                                      "blocks.1.norm.weight", "blocks.1.norm.bias", "head.weight"}));
  EXPECT_EQ(names(state(m)).back(), "calls");
  EXPECT_EQ(parameter_count(m), 2 * (16 + 4 + 4 + 4) + 8);
  Sequential s{Linear(2, 3), [](const Tensor& x) { return square(x); }, Linear(3, 1)};
  EXPECT_EQ(names(parameters(s)), (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
}

TEST(Models, AreValues) {
  Model m;
  const Tensor x = randn({3, 4});
  Model copy = m;
  set_training(m, false);
  set_training(copy, false);
  const Tensor before = m(x).eval();
  Sgd sgd({.lr = 1});
  sgd.step(m, backward(sum(m(x))));
  EXPECT_TRUE(allclose(copy(x), before));
  EXPECT_FALSE(allclose(m(x), before));
}

TEST(Models, DropOnlyWhileTraining) {
  Model m;
  const Tensor x = randn({3, 4});
  EXPECT_FALSE(allclose(m(x), m(x)));
  set_training(m, false);
  EXPECT_TRUE(allclose(m(x), m(x)));
  set_training(m, true);
  EXPECT_FALSE(allclose(m(x), m(x)));
}

TEST(Models, LearnInFewLines) {
  manual_seed(7);
  Sequential net{Linear(2, 16), Tanh{}, Linear(16, 2)};
  const Tensor x = randn({256, 2}).eval();
  const Tensor y = cast(x.slice(1, 0, 1) * x.slice(1, 1, 2) > 0.0, DType::i64);  // exclusive or
  const Tensor labels = reshape(y, {256}).eval();
  Adam adam({.lr = 0.05});
  for (int step = 0; step < 150; ++step) adam.step(net, backward(cross_entropy(net(x), labels)));
  EXPECT_GT(mean(cast(argmax(net(x), 1) == labels, DType::f32)).item(), 0.95);
}

// ---- initial values and errors --------------------------------------------------------------------------------------

TEST(Init, HasTheRightSpread) {
  manual_seed(1);
  const Shape shape{200, 300};
  EXPECT_NEAR(stddev(kaiming_normal(shape)).item(), std::sqrt(2.0 / 300), 1e-3);
  EXPECT_NEAR(stddev(kaiming_normal(shape, {.fan = Fan::out})).item(), std::sqrt(2.0 / 200), 1e-3);
  EXPECT_NEAR(stddev(kaiming_uniform(shape)).item(), std::sqrt(2.0 / 300), 1e-3);
  EXPECT_NEAR(stddev(xavier_normal(shape)).item(), std::sqrt(2.0 / 500), 1e-3);
  EXPECT_NEAR(max(abs(xavier_uniform(shape))).item(), std::sqrt(6.0 / 500), 1e-4);
  EXPECT_EQ(fans({8, 4, 3, 3}).in, 36);
  EXPECT_EQ(fans({8, 4, 3, 3}).out, 72);
  const Tensor t = truncated_normal(shape, {.mean = 1, .deviation = 2, .low = -1, .high = 3});
  EXPECT_GE(min(t).item(), -1);
  EXPECT_LE(max(t).item(), 3);
  EXPECT_NEAR(mean(t).item(), 1, 0.02);
  EXPECT_NEAR(stddev(t).item(), 2 * 0.5396, 0.01);  // a normal cut at one deviation
}

TEST(Init, OrthogonalIsOrthogonal) {
  for (const Shape& shape : {Shape{4, 9}, Shape{9, 4}, Shape{6, 2, 3}}) {
    const Tensor q = reshape(orthogonal(shape, 2, f64), {shape[0], -1});
    const Tensor product = q.size(0) <= q.size(1) ? matmul(q, t(q)) : matmul(t(q), q);
    EXPECT_TRUE(allclose(product, 4.0 * eye(product.size(0), {}, f64), {.atol = 1e-12})) << shape.str();
  }
}

TEST(Layers, BeginAsTorchDoes) {
  const Linear linear(100, 50);
  EXPECT_LE(max(abs(linear.weight)).item(), 0.1);
  EXPECT_GT(max(abs(linear.weight)).item(), 0.099);
  const Embedding embedding(10, 4, {.padding_index = 3});
  EXPECT_EQ(sum(abs(embedding.weight[3])).item(), 0);
  EXPECT_EQ(embedding(tensor({{1, 2}, {3, 4}})).shape(), (Shape{2, 2, 4}));
}

TEST(Layers, SayWhatIsWrong) {
  EXPECT_THROW_MESSAGE(Linear(5, 3)(ones({2, 4})), "Linear: the last size of the input must be 5, got shape [2, 4]");
  EXPECT_THROW_MESSAGE(Dropout(1.5), "Dropout: p must be in [0, 1], got 1.5");
  EXPECT_THROW_MESSAGE(Embedding(10, 4, {.padding_index = 10}), "padding_index 10 is outside [0, 10)");
  EXPECT_THROW_MESSAGE(kaiming_normal({5}), "fans need at least two dimensions, [out, in, ...], got shape [5]");
}

}  // namespace
}  // namespace ebb
