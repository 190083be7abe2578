// SPDX-License-Identifier: MIT
#include "schedule/store_again.h"

#include <gtest/gtest.h>

#include "schedule/graphs.h"

// Activations that the backward pass stores again for its products, instead of holding them since the forward pass.
namespace ebb {
namespace {

using testing::Fused;
using testing::planned;

struct WideLayer {
  nn::LayerNorm norm{160};
  nn::Linear up{160, 512}, down{512, 160};
  template <class V>
  void visit(V&& v) {
    v("norm", norm);
    v("up", up);
    v("down", down);
  }
};

struct Net {
  std::vector<WideLayer> layers;
  std::vector<Tensor> activations, gradients;

  Net(int depth, std::int64_t rows) {
    manual_seed(1);
    layers = std::vector<WideLayer>(static_cast<std::size_t>(depth));
    for (const Parameter& p : parameters(layers)) p.tensor->eval();
    Tensor h = randn({rows, 160}).eval();
    for (const WideLayer& l : layers) {
      activations.push_back(gelu(l.up(l.norm(h))));
      h = h + l.down(activations.back());
    }
    const Gradients g = backward(mean(square(h)));
    for (const Parameter& p : parameters(layers)) gradients.push_back(g[*p.tensor]);
  }
  std::vector<Tensor> all() const {
    std::vector<Tensor> roots = gradients;
    roots.insert(roots.end(), activations.begin(), activations.end());
    return roots;
  }
};

constexpr std::int64_t kRows = 8192, kActivation = kRows * 512 * 4;  // bytes: just worth it

TEST(StoreAgain, AnotherLayerHoldsNoActivation) {
  ASSERT_EQ(kActivation, kScheduleModel.worth_storing_again);
  const auto peak = [](int depth, std::int64_t rows) {
    return static_cast<std::int64_t>(planned(Net(depth, rows).gradients).peak.bytes);
  };
  // The product that gelu is applied to, its error function, and two values of a third of the width.
  const std::int64_t more = peak(6, kRows) - peak(5, kRows);
  EXPECT_GE(more, kActivation);
  EXPECT_LT(more, 11 * kActivation / 4);
  // With half of the rows it is not worthwhile: the activation is held, too.
  EXPECT_GE(2 * (peak(6, kRows / 2) - peak(5, kRows / 2)), 3 * kActivation);
}

TEST(StoreAgain, GradientsHaveTheSameBits) {
  const Net held(3, kRows), again(3, kRows);
  EXPECT_LT(planned(again.gradients).peak.bytes + 2 * kActivation, planned(held.all()).peak.bytes);
  eval(held.all());
  eval(again.gradients);
  for (std::size_t k = 0; k < held.gradients.size(); ++k)
    EXPECT_EQ(held.gradients[k].to_vector(), again.gradients[k].to_vector()) << k;
  // A tensor that the caller holds can be read.
  for (std::size_t k = 0; k < held.activations.size(); ++k)
    EXPECT_EQ(held.activations[k].to_vector(), again.activations[k].to_vector()) << k;
}

TEST(StoreAgain, BySweepsThatReadAllOfIt) {
  const auto stored = [](const std::vector<Tensor>& roots, std::int64_t worth, double flops_per_byte = 16) {
    Fused f(roots, 4);
    const std::int64_t before = f.written();
    const bool changed = store_again_what_is_held(f.graph, f.fusion, flops_per_byte, worth);
    EXPECT_EQ(changed, f.written() > before);
    return f.written() - before;
  };
  const Net net(4, 256);
  // Norms and activations of the layers whose gradients come sufficiently later.
  EXPECT_GE(stored(net.gradients, 0), 3 * 256 * (512 + 160) * 4);
  EXPECT_EQ(stored(net.gradients, 256 * 512 * 4 + 1), 0);
  // The product with an activation takes 80 operations for each of its bytes, which is five writes at most.
  EXPECT_EQ(stored(net.gradients, 256 * 512 * 4, 17), 0);
  // Results are in memory anyway; the outputs of norms are not.
  EXPECT_LE(stored(net.all(), 0), 4 * 256 * 160 * 4);
  EXPECT_EQ(stored(net.all(), 256 * 512 * 4), 0);
}

}  // namespace
}  // namespace ebb
