// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/ebb.h"

// The networks that are trained in comparisons; bench/peers/models.py has them for the other frameworks.
namespace bench {

using namespace ebb;

struct Mlp {
  nn::Linear first, second, third;
  Mlp(std::int64_t in, std::int64_t hidden, std::int64_t out)
      : first(in, hidden), second(hidden, hidden), third(hidden, out) {}
  Tensor loss(const Tensor& x, const Tensor& y) { return cross_entropy(third(relu(second(relu(first(x))))), y); }
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
    v("third", third);
  }
};

inline nn::Conv2d convolution(std::int64_t in, std::int64_t out, int window, int stride) {
  return nn::Conv2d(in, out, window, {.stride = stride, .padding = window / 2, .bias = false});
}
// Statistics of the batch alone: no contender keeps running ones.
inline nn::BatchNorm batch_norm_of(std::int64_t channels) {
  return nn::BatchNorm(channels, {.track_running_stats = false});
}

struct BasicBlock {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm norm1, norm2;
  std::optional<nn::Conv2d> shortcut;
  std::optional<nn::BatchNorm> shortcut_norm;
  BasicBlock(std::int64_t in, std::int64_t out, int stride)
      : conv1(convolution(in, out, 3, stride)),
        conv2(convolution(out, out, 3, 1)),
        norm1(batch_norm_of(out)),
        norm2(batch_norm_of(out)) {
    if (stride == 1) return;
    shortcut = convolution(in, out, 1, stride);
    shortcut_norm = batch_norm_of(out);
  }
  Tensor operator()(const Tensor& x) {
    const Tensor h = norm2(conv2(relu(norm1(conv1(x)))));
    return relu(h + (shortcut ? (*shortcut_norm)((*shortcut)(x)) : x));
  }
  template <class V>
  void visit(V&& v) {
    v("conv1", conv1);
    v("norm1", norm1);
    v("conv2", conv2);
    v("norm2", norm2);
    v("shortcut", shortcut);
    v("shortcut_norm", shortcut_norm);
  }
};

// The residual network for small pictures (He et al., 2016): three stages, each half as large and twice as wide.
struct ResNet {
  nn::Conv2d stem;
  nn::BatchNorm norm;
  std::vector<BasicBlock> blocks;
  nn::Linear head;
  ResNet(std::int64_t width, int blocks_a_stage, std::int64_t classes)
      : stem(convolution(3, width, 3, 1)), norm(batch_norm_of(width)), head(4 * width, classes) {
    for (int stage = 0; stage < 3; ++stage) {
      for (int k = 0; k < blocks_a_stage; ++k) {
        const bool shrinks = stage > 0 && k == 0;
        blocks.emplace_back((width << stage) >> shrinks, width << stage, shrinks ? 2 : 1);
      }
    }
  }
  Tensor loss(const Tensor& x, const Tensor& y) {
    Tensor h = relu(norm(stem(x)));
    for (BasicBlock& block : blocks) h = block(h);
    return cross_entropy(head(mean(h, {2, 3})), y);
  }
  template <class V>
  void visit(V&& v) {
    v("stem", stem);
    v("norm", norm);
    v("blocks", blocks);
    v("head", head);
  }
};

struct GptSize {
  std::int64_t layers, width, heads, time, vocabulary, batch;
};
struct Gpt {
  nn::Embedding tokens, positions;
  std::vector<nn::TransformerBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  bool checkpointed;
  Gpt(const GptSize& s, bool recompute)
      : tokens(s.vocabulary, s.width),
        positions(s.time, s.width),
        blocks(static_cast<std::size_t>(s.layers), nn::TransformerBlock(s.width, s.heads)),
        norm(s.width),
        head(s.width, s.vocabulary, {.bias = false}),
        checkpointed(recompute) {}
  Tensor loss(const Tensor& x, const Tensor& y) {
    Tensor h = tokens(x) + positions.weight;
    for (const nn::TransformerBlock& block : blocks) {
      const auto layer = [&block](const Tensor& z) { return block(z, {.causal = true}); };
      h = checkpointed ? checkpoint(layer, h) : layer(h);
    }
    return linear_cross_entropy(norm(h), head.weight, y);
  }
  template <class V>
  void visit(V&& v) {
    v("tokens", tokens);
    v("positions", positions);
    v("blocks", blocks);
    v("norm", norm);
    v("head", head);
  }
};

}  // namespace bench
