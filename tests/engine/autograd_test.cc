// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "ebb/ebb.h"
#include "expect_error.h"

// Differentiation: histories, nested transforms, custom rules, checkpoints.
namespace ebb {
namespace {

Tensor numbers(const Shape& shape, unsigned seed = 1) {
  manual_seed(seed);
  return randn(shape, DType::f64).eval();
}

void expect_near(const Tensor& a, const Tensor& b, double tolerance = 1e-10) {
  ASSERT_EQ(a.shape(), b.shape());
  const std::vector<double> x = cast(a, DType::f64).to_vector(), y = cast(b, DType::f64).to_vector();
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(x[i], y[i], tolerance * (1 + std::fabs(y[i]))) << "element " << i;
}

// ---- histories ------------------------------------------------------------------------------------------------------

TEST(History, IsConsumedByBackward) {
  const Tensor w = variable(numbers({3}));
  const Tensor h = tanh(w), loss = sum(square(h));
  backward(loss);
  EXPECT_THROW_MESSAGE(backward(loss), "was consumed by an earlier backward; call that one with keep_history = true");
  EXPECT_THROW_MESSAGE(backward(sum(h)), "was consumed");
}

TEST(History, IsConsumedForValuesThatWereThereToo) {
  const Tensor w = variable(numbers({3}));
  const Tensor loss = sum(square(tanh(w))).eval();
  backward(loss);
  EXPECT_THROW_MESSAGE(backward(loss), "was consumed");
}

TEST(History, StaysIfAsked) {
  const Tensor w = variable(numbers({3}));
  const Tensor loss = sum(square(tanh(w)));
  const Tensor first = backward(loss, {.keep_history = true})[w];
  const Tensor second = backward(loss)[w];
  EXPECT_EQ(first.to_vector(), second.to_vector());
  EXPECT_THROW_MESSAGE(backward(loss), "was consumed");
}

TEST(History, OfALossAloneIsNotThatOfAnother) {
  const Tensor w = variable(numbers({3}));
  const Tensor a = sum(tanh(w)), b = sum(exp(w));
  expect_near(backward(a)[w], 1 - square(tanh(stop_gradient(w))));
  expect_near(backward(b)[w], exp(stop_gradient(w)));
}

TEST(History, GradientsOfGradientsWithCreateGraph) {
  const Tensor w = variable(numbers({4}));
  const Tensor g = backward(sum(pow(w, 3.0)), {.create_graph = true})[w];
  EXPECT_TRUE(g.requires_grad());
  expect_near(backward(sum(g))[w], 6 * stop_gradient(w));
}

TEST(History, GradientsCarryNoneByDefault) {
  const Tensor w = variable(numbers({4}));
  EXPECT_FALSE(backward(sum(pow(w, 3.0)))[w].requires_grad());
}

TEST(History, BackwardChangesNothingInTheVariables) {
  const Tensor w = variable(numbers({4}));
  const std::vector<double> before = w.to_vector();
  const Gradients g = backward(sum(square(w)));
  EXPECT_EQ(w.to_vector(), before);
  EXPECT_TRUE(g.contains(w));
  EXPECT_EQ(g.all().size(), 1u);
}

TEST(Gradients, OfAVariableTheLossDoesNotTouchAreZero) {
  const Tensor w = variable(numbers({2})), v = variable(numbers({3}));
  const Gradients g = backward(sum(w));
  EXPECT_FALSE(g.contains(v));
  EXPECT_EQ(g[v].to_vector(), std::vector<double>(3, 0.0));
}

TEST(Gradients, RefuseWhatIsNoVariable) {
  const Tensor w = variable(numbers({2}));
  const Gradients g = backward(sum(w));
  EXPECT_THROW_MESSAGE(g[numbers({2})], "not a variable");
}

TEST(Gradients, RefuseVariablesThatAStepMade) {
  Tensor w = variable(numbers({2}));
  const Tensor before = w;
  const Gradients g = backward(sum(square(w)));
  w = variable(w - 0.1 * g[w]);
  EXPECT_THROW_MESSAGE(g[w], "made after these gradients");
  EXPECT_FALSE(g.contains(w));
  expect_near(g[before], 2 * stop_gradient(before));
}

TEST(Backward, NeedsAVariable) { EXPECT_THROW_MESSAGE(backward(sum(numbers({3}))), "depends on no variable"); }

TEST(Backward, NeedsOneElementOrACotangent) {
  const Tensor w = variable(numbers({3}));
  EXPECT_THROW_MESSAGE(backward(w * 2), "the output has shape [3]; a gradient needs one element");
  BackwardOptions options;
  options.grad = from_data(std::vector<double>{1, 2, 3}, Shape{3});
  EXPECT_EQ(backward(w * 2, options)[w].to_vector(), (std::vector<double>{2, 4, 6}));
  options.grad = from_data(std::vector<double>{1, 2}, Shape{2});
  EXPECT_THROW_MESSAGE(backward(w * 2, options), "the cotangent has shape [2], the output [3]");
}

TEST(Backward, RefusesIntegers) {
  const Tensor n = from_data(std::vector<std::int64_t>{1, 2}, Shape{2});
  EXPECT_THROW_KIND(variable(n), type, "a tensor of i64 cannot be differentiated");
  EXPECT_THROW_KIND(grad(Function([](const Tensor& x) { return sum(x); }))(n), type, "cannot be differentiated");
}

TEST(Backward, AddsUpWhatComesFromSeveralPlaces) {
  const Tensor w = variable(numbers({3}));
  const Tensor h = exp(w);
  expect_near(backward(sum(h * w + h))[w], exp(stop_gradient(w)) * (stop_gradient(w) + 2));
}

TEST(Backward, LossAndGradientComeOutTogether) {
  const Tensor w = variable(numbers({50}));
  const Tensor loss = mean(square(w));
  const Tensor g = backward(loss)[w];
  loss.eval();
  EXPECT_TRUE(g.evaluated());  // companions: evaluating one computes both in the same sweep
  const Tensor v = variable(numbers({50}));
  const Tensor other = mean(square(v));
  const Tensor h = backward(other)[v];
  h.eval();
  EXPECT_TRUE(other.evaluated());
}

// Clipped gradients, sums of gradients and what an optimiser makes of them: the loss would be computed again otherwise.
TEST(Backward, TheLossComesOutWithWhatIsMadeFromItsGradients) {
  const Tensor w = variable(numbers({70'001})), b = variable(numbers({3}));
  const Tensor loss = mean(square(w)) + sum(exp(b)), other = mean(exp(w)), large = square(w);
  Tensor clipped;
  {
    const Gradients g = backward(loss), h = backward(other), l = backward(large, {.grad = ones_like(w)});
    clipped = (g[w] + h[w] + l[w]) * 0.5;
    clipped.eval();
    EXPECT_FALSE(g[b].evaluated());  // nobody has asked for it
  }
  EXPECT_TRUE(loss.evaluated());
  EXPECT_TRUE(other.evaluated());
  EXPECT_FALSE(large.evaluated());  // as large as a gradient: somebody may hold it for later only
  const Tensor x = stop_gradient(w);
  EXPECT_EQ(loss.item(), (mean(square(x)) + sum(exp(stop_gradient(b)))).item());
  expect_near(clipped, (2 * x / 70'001 + exp(x) / 70'001 + 2 * x) * 0.5);
}

TEST(Backward, AGradientNobodyKeptIsNotComputed) {
  const Tensor w = variable(numbers({50}));
  const Tensor loss = mean(square(w));
  { const Gradients dropped = backward(loss); }
  EXPECT_NEAR(loss.item(), mean(square(stop_gradient(w))).item(), 1e-12);
}

TEST(StopGradient, IsAConstant) {
  const Tensor w = variable(numbers({3}));
  expect_near(backward(sum(w * stop_gradient(w)))[w], stop_gradient(w));
  EXPECT_FALSE(stop_gradient(exp(w)).requires_grad());
}

TEST(Variable, StartsANewHistory) {
  const Tensor w = variable(numbers({3}));
  const Tensor v = variable(exp(w));
  const Gradients g = backward(sum(square(v)));
  EXPECT_FALSE(g.contains(w));
  expect_near(g[v], 2 * exp(stop_gradient(w)));
}

// ---- transforms -----------------------------------------------------------------------------------------------------

TEST(Transforms, NestFourDeep) {
  Function f = [](const Tensor& x) { return sum(exp(2 * x)); };
  for (int k = 0; k < 4; ++k) {
    const Function df = grad(f);
    f = [df](const Tensor& x) { return sum(df(x)); };
  }
  const Tensor x = numbers({3});
  EXPECT_NEAR(f(x).item(), 16 * sum(exp(2 * x)).item(), 1e-9);
}

TEST(Transforms, AtMostThirtyDeep) {
  Function f = [](const Tensor& x) { return sum(x); };
  for (int k = 0; k < 31; ++k) {
    const Function df = grad(f);
    f = [df](const Tensor& x) { return sum(df(x)); };
  }
  EXPECT_THROW_MESSAGE(f(numbers({1})), "more than 30 gradient transforms are nested");
  // The levels are closed again after the error.
  expect_near(grad(Function([](const Tensor& x) { return sum(square(x)); }))(numbers({2})), 2 * numbers({2}));
}

TEST(Transforms, DoNotConfuseTheirLevels) {
  // d/dx [x · d/dy (x + y)] = 1, not 2: the inner derivative is with respect to y only.
  const Tensor one = full({}, 1.0, DType::f64);
  const Tensor slope = grad(
      Function([&](const Tensor& x) { return x * grad(Function([&](const Tensor& y) { return x + y; }))(one); }))(one);
  EXPECT_EQ(slope.item(), 1);
}

Tensor two_layers(const Tensor& x) {
  const Tensor w = reshape(sin(arange(0, 12, 1, DType::f64)), {3, 4});
  return softmax(matmul(reshape(tanh(x), {2, 3}), w));
}

TEST(Transforms, VjpJvpAndJacobianAreOneMatrix) {
  const Tensor x = numbers({6}), v = numbers({6}, 2), u = numbers({2, 4}, 3);
  const Tensor j = reshape(jacobian(two_layers, x), {8, 6});
  expect_near(reshape(jvp(two_layers, x, v).second, {8}), matmul(j, v));
  const auto [y, pull] = vjp(two_layers, x);
  expect_near(y, two_layers(x));
  expect_near(pull(u), matmul(reshape(u, {8}), j));
  expect_near(pull(2 * u), 2 * matmul(reshape(u, {8}), j));  // a pull may be used again
}

TEST(Transforms, HessianIsSymmetricAndItsProductIsHvp) {
  const Function f = [](const Tensor& x) { return sum(two_layers(x) * two_layers(exp(x))); };
  const Tensor x = numbers({6}), v = numbers({6}, 2), h = hessian(f, x);
  expect_near(h, t(h));
  expect_near(hvp(f, x, v), matmul(h, v));
  // Against differences of the gradient.
  require_gradients(Function([&](const Tensor& z) { return grad(f)(z); }), x);
}

TEST(Transforms, OfSeveralInputs) {
  const Tensor a = numbers({3}), b = numbers({3}, 2);
  const auto [y, g] =
      value_and_grad(FunctionOfMany([](const std::vector<Tensor>& x) { return sum(x[0] * exp(x[1])); }))({a, b});
  EXPECT_NEAR(y.item(), sum(a * exp(b)).item(), 1e-12);
  expect_near(g[0], exp(b));
  expect_near(g[1], a * exp(b));
}

TEST(Transforms, ThroughVariablesToo) {
  // A transform inside a function of variables: the variables' gradient goes through the inner derivative.
  const Tensor w = variable(numbers({3}));
  const Tensor x = numbers({3}, 2);
  const Tensor dfdx = grad(Function([&](const Tensor& z) { return sum(w * square(z)); }))(x);
  expect_near(backward(sum(dfdx))[w], 2 * x);
}

// ---- custom rules ---------------------------------------------------------------------------------------------------

TEST(CustomFunction, UsesItsRule) {
  const Tensor w = variable(numbers({3}));
  auto clipped = [](const Tensor& x) {
    return custom_function([](const std::vector<Tensor>& in) { return exp(in[0]); },
                           [](const Tensor& grad, const Tensor& output, const std::vector<Tensor>&) {
                             return std::vector<Tensor>{clamp(grad * output, -0.5, 0.5)};
                           },
                           {x});
  };
  expect_near(clipped(w), exp(stop_gradient(w)));
  expect_near(backward(sum(clipped(w)))[w], clamp(exp(stop_gradient(w)), -0.5, 0.5));
  // The rule is graph: it can be differentiated, here outside the clip.
  const Tensor x = full({}, -2.0, DType::f64);
  const Function d = grad(Function(clipped));
  EXPECT_NEAR(grad(d)(x).item(), std::exp(-2.0), 1e-12);
}

TEST(CustomFunction, NamesARuleThatGivesTheWrongCount) {
  const Tensor w = variable(numbers({3}));
  const Tensor y = custom_function(
      [](const std::vector<Tensor>& in) { return in[0] * 2; },
      [](const Tensor&, const Tensor&, const std::vector<Tensor>&) { return std::vector<Tensor>{}; }, {w});
  EXPECT_THROW_MESSAGE(backward(sum(y)), "gave 0 cotangents for 1 inputs");
}

TEST(CustomFunction, NamesACotangentOfTheWrongShape) {
  const Tensor w = variable(numbers({3}));
  const Tensor y = custom_function(
      [](const std::vector<Tensor>& in) { return in[0] * 2; },
      [](const Tensor& g, const Tensor&, const std::vector<Tensor>&) { return std::vector<Tensor>{sum(g)}; }, {w});
  EXPECT_THROW_MESSAGE(backward(sum(y)), "the cotangent of input 0 has shape [], the input [3]");
}

// ---- checkpoints ----------------------------------------------------------------------------------------------------

struct Block {
  Tensor w1, w2;
  Tensor operator()(const Tensor& x) const { return x + matmul(dropout(tanh(matmul(x, w1)), 0.3), w2); }
};

Block block(unsigned seed) {
  return {variable(numbers({5, 8}, seed) * 0.3), variable(numbers({8, 5}, seed + 100) * 0.3)};
}

TEST(Checkpoint, GradientsAreTheSameToTheLastBit) {
  const Tensor x = variable(numbers({4, 5}));
  std::vector<Block> blocks{block(1), block(2), block(3), block(4)};
  auto gradients = [&](int kind) {
    manual_seed(9);
    Tensor h = x;
    if (kind == 2) {
      h = checkpoint_sequential({blocks[0], blocks[1], blocks[2], blocks[3]}, 2, h);
    } else {
      for (const Block& b : blocks) h = kind == 1 ? checkpoint(Function(b), h) : b(h);
    }
    const Tensor loss = sum(square(h));
    const Gradients g = backward(loss);
    std::vector<std::vector<double>> all{{loss.item()}, g[x].to_vector()};
    for (const Block& b : blocks) {
      EXPECT_TRUE(g.contains(b.w1));  // captured, not passed
      all.push_back(g[b.w1].to_vector());
      all.push_back(g[b.w2].to_vector());
    }
    return all;
  };
  const auto plain = gradients(0);
  EXPECT_EQ(gradients(1), plain);
  EXPECT_EQ(gradients(2), plain);
}

TEST(Checkpoint, LeavesTheRandomNumbersWhereTheyWere) {
  const Tensor x = variable(numbers({4, 5}));
  manual_seed(3);
  const Tensor y = checkpoint(Function([](const Tensor& z) { return dropout(z); }), x);
  const std::vector<double> after_checkpoint = rand({4}).to_vector();
  backward(sum(y))[x].eval();
  manual_seed(3);
  dropout(x);
  EXPECT_EQ(rand({4}).to_vector(), after_checkpoint);
}

TEST(Checkpoint, OfSeveralInputsAndOfConstants) {
  const Tensor a = variable(numbers({3})), b = variable(numbers({3}, 2)), c = numbers({3}, 3);
  const Tensor y =
      checkpoint(FunctionOfMany([](const std::vector<Tensor>& in) { return in[0] * exp(in[1]) * in[2]; }), {a, b, c});
  const Gradients g = backward(sum(y));
  expect_near(g[a], exp(stop_gradient(b)) * c);
  expect_near(g[b], stop_gradient(a) * exp(stop_gradient(b)) * c);
  const Tensor constant = checkpoint(Function([](const Tensor& z) { return exp(z); }), c);
  EXPECT_FALSE(constant.requires_grad());
}

TEST(Checkpoint, CanBeDifferentiatedTwice) {
  const Function f = [](const Tensor& x) {
    return sum(checkpoint(Function([](const Tensor& z) { return pow(z, 3.0); }), x));
  };
  const Tensor x = numbers({4});
  expect_near(grad(f)(x), 3 * square(x));
  expect_near(hvp(f, x, ones_like(x)), 6 * x);
}

TEST(Checkpoint, InsideACheckpoint) {
  const Tensor x = variable(numbers({4}));
  const Function inner = [](const Tensor& z) {
    return checkpoint(Function([](const Tensor& u) { return sin(u); }), exp(z));
  };
  const Tensor y = checkpoint(Function([&](const Tensor& z) { return square(inner(z)); }), x);
  const Tensor plain = grad(Function([](const Tensor& z) { return sum(square(sin(exp(z)))); }))(stop_gradient(x));
  expect_near(backward(sum(y))[x], plain);
}

// ---- parts of a value -----------------------------------------------------------------------------------------------

TEST(Parts, GradientsOfPartsSideBySideAreJoined) {
  const Tensor x = numbers({2, 7}), weight = cast(arange(7), DType::f64) + 1;
  const auto pieces = [&](const std::vector<std::pair<int, int>>& ranges) {  // d/dx Σ weight·x² of ranges of columns
    const Tensor w = variable(x);
    Tensor total = zeros({}, DType::f64);
    for (const auto& [first, length] : ranges)
      total = total + sum(narrow(weight, 0, first, length) * square(narrow(w, 1, first, length)));
    return backward(total)[w];
  };
  const Tensor all = 2 * weight * x, column = arange(7);
  for (const auto& ranges : {std::vector<std::pair<int, int>>{{0, 2}, {2, 2}, {4, 3}}, {{4, 3}, {2, 2}, {0, 2}}}) {
    const Tensor g = pieces(ranges);
    const std::string steps = print_schedule({g});
    EXPECT_NE(steps.find("cat"), std::string::npos) << steps;
    EXPECT_EQ(steps.find("pad_zero"), std::string::npos) << steps;
    expect_near(g, all);
  }
  expect_near(pieces({{0, 2}, {4, 3}, {2, 2}}), all);  // never adjacent while being added
  expect_near(pieces({{1, 2}, {3, 2}}), where(logical_and(column >= 1, column < 5), all, 0.0));
  expect_near(pieces({{0, 4}, {2, 5}}), where(logical_and(column >= 2, column < 4), 2 * all, all));
  expect_near(pieces({{0, 3}, {0, 3}}), where(column < 3, 2 * all, 0.0));
}

// ---- long programs --------------------------------------------------------------------------------------------------

TEST(LongPrograms, AMillionOperationsDoNotOverflow) {
  Tensor x = zeros({2}, DType::f64);
  for (int k = 0; k < 1000000; ++k) x = x + 1;
  EXPECT_EQ(x.to_vector(), (std::vector<double>{1e6, 1e6}));
}

TEST(LongPrograms, ADeepHistoryIsDifferentiatedAndFreed) {
  const Tensor w = variable(full({2}, 1.0, DType::f64));
  Tensor x = w;
  for (int k = 0; k < 30000; ++k) x = x * 1.00001;
  const Tensor g = backward(sum(x))[w];
  EXPECT_NEAR(g.to_vector()[0], std::pow(1.00001, 30000), 1e-9);
}

TEST(LongPrograms, AGraphThatGrowsPastTheBoundIsEvaluatedByItself) {
  const int before = set_graph_bound(50);
  Tensor x = zeros({2});
  bool evaluated = false;
  for (int k = 0; k < 60; ++k) {
    x = x + 1;
    evaluated |= x.evaluated();
  }
  set_graph_bound(before);
  EXPECT_TRUE(evaluated);
  EXPECT_EQ(x.to_vector(), (std::vector<double>{60, 60}));
  EXPECT_THROW_MESSAGE(set_graph_bound(0), "the depth must be positive");
}

}  // namespace
}  // namespace ebb
