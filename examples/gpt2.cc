// SPDX-License-Identifier: MIT
// GPT-2 in mixed precision: computes in bf16, updates f32 weights with AdamW, and stores neither attention scores nor
// logits. Without arguments a tiny one learns on the CPU; `gpt2 cuda` trains the one of 124 million parameters on a GPU
// and prints tokens per second.
//
//     gpt2 [DEVICE [STEPS [BATCH [LAYERS [WIDTH [RECOMPUTE]]]]]]
//
// RECOMPUTE: the number of blocks whose activation is recomputed in the backward pass, for less memory.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ebb/ebb.h"

using namespace ebb;

namespace {

struct Setting {
  std::int64_t vocabulary, context, width, heads, layers, batch, steps;
  std::int64_t recompute = 0;
};

struct Gpt {
  nn::Embedding tokens, positions;
  std::vector<nn::TransformerBlock> blocks;
  nn::LayerNorm norm;

  explicit Gpt(const Setting& s) : tokens(s.vocabulary, s.width), positions(s.context, s.width), norm(s.width) {
    tokens.weight = variable(0.02 * randn({s.vocabulary, s.width}));
    positions.weight = variable(0.02 * randn({s.context, s.width}));
    for (std::int64_t k = 0; k < s.layers; ++k)
      blocks.emplace_back(s.width, s.heads, nn::TransformerBlockOptions{.recompute_activation = k < s.recompute});
  }
  Tensor loss(const Tensor& x, const Tensor& next) const {
    Tensor h = tokens(x) + positions(arange(x.size(1)));
    for (const nn::TransformerBlock& block : blocks) h = block(h, {.causal = true});
    // On a GPU the logits are rounded as those of a Linear layer in bf16 would be.
    return linear_cross_entropy(norm(h), tokens.weight, next, {.round_logits = true});
  }
  template <class V>
  void visit(V&& v) {
    v("tokens", tokens);
    v("positions", positions);
    v("blocks", blocks);
    v("norm", norm);
  }
};

}  // namespace

int main(int count, char** arguments) {
  const auto argument = [&](int k, std::int64_t otherwise) {
    return k < count ? std::strtoll(arguments[k], nullptr, 10) : otherwise;
  };
  const bool on_gpu = count > 1 && std::string(arguments[1]) != "cpu";
  Setting s = on_gpu ? Setting{50304, 1024, 768, 12, 12, 16, 40} : Setting{96, 16, 32, 2, 2, 8, 60};
  s.steps = argument(2, s.steps);
  s.batch = argument(3, s.batch);
  s.layers = argument(4, s.layers);
  s.width = argument(5, s.width);
  s.recompute = argument(6, 0);
  s.heads = on_gpu ? s.width / 64 : s.heads;
  if (count > 1) set_default_device(device_from_name(arguments[1]));

  manual_seed(1);
  Gpt gpt(s);
  std::printf("%lld parameters, %lld tokens a step\n", static_cast<long long>(parameter_count(gpt)),
              static_cast<long long>(s.batch * s.context));
  // A synthetic language of 90 words: each word is a function of the previous one.
  const Tensor follows = argsort(rand({s.vocabulary}), 0).eval();
  AdamW adamw({.lr = on_gpu ? 6e-4 : 3e-3, .beta2 = 0.95, .weight_decay = 0.1, .decays = decay_matrices});
  double first = 0, last = 0;
  auto start = std::chrono::steady_clock::now();
  const std::int64_t warm_up = std::min<std::int64_t>(s.steps / 2, 12);  // kernels are compiled in these
  const std::int64_t report = on_gpu ? 40 : 10;                          // reading a loss waits for the GPU
  for (std::int64_t step = 0; step < s.steps; ++step) {
    const Tensor x = randint(0, 90, {s.batch, s.context});
    const Tensor next = reshape(index_select(follows, 0, flatten(x)), x.shape());
    const Tensor loss = cast_parameters(gpt, DType::bf16).loss(x, next);
    adamw.step(gpt, clip_by_norm(backward(loss), 1.0).gradients);  // evaluates the loss, too
    if (step % report == 0 || step + 1 == s.steps) {
      last = loss.item();
      if (step == 0) first = last;
      std::printf("step %3lld   loss %.4f\n", static_cast<long long>(step), last);
    }
    if (step + 1 == warm_up) {
      synchronize(default_device());
      start = std::chrono::steady_clock::now();
    }
  }
  if (on_gpu) {
    synchronize(default_device());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double tokens = static_cast<double>((s.steps - warm_up) * s.batch * s.context);
    std::printf("%.1f ms a step, %.0f tokens a second, %.2f GB at most\n",
                1e3 * seconds / static_cast<double>(s.steps - warm_up), tokens / seconds,
                1e-9 * static_cast<double>(memory_stats(default_device()).peak));
  }
  return last < 0.9 * first ? 0 : 1;
}
