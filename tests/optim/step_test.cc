// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ebb/ops.h"
#include "ebb/optim.h"
#include "expect_error.h"

// Around a step: how it is computed, clipping, accumulation, averages, errors.
namespace ebb {
namespace {

int sweeps_in(const std::string& schedule) {
  int n = 0;
  for (std::size_t at = 0; (at = schedule.find("sweep", at)) != std::string::npos; ++at) {
    n += at == 0 || schedule[at - 1] == '\n';
  }
  return n;
}

constexpr std::int64_t kRows = 200, kColumns = 300;

struct Model {
  Tensor w;
  Model() : w(variable(sin(reshape(arange(0, kRows * kColumns, 1, DType::f32), {kRows, kColumns})))) { w.eval(); }
  template <class V>
  void visit(V&& v) {
    v("w", w);
  }
};
struct Two {
  Tensor a = variable(ones({3})), b = variable(ones({3}));
  template <class V>
  void visit(V&& v) {
    v("a", a);
    v("b", b);
  }
};
struct Layer {
  Tensor weight = variable(ones({2, 2})), bias = variable(ones({2}));
  template <class V>
  void visit(V&& v) {
    v("weight", weight);
    v("bias", bias);
  }
};
Gradients gradient_of(const Model& m, double scale = 1) {
  Gradients g = backward(sum(scale * cos(m.w)));
  g[m.w].eval();
  return g;
}

// After two steps, so that moments exist.
template <class Optimizer>
std::string third_step(Optimizer optimizer) {
  Model m;
  optimizer.step(m, gradient_of(m));
  optimizer.step(m, gradient_of(m));
  return optimizer.print_step(m, gradient_of(m));
}

TEST(Step, SweepsParameterMomentsAndGradientOnce) {
  const std::pair<const char*, std::string> steps[] = {
      {"Sgd", third_step(Sgd({.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}))},
      {"Lion", third_step(Lion({.weight_decay = 0.1}))},
      {"Adam", third_step(Adam({.weight_decay = 0.1, .amsgrad = true}))},
      {"AdamW", third_step(AdamW())},
      {"RAdam", third_step(RAdam({.weight_decay = 0.1}))},
      {"RMSprop", third_step(RMSprop({.weight_decay = 0.1, .momentum = 0.9, .centered = true}))},
      {"Adagrad", third_step(Adagrad({.lr_decay = 0.1, .weight_decay = 0.1}))},
  };
  for (const auto& [name, text] : steps) EXPECT_EQ(sweeps_in(text), 1) << name << "\n" << text;
  // A norm is known only after a sweep.
  const std::string lars = third_step(Lars()), lamb = third_step(Lamb());
  EXPECT_LE(sweeps_in(lars), 2) << lars;
  EXPECT_LE(sweeps_in(lamb), 2) << lamb;
}

TEST(Step, NumbersThatChangeMakeNoNewSchedule) {
  Model m;
  Adam adam({.lr = 0.01});
  for (int k = 0; k < 2; ++k) adam.step(m, gradient_of(m));
  const std::string third = adam.print_step(m, gradient_of(m));
  adam.step(m, gradient_of(m));
  adam.set_lr(0.005);
  EXPECT_EQ(adam.print_step(m, gradient_of(m)), third);
}

TEST(Step, LeavesParametersWithoutGradientAlone) {
  Two m;
  const Tensor before = m.b;
  Adam adam({.lr = 0.1, .weight_decay = 1});
  adam.step(m, backward(sum(square(m.a))));
  EXPECT_EQ(m.b.node(), before.node());
  EXPECT_NEAR(m.a.to_vector()[0], 0.9, 1e-6);
  EXPECT_FALSE(adam.state().contains("b/step"));
}

TEST(Step, DecaysOnlyWhatTheFilterNames) {
  Layer m;
  AdamW adamw({.lr = 0.1, .weight_decay = 0.5, .decays = decay_matrices});
  adamw.step(m, backward(0.0 * (sum(m.weight) + sum(m.bias))));
  EXPECT_NEAR(m.weight.to_vector()[0], 0.95, 1e-6);
  EXPECT_EQ(m.bias.to_vector()[0], 1);
}

TEST(Step, SaysWhatIsWrong) {
  Model m;
  Adam adam;
  const Gradients old = gradient_of(m);
  adam.step(m, old);
  EXPECT_THROW_MESSAGE(adam.step(m, old), "Adam: none of the 1 parameters has a gradient");
  m.w = stop_gradient(m.w);
  EXPECT_THROW_MESSAGE(adam.step(m, old), "Adam: parameter w is not a variable; make it with variable()");
  m.w = variable(ones({2}));
  EXPECT_THROW_MESSAGE(adam.step(m, gradient_of(m)), "the state of w has shape [200, 300], the parameter [2]");
  EXPECT_THROW_MESSAGE(Sgd({.lr = -1}), "Sgd: the learning rate must not be negative, got -1");
  EXPECT_THROW_MESSAGE(Sgd({.nesterov = true}), "Nesterov's momentum needs a momentum above 0");
  EXPECT_THROW_MESSAGE(AdamW({.beta2 = 1}), "AdamW: beta2 must be in [0, 1), got 1");
  EXPECT_THROW_MESSAGE(Sgd().load_state({{"w/exp_avg", ones({1})}}), "w/exp_avg, which this optimiser does not keep");
}

// ---- gradients between backward and step ----------------------------------------------------------------------------

TEST(Clipping, ByNormKeepsTheDirection) {
  const Tensor a = variable(tensor({1.0, 2.0})), b = variable(tensor(5.0));
  const Gradients g = backward(sum(tensor({3.0, 0.0}) * a) + 4.0 * b);
  const auto [clipped, norm] = clip_by_norm(g, 1);
  EXPECT_NEAR(norm.item(), 5, 1e-6);
  EXPECT_NEAR(clipped[a].to_vector()[0], 0.6, 1e-6);
  EXPECT_NEAR(clipped[b].item(), 0.8, 1e-6);
  EXPECT_NEAR(clip_by_norm(g, 100).gradients[b].item(), 4, 1e-6);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_NEAR(global_norm(g, infinity).item(), 4, 1e-6);
  EXPECT_THROW_MESSAGE(clip_by_norm(g, 0), "clip_by_norm: max_norm must be positive, got 0");
}

TEST(Clipping, ByNormSurvivesHalvesThatWouldOverflow) {
  const Tensor a = variable(full({4}, 1.0, DType::f16));
  const Gradients g = backward(sum(a * full({4}, 60000.0, DType::f16)));
  const auto [clipped, norm] = clip_by_norm(g, 2);
  EXPECT_EQ(clipped[a].dtype(), DType::f16);
  EXPECT_NEAR(norm.item(), 120000, 100);
  EXPECT_NEAR(clipped[a].to_vector()[0], 1, 1e-3);
}

TEST(Clipping, ByValueClampsEveryElement) {
  const Tensor a = variable(tensor({1.0, 2.0, 3.0}));
  const Gradients g = clip_by_value(backward(sum(tensor({-3.0, 0.25, 4.0}) * a)), 0.5);
  EXPECT_EQ(g[a].to_vector(), (std::vector<double>{-0.5, 0.25, 0.5}));
}

TEST(Accumulation, OfSmallBatchesIsTheLargeBatch) {
  const Tensor w = variable(tensor({1.0, -2.0}, DType::f64));
  const Tensor x = reshape(arange(0, 16, 1, DType::f64), {8, 2});
  const auto loss = [&](const Tensor& rows) { return mean(square(matmul(rows, w) - 1.0)); };
  GradientAccumulator accumulator;
  for (int k = 0; k < 4; ++k) accumulator.add(backward(loss(x.slice(0, 2 * k, 2 * k + 2))));
  EXPECT_EQ(accumulator.count(), 4);
  const Tensor small = accumulator.take_mean()[w], large = backward(loss(x))[w];
  EXPECT_TRUE(allclose(small, large, {.rtol = 1e-12}));
  EXPECT_EQ(accumulator.count(), 0);
  EXPECT_THROW_MESSAGE(accumulator.take_sum(), "GradientAccumulator: nothing was added");
}

TEST(Accumulation, OfHalvesIsInF32) {
  const Tensor w = variable(full({1}, 1.0, DType::bf16));
  GradientAccumulator accumulator;
  for (int k = 0; k < 1000; ++k) accumulator.add(backward(sum(w)));
  EXPECT_EQ(accumulator.take_sum()[w].item(), 1000);  // bf16 would have stopped at 256
}

TEST(WeightAverage, FollowsTheWeights) {
  Model m;
  m.w = variable(full({2}, 1.0));
  WeightEma ema(0.9);
  ema.update(m);
  m.w = variable(full({2}, 2.0));
  ema.update(m);
  EXPECT_NEAR(ema.averaged(m).w.to_vector()[0], 1.1, 1e-6);
  EXPECT_EQ(m.w.to_vector()[0], 2);
  EXPECT_THROW_MESSAGE(WeightEma().averaged(m), "WeightEma: there is no average of w; call update(model) first");
}

TEST(Step, OfAModelThatNamesNoParametersIsAnError) {
  struct Forgotten {  // no visit
    Tensor w = variable(ones({2}));
  } m;
  Adam adam;
  const Gradients g = backward(sum(m.w));
  EXPECT_THROW_MESSAGE(adam.step(m, g), "Adam: the model has no parameters");
}

}  // namespace
}  // namespace ebb
