// SPDX-License-Identifier: MIT
#include "models.h"

#include <array>

#include "core/closest_name.h"
#include "core/format_error.h"
#include "ebb/losses/classification.h"
#include "ebb/losses/linear_cross_entropy.h"
#include "ebb/losses/regression.h"
#include "ebb/ops.h"

namespace ebb::program {
namespace {

Tensor as_numbers(const Tensor& x) {
  return x.dtype() == DType::u8 ? cast(x, DType::f32) * (1.0 / 255) : cast(x, DType::f32);
}

// Rows and columns left after the two pools of the small network.
std::int64_t pooled_pixels(const Shape& example) {
  require(example[1] >= 4 && example[2] >= 4, "--model cnn needs pictures of at least 4 × 4 pixels, they have {} × {}",
          example[1], example[2]);
  return example[1] / 4 * (example[2] / 4);
}

constexpr int kHiddenOfCnn = 64;

}  // namespace

InputScaling::InputScaling(const Shape& example) {
  const Shape one = example.rank() == 3 ? Shape{example[0], 1, 1} : example;
  mean.value = zeros(one);
  scale.value = ones(one);
}

void InputScaling::fit(const Tensor& inputs) {
  const Tensor x = as_numbers(inputs.slice(0, 0, 4096));  // enough to estimate mean and deviation
  const Axes axes = inputs.rank() == 4 ? Axes{0, 2, 3} : Axes{0};
  mean.value = reshape(ebb::mean(x, axes), mean.value.shape());
  const Tensor deviation = reshape(stddev(x, axes, false, 0), mean.value.shape());
  scale.value = where(deviation > 1e-6, 1.0 / deviation, 1.0);  // a constant feature stays 0
  eval({mean.value, scale.value});
}

Tensor InputScaling::operator()(const Tensor& x, DType dtype) const {
  return cast((as_numbers(x) - mean.value) * scale.value, dtype);
}

Mlp::Mlp(const RunConfig& c, const DataFacts& facts)
    : input(facts.example), dropout(c.dropout), use_relu(c.activation == "relu") {
  std::int64_t in = facts.example.numel();
  for (std::int64_t size : c.hidden) {
    layers.emplace_back(in, size);
    in = size;
  }
  layers.emplace_back(in, facts.outputs());
}

Tensor Mlp::operator()(const Tensor& x) {
  Tensor h = flatten(input(x, layers[0].weight.dtype()), 1);
  for (std::size_t k = 0; k + 1 < layers.size(); ++k) {
    h = layers[k](h);
    h = dropout(use_relu ? relu(h) : gelu(h));
  }
  return layers.back()(h);
}

ConvNorm::ConvNorm(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride)
    : conv(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}), norm(out) {}

Cnn::Cnn(const RunConfig& c, const DataFacts& facts)
    : input(facts.example),
      first(facts.example[0], c.width, 3),
      second(c.width, 2 * c.width, 3),
      hidden(2 * c.width * pooled_pixels(facts.example), kHiddenOfCnn),
      head(kHiddenOfCnn, facts.outputs()),
      dropout(c.dropout) {}

Tensor Cnn::operator()(const Tensor& x) {
  Tensor h = input(x, head.weight.dtype());
  h = max_pool2d(relu(first(h)), 2);
  h = max_pool2d(relu(second(h)), 2);
  return head(dropout(relu(hidden(flatten(h, 1)))));
}

ResidualBlock::ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
    : first(in, out, 3, stride), second(out, out, 3) {
  if (stride != 1 || in != out) shortcut.emplace(in, out, 1, stride);
}

Tensor ResidualBlock::operator()(const Tensor& x) {
  const Tensor h = second(relu(first(x)));
  return relu(h + (shortcut ? (*shortcut)(x) : x));
}

ResNet::ResNet(const RunConfig& c, const DataFacts& facts)
    : input(facts.example), stem(facts.example[0], c.width, 3), dropout(c.dropout), head(4 * c.width, facts.outputs()) {
  std::int64_t in = c.width;
  for (std::int64_t stage = 0; stage < 3; ++stage) {
    for (std::int64_t k = 0; k < c.layers; ++k) {
      const std::int64_t out = c.width << stage;
      blocks.emplace_back(in, out, stage > 0 && k == 0 ? 2 : 1);
      in = out;
    }
  }
}

Tensor ResNet::operator()(const Tensor& x) {
  Tensor h = relu(stem(input(x, head.weight.dtype())));
  for (ResidualBlock& block : blocks) h = block(h);
  return head(dropout(flatten(global_avg_pool(h), 1)));
}

