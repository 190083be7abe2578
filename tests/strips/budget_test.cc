// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "ebb/memory.h"
#include "schedule/graphs.h"
#include "strips/compare.h"

// Training steps under a memory budget: values that a backward pass needs are released and recomputed. Same bits, and a
// peak, by the counters of the allocator, that is within the budget.
namespace ebb {
namespace {

using testing::Budget, testing::numbers, testing::planned;

struct Model {
  std::vector<Tensor> parameters;
  FunctionOfMany loss;
  std::size_t bytes = 0;  // of everything that the loss reads

  std::size_t add(const Shape& shape, double scale) {
    parameters.push_back((randn(shape) * scale).eval());
    return parameters.size() - 1;
  }
  std::size_t add_ones(std::int64_t n) {  // a scale and a shift
    parameters.push_back(ones({n}).eval());
    parameters.push_back(zeros({n}).eval());
    return parameters.size() - 2;
  }
  std::vector<Tensor> step() const {
    auto [value, all] = value_and_grad(loss)(parameters);
    all.insert(all.begin(), value);
    return all;
  }
};

Tensor batch_norm_of(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  const std::vector<std::int64_t> all{0, 2, 3};
  const Tensor d = x - mean(x, all, true);
  const Tensor normal = d * rsqrt(mean(square(d), all, true) + 1e-5);
  return normal * reshape(scale, {1, -1, 1, 1}) + reshape(shift, {1, -1, 1, 1});
}

// Like ResNet-20, with fewer blocks and channels.
Model residual_network() {
  Model m;
  struct Block {
    std::size_t first, second;
    std::int64_t stride;
  };
  const std::int64_t batch = 24, width = 8;
  const auto window = [&m](std::int64_t from, std::int64_t to) {
    const std::size_t at = m.add({to, from, 3, 3}, std::sqrt(2.0 / static_cast<double>(9 * from)));
    m.add_ones(to);
    return at;
  };
  const std::size_t first = window(3, width);
  std::vector<Block> blocks;
  std::int64_t channels = width;
  for (std::int64_t stage = 0; stage < 3; ++stage) {
    for (int k = 0; k < 3; ++k) {
      const std::int64_t out = width << stage;
      const std::size_t a = window(channels, out), b = window(out, out);
      blocks.push_back({a, b, stage > 0 && k == 0 ? 2 : 1});
      channels = out;
    }
  }
  const std::size_t head = m.add({10, channels}, 0.1);
  const Tensor x = randn({batch, 3, 32, 32}).eval(), target = randint(0, 10, {batch}).eval();
  m.loss = [=](const std::vector<Tensor>& p) {
    const auto layer = [&p](const Tensor& h, std::size_t at, std::int64_t stride) {
      return batch_norm_of(conv2d(h, p[at], {}, {.stride = stride, .padding = 1}), p[at + 1], p[at + 2]);
    };
    Tensor h = relu(layer(x, first, 1));
    for (const Block& b : blocks) {
      const Tensor t = layer(relu(layer(h, b.first, b.stride)), b.second, 1);
      if (b.stride == 2) {
        const Tensor half = avg_pool2d(h, {2, 2});
        h = cat({half, zeros_like(half)}, 1);
      }
      h = relu(h + t);
    }
    return cross_entropy(matmul(mean(h, std::vector<std::int64_t>{2, 3}), transpose(p[head], 0, 1)), target);
  };
  m.bytes = static_cast<std::size_t>(x.numel()) * 4 + static_cast<std::size_t>(target.numel()) * 8;
  return m;
}

// A GPT with dropout.
Model language_model() {
  Model m;
  const std::int64_t batch = 4, length = 64, width = 64, heads = 4, classes = 256;
  struct Block {
    std::size_t norm, qkv, out, second, up, down;
  };
  const std::size_t words = m.add({classes, width}, 0.05), places = m.add({length, width}, 0.05);
  std::vector<Block> blocks;
  for (int k = 0; k < 4; ++k) {
    blocks.push_back({m.add_ones(width), m.add({3 * width, width}, 0.05), m.add({width, width}, 0.05),
                      m.add_ones(width), m.add({4 * width, width}, 0.05), m.add({width, 4 * width}, 0.05)});
  }
  const std::size_t last = m.add_ones(width);
  const Tensor ids = randint(0, classes, {batch, length}).eval(), target = randint(0, classes, {batch * length}).eval();
  m.loss = [=](const std::vector<Tensor>& p) {
    manual_seed(7);  // the same dropout in every step
    const auto linear = [&p](const Tensor& h, std::size_t at) { return matmul(h, transpose(p[at], 0, 1)); };
    const auto norm = [&](const Tensor& h, std::size_t at) { return layer_norm(h, {width}, p[at], p[at + 1]); };
    Tensor h = dropout(embedding(p[words], ids) + p[places], 0.1);
    for (const Block& b : blocks) {
      const Tensor z = linear(norm(h, b.norm), b.qkv);
      const auto part = [&](std::int64_t k) {
        return transpose(reshape(narrow(z, -1, k * width, width), {batch, length, heads, width / heads}), 1, 2);
      };
      const Tensor seen = scaled_dot_product_attention(part(0), part(1), part(2), {.causal = true});
      h = h + linear(reshape(transpose(seen, 1, 2), {batch, length, width}), b.out);
      h = h + dropout(linear(gelu(linear(norm(h, b.second), b.up)), b.down), 0.1);
    }
    return cross_entropy(reshape(linear(norm(h, last), words), {-1, classes}), target);
  };
  m.bytes = static_cast<std::size_t>(ids.numel() + target.numel()) * 8;
  return m;
}

// Layers with dropout, small enough for an emulated GPU.
Model deep_network() {
  Model m;
  const std::int64_t rows = 256, width = 32, layers = 14;
  for (std::int64_t k = 0; k < layers; ++k) m.add({width, width}, 1 / std::sqrt(static_cast<double>(width)));
  const Tensor x = randn({rows, width}).eval(), target = randint(0, width, {rows}).eval();
  m.loss = [=](const std::vector<Tensor>& p) {
    manual_seed(7);  // the same dropout in every step
    Tensor h = x;
    for (const Tensor& w : p) h = h + dropout(gelu(matmul(h, w)), 0.1);
    return cross_entropy(h, target);
  };
  m.bytes = static_cast<std::size_t>(x.numel()) * 4 + static_cast<std::size_t>(target.numel()) * 8;
  return m;
}

int steps_again(const Plan& plan) {
  return static_cast<int>(
      std::count_if(plan.steps.begin(), plan.steps.end(), [](const PlanStep& s) { return s.again; }));
}

// The peak of a step, including everything it reads.
struct Measured {
  std::vector<std::vector<double>> numbers;
  std::size_t peak = 0;
};
Measured measure(const Model& m) {
  std::size_t read = m.bytes;
  for (const Tensor& p : m.parameters) read += static_cast<std::size_t>(p.numel()) * size_of(p.dtype());
  const std::size_t before = memory_stats(default_device()).live;
  reset_peak_memory(default_device());
  Measured out;
  out.numbers = numbers(m.step());
  out.peak = memory_stats(default_device()).peak - before + read;
  return out;
}

void expect_every_budget(const Model& m) {
  const Measured plain = measure(m);
  for (const int percent : {100, 90, 80, 70, 60, 50}) {
    SCOPED_TRACE(percent);
    const std::size_t budget = plain.peak * static_cast<std::size_t>(percent) / 100;
    const Budget within(budget);
    const Measured less = measure(m);
    EXPECT_LE(less.peak, budget + budget / 20);  // threads have workspaces, blocks are rounded up
    EXPECT_TRUE(less.numbers == plain.numbers);
    const Plan plan = planned(m.step());
    EXPECT_LE(plan.peak.bytes, budget);
    EXPECT_TRUE(
        std::none_of(plan.steps.begin(), plan.steps.end(), [](const PlanStep& s) { return s.strips != nullptr; }));
    if (percent == 50) {
      EXPECT_GT(steps_again(plan), 0);
    }
  }
}

TEST(MadeAgain, AResidualNetworkStaysWithinEveryBudget) { expect_every_budget(residual_network()); }
TEST(MadeAgain, ALanguageModelStaysWithinEveryBudget) { expect_every_budget(language_model()); }

TEST(MadeAgain, LayersStayWithinEveryBudget) { expect_every_budget(deep_network()); }

TEST(MadeAgain, CompiledFunctionsStayWithinItToo) {
  const Model m = language_model();
  const Measured plain = measure(m);
  const Budget within(plain.peak / 2);
  const auto step = compile([&m](const std::vector<Tensor>& p) {
    auto [value, all] = value_and_grad(m.loss)(p);
    all.push_back(value);
    return all;
  });
  step(m.parameters);
  const std::size_t before = memory_stats(default_device()).live;
  reset_peak_memory(default_device());
  std::vector<Tensor> all = step(m.parameters);
  all.insert(all.begin(), all.back());
  all.pop_back();
  EXPECT_TRUE(numbers(all) == plain.numbers);
  EXPECT_LE(memory_stats(default_device()).peak - before, plain.peak / 2 + plain.peak / 40);
}

// Memory of activations was released: reading them later recomputes them.
TEST(MadeAgain, AnActivationThatIsHeldCanStillBeRead) {
  const Tensor x = randn({512, 32}).eval();
  std::vector<Tensor> weights, held;
  for (int k = 0; k < 6; ++k) weights.push_back((randn({32, 32}) * 0.2).eval());
  const auto loss = [&](const std::vector<Tensor>& w) {
    Tensor h = x;
    for (const Tensor& each : w) held.push_back(h = tanh(matmul(h, each)));
    return sum(square(h));
  };
  std::vector<Tensor> all = value_and_grad(FunctionOfMany(loss))(weights).second;
  const auto plain = numbers(all), activations = numbers(held);
  held.clear();
  all = value_and_grad(FunctionOfMany(loss))(weights).second;
  const std::size_t peak = planned(all).peak.bytes;
  {
    const Budget within(peak - 2 * static_cast<std::size_t>(x.numel()) * 4);
    EXPECT_GT(steps_again(planned(all)), 0);
    EXPECT_TRUE(numbers(all) == plain);
  }
  EXPECT_TRUE(numbers(held) == activations);
}

TEST(MadeAgain, TheScheduleShowsIt) {
  const Model m = language_model();
  const std::size_t peak = planned(m.step()).peak.bytes;
  const Budget within(peak / 2);
  const std::string text = print_schedule(m.step());
  EXPECT_NE(text.find("\nagain "), std::string::npos) << text;
  EXPECT_NE(text.find("\npeak about "), std::string::npos);
}

TEST(MadeAgain, NamesTheLargestTensorsWhereItDoesNotSuffice) {
  const Model m = language_model();
  const std::size_t peak = planned(m.step()).peak.bytes;
  const Budget within(peak / 8);
  try {
    eval(m.step());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), Error::Kind::memory);
    EXPECT_NE(std::string(e.what()).find("this computation takes about "), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(" KiB, f32["), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("raise it with set_memory_budget"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace ebb
