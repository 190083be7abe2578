// SPDX-License-Identifier: MIT
// A small GPT learns a text by heart in a few seconds: byte pairs, transformer blocks, and a loss that never stores all
// logits. Then it continues a few words.
#include <cstdio>
#include <string>

#include "ebb/ebb.h"

using namespace ebb;

namespace {

constexpr const char* kText =
    "The tide comes in and the tide goes out. It carries the sand to the shore, and it carries the sand away. "
    "Where the river meets the sea, the water is neither sweet nor salt. The fisher waits for the ebb to leave the "
    "harbour, and waits for the flood to come home. At the turn of the tide the water stands still, as if it had to "
    "remember which way to go. Then the boats swing round on their chains, all of them at once, and point to the "
    "sea. The gulls know it first. The children know it last, for they have built their castles too low again, and "
    "the moat they dug is full before they see it. What the flood takes from the castle the ebb spreads over the "
    "sand, and in the morning the shore is smooth, and nobody can tell where the castle stood.\n";

constexpr std::int64_t kWidth = 48, kContext = 24;

struct Gpt {
  nn::Embedding tokens, positions{kContext, kWidth};
  std::vector<nn::TransformerBlock> blocks{{kWidth, 4}, {kWidth, 4}};
  nn::LayerNorm norm{kWidth};

  explicit Gpt(std::int64_t vocabulary) : tokens(vocabulary, kWidth) {
    tokens.weight = variable(0.05 * randn({vocabulary, kWidth}));
    positions.weight = variable(0.05 * randn({kContext, kWidth}));
  }
  Tensor features(const Tensor& x) const {  // [batch, time] to [batch, time, width]
    Tensor h = tokens(x) + positions(arange(x.size(1)));
    for (const nn::TransformerBlock& block : blocks) h = block(h, {.causal = true});
    return norm(h);
  }
  // The embedding is also the head, and the logits [batch·time, vocabulary] exist only in chunks.
  Tensor loss(const Tensor& x, const Tensor& next) const {
    return linear_cross_entropy(features(x), tokens.weight, next);
  }
  template <class V>
  void visit(V&& v) {
    v("tokens", tokens);
    v("positions", positions);
    v("blocks", blocks);
    v("norm", norm);
  }
};

Tensor tokens_at(const Tensor& text, const Tensor& at) {
  return reshape(index_select(text, 0, flatten(at)), at.shape());
}

std::string write_on(const Gpt& gpt, const BytePairs& pairs, const std::string& beginning, int count) {
  std::vector<std::int64_t> text = pairs.encode(beginning);
  for (int k = 0; k < count; ++k) {
    const auto n = std::min<std::int64_t>(static_cast<std::int64_t>(text.size()), kContext);
    const Tensor seen = from_data(std::vector<std::int64_t>(text.end() - n, text.end()), {1, n});
    const Tensor last = gpt.features(seen)[0][n - 1];
    text.push_back(argmax(matmul(gpt.tokens.weight, last), 0).item<std::int64_t>());
  }
  return pairs.decode(text);
}

}  // namespace

int main() {
  manual_seed(1);
  const BytePairs pairs = BytePairs::train(kText, 320);
  const std::vector<std::int64_t> encoded = pairs.encode(kText);
  const auto length = static_cast<std::int64_t>(encoded.size());
  const Tensor text = from_data(encoded, {length});
  Gpt gpt(pairs.tokens());
  std::printf("%ld bytes are %ld tokens of %ld; %ld parameters\n", static_cast<long>(std::string(kText).size()),
              static_cast<long>(length), static_cast<long>(pairs.tokens()), static_cast<long>(parameter_count(gpt)));

  constexpr int kSteps = 200;
  AdamW adamw({.weight_decay = 0.01, .decays = decay_matrices});
  const Schedule rate = warm_up(cosine_schedule(5e-3, {.steps = kSteps - 20}), 20);
  double first = 0, last = 0;
  for (int step = 0; step < kSteps; ++step) {
    // Sixteen windows at random positions of the text.
    const Tensor starts = randint(0, length - kContext, {16, 1});
    const Tensor at = starts + arange(kContext);
    adamw.set_lr(rate(step));
    const Tensor loss = gpt.loss(tokens_at(text, at), tokens_at(text, at + 1));
    adamw.step(gpt, clip_by_norm(backward(loss), 1.0).gradients);
    last = loss.item();
    if (step == 0) first = last;
    if (step % 40 == 0 || step == kSteps - 1) std::printf("step %3d   loss %.3f\n", step, last);
  }
  const std::string written = write_on(gpt, pairs, "The gulls know", 24);
  std::printf("\n%s ...\n", written.c_str());
  return first > 4 && last < 0.5 && written.find("The gulls know it first.") == 0 ? 0 : 1;
}
