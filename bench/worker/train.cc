// SPDX-License-Identifier: MIT
#include <memory>

#include "worker/cases.h"
#include "worker/networks.h"

// Steps of training: forward, loss, backward, optimiser. A case's inputs are a batch and the first parameters, so that
// every contender begins with the same numbers.
namespace bench {
namespace {

using Inputs = std::vector<Input>;

// Gains begin at one, biases at zero, matrices as small as keeps signals in size.
Kind first_values(const std::string& name, const Shape& shape) {
  if (shape.rank() > 1) return Kind::fan_in;
  return name.find("norm") != std::string::npos && name.ends_with("weight") ? Kind::ones : Kind::zeros;
}

// A model with its optimiser, trained on one batch. `input(k)` takes first parameters from the case's inputs.
template <class Model, class Rule>
class Run : public TrainingRun {
 public:
  Run(Model model, Rule rule, const Tensors& inputs)
      : model_(std::move(model)), rule_(std::move(rule)), x_(inputs[0]), y_(inputs[1]) {
    const Parameters all = parameters(model_);
    for (std::size_t k = 0; k < all.size(); ++k) *all[k].tensor = variable(inputs[k + 2]);
  }
  Tensor step() override {
    const Tensor loss = model_.loss(x_, y_);
    rule_.step(model_, backward(loss));
    return loss.eval();
  }
  Tensors gradients() override {
    const Gradients all = backward(model_.loss(x_, y_));
    Tensors results;
    for (const Parameter& p : parameters(model_)) results.push_back(all[*p.tensor]);
    eval(results);
    return results;
  }

 private:
  Model model_;
  Rule rule_;
  Tensor x_, y_;
};

// `make(size)` is the model, `batch(size)` its data.
template <class Make, class Rule>
Case training(const char* name, Make make, std::function<Inputs(Size)> batch, Rule rule) {
  Case c;
  c.suite = "train";
  c.name = name;
  c.gradients_only = c.f32_only = true;
  c.sizes = {Size::large};
  c.inputs = [=](Size s) {
    Inputs all = batch(s);
    auto model = make(s);
    for (const Parameter& p : parameters(model)) {
      all.push_back({p.name, first_values(p.name, p.tensor->shape()), p.tensor->shape(), true});
    }
    return all;
  };
  c.training = [=](Size s, const Tensors& inputs) -> std::unique_ptr<TrainingRun> {
    return std::make_unique<Run<decltype(make(s)), Rule>>(make(s), rule, inputs);
  };
  return c;
}

Case mlp() {
  return training(
      "MLP 784-1024-1024-10, Adam", [](Size s) { return s == Size::tiny ? Mlp(12, 9, 4) : Mlp(784, 1024, 10); },
      [](Size s) {
        const std::int64_t rows = s == Size::tiny ? 5 : 128, in = s == Size::tiny ? 12 : 784;
        return Inputs{{"x", Kind::normal, {rows, in}}, {"y", Kind::classes, {rows}, false, s == Size::tiny ? 4 : 10}};
      },
      Adam({.lr = 1e-3}));
}

Case cnn() {
  return training(
      "ResNet-20 on 32x32, SGD", [](Size s) { return s == Size::tiny ? ResNet(4, 1, 3) : ResNet(16, 3, 10); },
      [](Size s) {
        const std::int64_t pictures = s == Size::tiny ? 3 : 64, side = s == Size::tiny ? 8 : 32;
        return Inputs{{"x", Kind::normal, {pictures, 3, side, side}},
                      {"y", Kind::classes, {pictures}, false, s == Size::tiny ? 3 : 10}};
      },
      Sgd({.lr = 0.01, .momentum = 0.9}));
}

Case gpt(const char* name, const GptSize& large, bool checkpointed) {
  const auto sizes = [large](Size s) { return s == Size::tiny ? GptSize{3, 8, 2, 5, 17, 2} : large; };
  Case c = training(
      name, [=](Size s) { return Gpt(sizes(s), checkpointed); },
      [=](Size s) {
        const GptSize z = sizes(s);
        return Inputs{{"x", Kind::classes, {z.batch, z.time}, false, z.vocabulary},
                      {"y", Kind::classes, {z.batch, z.time}, false, z.vocabulary}};
      },
      AdamW({.lr = 1e-3}));
  return c;
}

}  // namespace

std::vector<Case> train_cases() {
  const GptSize deep{32, 128, 4, 128, 1024, 4};
  Case plain = gpt("GPT 32 layers", deep, false), checkpointed = gpt("GPT 32 layers checkpointed", deep, true);
  checkpointed.same_bits_as = plain.name;
  return {mlp(), cnn(), gpt("GPT 4 layers, AdamW", {4, 256, 4, 256, 32000, 4}, false), plain, checkpointed};
}

}  // namespace bench