Gpt::Gpt(const RunConfig& c, const DataFacts& facts)
    : tokens(facts.vocabulary.tokens(), c.width),
      positions(c.context, c.width),
      dropout(c.dropout),
      norm(c.width),
      head(c.width, facts.vocabulary.tokens(), {.bias = false}) {
  // Small initial values, as in GPT-2: the first loss is that of a uniform guess.
  for (Tensor* t : {&tokens.weight, &positions.weight, &head.weight}) *t = variable(nn::normal(t->shape(), 0, 0.02));
  for (std::int64_t k = 0; k < c.layers; ++k)
    blocks.emplace_back(c.width, c.heads, nn::TransformerBlockOptions{.dropout = c.dropout});
}

Tensor Gpt::operator()(const Tensor& x) {
  Tensor h = dropout(tokens(x) + positions(arange(x.size(1))));
  for (nn::TransformerBlock& block : blocks) h = block(h, {.causal = true});
  return reshape(norm(h), {-1, head.weight.size(1)});
}

models::LlamaConfig llama_config(const RunConfig& c, const DataFacts& facts) {
  const std::int64_t tokens = facts.vocabulary.tokens();
  if (!facts.model_config.empty()) {
    models::LlamaConfig config = models::llama_config_from_json(facts.model_config, "config.json");
    require(tokens <= config.vocab_size, "--init: the tokenizer has {} tokens, the model's vocabulary only {}", tokens,
            config.vocab_size);
    return config;
  }
  return {.vocab_size = tokens,
          .hidden_size = c.width,
          .intermediate_size = c.feed_forward,
          .num_hidden_layers = c.layers,
          .num_attention_heads = c.heads,
          .num_key_value_heads = c.kv_heads,
          .max_position_embeddings = c.context,
          .rope_theta = c.rope_theta,
          .tie_word_embeddings = c.head == "tied"};
}

namespace {
std::variant<Mlp, Cnn, ResNet, Gpt, models::Llama, ParallelGpt> make_network(const RunConfig& c,
                                                                             const DataFacts& facts) {
  require((c.model != "cnn" && c.model != "resnet") || facts.example.rank() == 3,
          "--model {} needs pictures, the data has shape {}", c.model, facts.example);
  if (c.model == "mlp") return Mlp(c, facts);
  if (c.model == "cnn") return Cnn(c, facts);
  if (c.model == "resnet") return ResNet(c, facts);
  if (c.model == "gpt" && c.tensor_parallel > 0) return ParallelGpt(c, facts);
  if (c.model == "gpt") return Gpt(c, facts);
  if (c.model == "llama") {
    models::Llama llama(llama_config(c, facts));
    llama.set_fp8(c.products == "fp8");
    return llama;
  }
  constexpr std::array<std::string_view, 5> known{"mlp", "cnn", "resnet", "gpt", "llama"};
  fail(Error::Kind::value, "--model {}: there is no such network{}", c.model, did_you_mean(c.model, known));
}
}  // namespace

Model::Model(const RunConfig& c, const DataFacts& facts) : network(make_network(c, facts)) {}

void Model::fit_input(const Tensor& inputs) {
  std::visit(
      [&](auto& net) {
        if constexpr (requires { net.input; }) net.input.fit(inputs);
      },
      network);
}

BatchLoss batch_loss(Model& model, const Tensor& inputs, const Tensor& targets, double label_smoothing) {
  if (ParallelGpt* divided = model.divided()) return {divided->loss(inputs, targets), {}};
  if (const models::Llama* llama = model.llama()) {
    const TextInputs in(inputs);
    if (label_smoothing == 0) return {llama->loss(in.tokens, targets, in.positions), {}};
    const Tensor h = (*llama)(in.tokens, in.positions);
    return {linear_cross_entropy(h, llama->head(), targets, {.label_smoothing = label_smoothing}), {}};
  }
  const Tensor out = model(inputs);
  if (Gpt* gpt = model.gpt()) {
    return {linear_cross_entropy(out, gpt->head.weight, reshape(targets, {-1}), {.label_smoothing = label_smoothing}),
            {}};
  }
  const Tensor logits = cast(out, DType::f32);
  if (is_floating(targets.dtype())) return {mse_loss(reshape(logits, {-1}), targets), {}};
  return {cross_entropy(logits, targets, {.label_smoothing = label_smoothing}),
          sum(argmax(stop_gradient(logits), 1) == targets)};
}

}  // namespace ebb::program
