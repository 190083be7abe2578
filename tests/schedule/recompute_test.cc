// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "schedule/graphs.h"

// Values that sweeps recompute rather than keep, where special functions are cheap relative to memory.
namespace ebb {
namespace {

using testing::Fused;

constexpr int kCheap = 4, kNever = 0;

struct Layer {
  nn::LayerNorm norm{64};
  nn::Linear up{64, 256}, down{256, 64};
  template <class V>
  void visit(V&& v) {
    v("norm", norm);
    v("up", up);
    v("down", down);
  }
};

Tensor half(const Shape& shape) { return randn(shape, DType::bf16).eval(); }

TEST(Recompute, NothingInF32IsKeptForTheGradientOfGelu) {
  const Tensor x = variable(half({256, 64})), w = variable(half({512, 64})), b = variable(half({512})),
               v = variable(half({64, 512}));
  Gradients g = backward(3 * sum(matmul(gelu(linear(x, w, b)), transpose(v, 0, 1)) * half({256, 64})));
  const std::vector<Tensor> roots{g[x], g[w], g[b], g[v]};
  const Fused kept(roots, kNever), again(roots, kCheap);
  EXPECT_EQ(again.groups(), kept.groups());
  const auto large = [](const Fused& f) {
    int count = 0;
    for (std::size_t k = 0; k < f.graph.values.size(); ++k) {
      const Value& x = f.graph.values[k];
      count += f.fusion.places[k].in_memory && x.dtype == DType::f32 && x.shape.numel() > 512;
    }
    return count;
  };
  EXPECT_GT(large(kept), 0);
  EXPECT_EQ(large(again), 0);
}

TEST(Recompute, AsMuchAsItSaves) {
  const Tensor x = half({256, 256}), y = half({256, 256}), z = half({256, 256});
  // Two sweeps read exp(x): one more can read x instead.
  const Tensor e = exp(x);
  const auto roots = [](const Tensor& e) {
    return std::vector<Tensor>{matmul(e * 2.0, e * 3.0), matmul(cumsum(e * 5.0, 0) * e, e + 1.0)};
  };
  EXPECT_LE(Fused(roots(e), kCheap).written(), Fused(roots(e), kNever).written());
  // Roots, and values read by a call, are in memory anyway.
  EXPECT_EQ(Fused({e, cumsum(e, 0) * e}, kCheap).written(), Fused({e, cumsum(e, 0) * e}, kNever).written());
  // Three numbers instead of one: no.
  const Tensor s = x * y + z;
  const std::vector<Tensor> three{cumsum(square(s), 0) * s};
  EXPECT_EQ(Fused(three, kCheap).written(), Fused(three, kNever).written());
  // An expensive function: no.
  const std::vector<Tensor> dear{cumsum(e + 1.0, 0) * e};
  EXPECT_EQ(Fused(dear, 100).written(), Fused(dear, kNever).written());
  EXPECT_LT(Fused(dear, 1).written(), Fused(dear, kNever).written());
}

TEST(Recompute, SmallValuesAreKept) {
  const Tensor x = half({64, 64}), e = exp(x);
  EXPECT_EQ(Fused({cumsum(e + 1.0, 0) * e}, 1).written(), Fused({cumsum(e + 1.0, 0) * e}, kNever).written());
}

// Each further layer takes the same number of sweeps, however many there are: in each of them the parts of the backward
// pass that wait for the layer above find their sweep.
TEST(Recompute, DeepNetworksAreScheduledLikeShallowOnes) {
  const auto sweeps = [](int depth, int bytes_of_a_function) {
    std::vector<Layer> layers(static_cast<std::size_t>(depth));
    for (const Parameter& p : parameters(layers)) p.tensor->eval();
    Tensor h = half({4, 64, 64});
    for (const Layer& l : cast_parameters(layers, DType::bf16)) h = h + l.down(gelu(l.up(l.norm(h))));
    const Gradients g = backward(sum(h));
    std::vector<Tensor> roots;
    for (const Parameter& p : parameters(layers)) roots.push_back(g[*p.tensor]);
    return static_cast<int>(Fused(roots, bytes_of_a_function).groups());
  };
  for (const int cost : {kNever, kCheap}) {
    const int one_more = sweeps(4, cost) - sweeps(3, cost);
    EXPECT_EQ(sweeps(12, cost) - sweeps(4, cost), 8 * one_more) << cost;
    // Six parameters are cast, and two gradients of weights; each half of the layer has a sweep, forward and backward.
    EXPECT_EQ(one_more, 6 + 2 + 4) << cost;
  }
}

}  // namespace
}  // namespace ebb
