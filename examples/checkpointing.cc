// SPDX-License-Identifier: MIT
// Trains a deep network with little memory: checkpoint_sequential keeps the activations at the borders of its segments
// and recomputes those inside when the backward pass needs them, with the same dropout. The gradients are the same.
#include <cmath>
#include <cstdio>

#include "ebb/ebb.h"

using namespace ebb;

int main() {
  constexpr int kLayers = 36;
  constexpr std::int64_t kBatch = 512, kWidth = 128;
  manual_seed(1);
  std::vector<Tensor> weights;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(variable(randn({kWidth, kWidth}) * std::sqrt(2.0 / kWidth)));
  }
  eval(weights);
  const Tensor x = randn({kBatch, kWidth}).eval();
  std::vector<Function> layers;
  for (const Tensor& w : weights) {
    layers.push_back([w](const Tensor& h) { return h + 0.1 * dropout(gelu(matmul(h, w)), 0.1); });
  }

  std::vector<Tensor> plain_gradients;
  std::size_t plain_peak = 0;
  bool same = true;
  std::printf("%d layers, one activation is %.2f MiB\n", kLayers, kBatch * kWidth * 4 / 1048576.0);
  std::puts("segments   peak MiB   gradients");
  for (int segments : {0, 2, 3, 6, 12}) {  // 0: no checkpoints
    manual_seed(2);                        // the same dropout every time
    const std::size_t before = memory_stats().live;
    reset_peak_memory();
    Tensor h = x;
    if (segments == 0) {
      for (const Function& layer : layers) h = layer(h);
    } else {
      h = checkpoint_sequential(layers, segments, x);
    }
    Gradients g = backward(mean(square(h)));
    std::vector<Tensor> gradients;
    for (const Tensor& w : weights) gradients.push_back(g[w]);
    eval(gradients);
    const std::size_t peak = memory_stats().peak - before;
    if (segments == 0) {
      plain_gradients = gradients;
      plain_peak = peak;
      std::printf("   none   %8.1f\n", peak / 1048576.0);
      continue;
    }
    bool equal = true;
    for (int i = 0; i < kLayers; ++i) equal = equal && all(gradients[i] == plain_gradients[i]).item<bool>();
    same = same && equal && peak < plain_peak;
    std::printf("%7d   %8.1f   %s\n", segments, peak / 1048576.0, equal ? "the same bits" : "DIFFERENT");
  }
  return same ? 0 : 1;
}
