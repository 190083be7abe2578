#include <memory>

#include "worker/cases.h"

// Steps of training: forward, loss, backward, optimiser. A case's inputs are a batch and the first parameters, so that
// every contender begins with the same numbers.
namespace bench {
namespace {

using namespace ebb;
using Inputs = std::vector<Input>;

// ---- the networks

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

nn::Conv2d convolution(std::int64_t in, std::int64_t out, int window, int stride) {
  return nn::Conv2d(in, out, window, {.stride = stride, .padding = window / 2, .bias = false});
}
// Statistics of the batch alone: no contender keeps running ones.
nn::BatchNorm batch_norm_of(std::int64_t channels) { return nn::BatchNorm(channels, {.track_running_stats = false}); }

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

// ---- the cases

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
