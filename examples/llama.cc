// SPDX-License-Identifier: MIT
// A Llama in mixed precision: computes in bf16, updates f32 weights with AdamW, and stores neither attention scores nor
// logits. Without arguments a tiny one learns on the CPU; `llama --device cuda` trains one of 1.2 billion parameters
// and prints tokens per second, memory and the share of the GPU's peak that the model's own arithmetic reaches (MFU).
//
//     llama [--device cuda] [--init FOLDER] [--save FOLDER] [--steps N] [--batch N] [--context N] [--layers N]
//           [--width N] [--heads N] [--kv-heads N] [--feed-forward N] [--vocabulary N] [--recompute N] [--peak TFLOPS]
//           [--time]
//
// --init reads a folder of Hugging Face's transformers and --save writes one. --recompute: the number of blocks whose
// feed-forward product is recomputed in the backward pass, for less memory.
#include "training_program.h"

using namespace ebb;

int main(int count, char** arguments) {
  const training_program::Options o(count, arguments);
  const bool on_gpu = default_device() != Device{};
  manual_seed(1);
  const models::LlamaConfig config{.vocab_size = o.number("--vocabulary", 128256, 96),
                                   .hidden_size = o.number("--width", 2048, 32),
                                   .intermediate_size = o.number("--feed-forward", 8192, 64),
                                   .num_hidden_layers = o.number("--layers", 16, 2),
                                   .num_attention_heads = o.number("--heads", 32, 4),
                                   .num_key_value_heads = o.number("--kv-heads", 8, 2),
                                   .max_position_embeddings = o.number("--context", 4096, 16),
                                   .rope_theta = 500000,
                                   .tie_word_embeddings = true};
  models::Llama llama = o.has("--init") ? models::load_llama(o.text("--init")) : models::Llama(config);
  const models::LlamaConfig& c = llama.config;
  for (std::int64_t k = 0; k < std::min(o.number("--recompute", 0, 0), c.num_hidden_layers); ++k)
    llama.model.layers[static_cast<std::size_t>(k)].mlp.recompute_activation = true;
  const std::int64_t batch = o.number("--batch", 4, 8), context = o.number("--context", 4096, 16),
                     steps = o.number("--steps", 30, 60), words = std::min<std::int64_t>(90, c.vocab_size);
  const auto weights = static_cast<double>(parameter_count(llama)), tokens = static_cast<double>(batch * context);
  std::printf("%.0f parameters, %.0f tokens per step\n", weights, tokens);

  // A synthetic language of 90 words: each word is a function of the previous one.
  const Tensor follows = argsort(rand({words}), 0).eval();
  AdamW adamw({.lr = on_gpu ? 3e-4 : 3e-3, .beta2 = 0.95, .weight_decay = 0.1, .decays = decay_matrices});
  double first = 0, last = 0;
  training_program::StepClock clock(steps);
  const std::int64_t report = on_gpu ? steps : 10;  // reading a loss waits for the GPU
  for (std::int64_t step = 0; step < steps; ++step) {
    clock.before(step);
    const Tensor x = randint(0, words, {batch, context});
    const Tensor next = reshape(index_select(follows, 0, flatten(x)), x.shape());
    const models::Llama half = cast_parameters(llama, DType::bf16);
    // On a GPU the logits are rounded as those of a Linear layer in bf16 would be.
    const Tensor loss = linear_cross_entropy(half(x), half.head(), next, {.round_logits = true});
    adamw.step(llama, clip_by_norm(backward(loss), 1.0).gradients);  // evaluates the loss, too
    if (step % report == 0 || step + 1 == steps) {
      last = loss.item();
      if (step == 0) first = last;
      std::printf("step %3lld   loss %.4f\n", static_cast<long long>(step), last);
    }
  }
  if (on_gpu || o.has("--time")) {
    // Forward and backward: 6 operations per weight, and 12 per layer, head, its width and earlier token (context / 2).
    const double attention =
        6.0 * static_cast<double>(c.num_hidden_layers * c.num_attention_heads * c.head_width() * context);
    const double seconds = clock.seconds_per_step(), flops = (6.0 * weights + attention) * tokens / seconds;
    std::printf("%.1f ms per step, %.0f tokens per second, %.1f %% MFU, %.2f GB at most\n", 1e3 * seconds,
                tokens / seconds, 100 * flops / (1e12 * static_cast<double>(o.number("--peak", 989, 989))),
                training_program::peak_gigabytes());
  }
  if (o.has("--save")) models::save_llama(o.text("--save"), llama);
  return last < 0.9 * first ? 0 : 1;
}
