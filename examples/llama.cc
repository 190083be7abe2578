// SPDX-License-Identifier: MIT
// A Llama in mixed precision: bf16 computes, f32 weights are updated by AdamW, attention keeps no scores and the loss
// no logits. Without arguments a tiny one learns on the CPU; `llama --device cuda` trains one of 1.2 billion parameters
// and prints tokens per second, memory and the share of the GPU's peak that the model's own arithmetic reaches (MFU).
//
//     llama [--device cuda] [--init FOLDER] [--save FOLDER] [--steps N] [--batch N] [--context N] [--layers N]
//           [--width N] [--heads N] [--kv-heads N] [--feed-forward N] [--vocabulary N] [--recompute N] [--peak TFLOPS]
//
// --init reads a folder of Hugging Face's transformers and --save writes one. --recompute: the number of blocks whose
// feed-forward product is made again in the backward pass, for less memory.
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "ebb/ebb.h"

using namespace ebb;

int main(int count, char** arguments) {
  std::map<std::string, std::string> given;
  for (int k = 1; k + 1 < count; k += 2) given[arguments[k]] = arguments[k + 1];
  const auto number = [&](const char* name, std::int64_t gpu, std::int64_t cpu) {
    const auto found = given.find(name);
    if (found != given.end()) return static_cast<std::int64_t>(std::stoll(found->second));
    return given.contains("--device") && given["--device"] != "cpu" ? gpu : cpu;
  };
  if (given.contains("--device")) set_default_device(device_from_name(given["--device"]));
  const bool on_gpu = default_device() != Device{};

  manual_seed(1);
  const models::LlamaConfig config{.vocab_size = number("--vocabulary", 128256, 96),
                                   .hidden_size = number("--width", 2048, 32),
                                   .intermediate_size = number("--feed-forward", 8192, 64),
                                   .num_hidden_layers = number("--layers", 16, 2),
                                   .num_attention_heads = number("--heads", 32, 4),
                                   .num_key_value_heads = number("--kv-heads", 8, 2),
                                   .max_position_embeddings = number("--context", 4096, 16),
                                   .rope_theta = 500000,
                                   .tie_word_embeddings = true};
  models::Llama llama = given.contains("--init") ? models::load_llama(given["--init"]) : models::Llama(config);
  const std::int64_t recompute = number("--recompute", 0, 0);
  for (std::int64_t k = 0; k < recompute && k < llama.config.num_hidden_layers; ++k)
    llama.model.layers[static_cast<std::size_t>(k)].mlp.recompute_activation = true;
  const std::int64_t batch = number("--batch", 4, 8), context = number("--context", 4096, 16),
                     steps = number("--steps", 30, 60), words = std::min<std::int64_t>(90, llama.config.vocab_size);
  const std::int64_t weights = parameter_count(llama);
  std::printf("%lld parameters, %lld tokens per step\n", static_cast<long long>(weights),
              static_cast<long long>(batch * context));

  // A language of 90 words: which comes next is a function of the last one.
  const Tensor follows = argsort(rand({words}), 0).eval();
  AdamW adamw({.lr = on_gpu ? 3e-4 : 3e-3, .beta2 = 0.95, .weight_decay = 0.1, .decays = decay_matrices});
  double first = 0, last = 0;
  auto start = std::chrono::steady_clock::now();
  const std::int64_t warm_up = std::min<std::int64_t>(steps / 2, 12);  // kernels are compiled in these
  const std::int64_t report = on_gpu ? steps : 10;                     // reading a loss waits for the GPU
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor x = randint(0, words, {batch, context});
    const Tensor next = reshape(index_select(follows, 0, flatten(x)), x.shape());
    const models::Llama half = cast_parameters(llama, DType::bf16);
    // On a GPU the logits are rounded as those of a Linear layer in bf16 would be.
    const Tensor loss = linear_cross_entropy(half(x), half.head(), next, {.round_logits = true});
    const Gradients gradients = clip_by_norm(backward(loss), 1.0).gradients;
    if (step % report == 0 || step + 1 == steps) {
      std::vector<Tensor> together{loss};  // a forward pass by itself would keep all that a backward pass might ask for
      for (const auto& [parameter, gradient] : gradients.all()) together.push_back(gradient);
      eval(together);
      last = loss.item();
      if (step == 0) first = last;
      std::printf("step %3lld   loss %.4f\n", static_cast<long long>(step), last);
    }
    adamw.step(llama, gradients);
    if (step + 1 == warm_up) {
      synchronize(default_device());
      start = std::chrono::steady_clock::now();
    }
  }
  synchronize(default_device());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto timed = static_cast<double>(steps - warm_up), tokens = static_cast<double>(batch * context);
  if (on_gpu) {
    // Forward and backward: 6 operations per weight and token, and 6 per earlier token, layer and width of the heads.
    const models::LlamaConfig& c = llama.config;
    const double attention = 6.0 * static_cast<double>(c.num_hidden_layers * c.num_attention_heads * c.head_width()) *
                             static_cast<double>(context);
    const double flops = (6.0 * static_cast<double>(weights) + attention) * tokens * timed / seconds;
    const double peak = 1e12 * static_cast<double>(number("--peak", 989, 989));
    std::printf("%.1f ms per step, %.0f tokens per second, %.1f %% MFU, %.2f GB at most\n", 1e3 * seconds / timed,
                tokens * timed / seconds, 100 * flops / peak,
                1e-9 * static_cast<double>(memory_stats(default_device()).peak));
  }
  if (given.contains("--save")) models::save_llama(given["--save"], llama);
  return last < 0.9 * first ? 0 : 1;
}
