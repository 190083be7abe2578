// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <variant>
#include <vector>

#include "dataset.h"
#include "ebb/models/llama.h"
#include "ebb/nn.h"
#include "parallel_gpt.h"
#include "run_config.h"

// The networks that `ebb train` offers. They are plain structs; a checkpoint uses their members' names.
namespace ebb::program {

// (x − mean)·scale with numbers of the training data, kept with the weights: a checkpoint alone suffices to read new
// examples. Bytes are first mapped to [0, 1].
struct InputScaling {
  nn::Buffer mean, scale;                       // [channels, 1, 1], or [features]
  explicit InputScaling(const Shape& example);  // initially the identity
  void fit(const Tensor& inputs);               // to the training examples
  Tensor operator()(const Tensor& x, DType dtype) const;
  template <class V>
  void visit(V&& v) {
    v("mean", mean);
    v("scale", scale);
  }
};

struct Mlp {
  InputScaling input;
  std::vector<nn::Linear> layers;
  nn::Dropout dropout;
  bool use_relu;  // instead of gelu
  Mlp(const RunConfig& config, const DataFacts& facts);
  Tensor operator()(const Tensor& x);
  template <class V>
  void visit(V&& v) {
    v("input", input);
    v("layers", layers);
    v("dropout", dropout);
  }
};

// A convolution that keeps the size (except for its stride), normalized.
struct ConvNorm {
  nn::Conv2d conv;
  nn::BatchNorm norm;
  ConvNorm(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1);
  Tensor operator()(const Tensor& x) { return norm(conv(x)); }
  template <class V>
  void visit(V&& v) {
    v("conv", conv);
    v("norm", norm);
  }
};

// Two stages of convolution and pooling, then two linear layers.
struct Cnn {
  InputScaling input;
  ConvNorm first, second;
  nn::Linear hidden, head;
  nn::Dropout dropout;
  Cnn(const RunConfig& config, const DataFacts& facts);
  Tensor operator()(const Tensor& x);
  template <class V>
  void visit(V&& v) {
    v("input", input);
    v("first", first);
    v("second", second);
    v("hidden", hidden);
    v("head", head);
    v("dropout", dropout);
  }
};

// relu(x + norm(conv(relu(norm(conv(x)))))); where the size changes x goes through a convolution of one pixel.
struct ResidualBlock {
  ConvNorm first, second;
  std::optional<ConvNorm> shortcut;
  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride);
  Tensor operator()(const Tensor& x);
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
    v("shortcut", shortcut);
  }
};

// He et al., 2016, for small pictures: three stages, each half the size and twice the channels of the previous one.
struct ResNet {
  InputScaling input;
  ConvNorm stem;
  std::vector<ResidualBlock> blocks;
  nn::Dropout dropout;
  nn::Linear head;
  ResNet(const RunConfig& config, const DataFacts& facts);
  Tensor operator()(const Tensor& x);
  template <class V>
  void visit(V&& v) {
    v("input", input);
    v("stem", stem);
    v("blocks", blocks);
    v("dropout", dropout);
    v("head", head);
  }
};

// A decoder of transformer blocks with learned positions. Called with tokens [n, T] it returns the input of the head,
// [n·T, width]: the loss needs no logits.
struct Gpt {
  nn::Embedding tokens, positions;
  nn::Dropout dropout;
  std::vector<nn::TransformerBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  Gpt(const RunConfig& config, const DataFacts& facts);
  Tensor operator()(const Tensor& x);
  template <class V>
  void visit(V&& v) {
    v("tokens", tokens);
    v("positions", positions);
    v("dropout", dropout);
    v("blocks", blocks);
    v("norm", norm);
    v("head", head);
  }
};

// The settings of a run's llama: those of the model it began with, or of the options.
models::LlamaConfig llama_config(const RunConfig& config, const DataFacts& facts);

// Any of the networks, usable as a model with parameters(), optimisers and averages.
struct Model {
  std::variant<Mlp, Cnn, ResNet, Gpt, models::Llama, ParallelGpt> network;
  Model(const RunConfig& config, const DataFacts& facts);  // initial values from the calling thread's random numbers
  Tensor operator()(const Tensor& x) {
    return std::visit([&](auto& net) { return net(x); }, network);
  }
  void fit_input(const Tensor& inputs);
  Gpt* gpt() { return std::get_if<Gpt>(&network); }
  models::Llama* llama() { return std::get_if<models::Llama>(&network); }
  ParallelGpt* divided() { return std::get_if<ParallelGpt>(&network); }  // among ranks
  template <class V>
  void visit(V&& v) {
    std::visit([&](auto& net) { net.visit(v); }, network);
  }
};

// Loss of a batch, as a mean over its examples, and (for classes) how many were right. Floating targets are numbers.
struct BatchLoss {
  Tensor loss, right;
};
BatchLoss batch_loss(Model& model, const Tensor& inputs, const Tensor& targets, double label_smoothing = 0);

}  // namespace ebb::program
