// SPDX-License-Identifier: MIT
#include "ebb/optim/minimize.h"

#include <gtest/gtest.h>

#include "ebb/losses.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "ebb/second_order.h"
#include "expect_error.h"

namespace ebb {
namespace {

Tensor rosenbrock(const Tensor& x) {
  const Tensor here = x.slice(0, 0, -1), next = x.slice(0, 1, x.size(0));
  return sum(100.0 * square(next - square(here)) + square(1.0 - here));
}

TEST(Minimizers, FindTheEndOfTheValley) {
  const Tensor start = full({10}, -0.5, DType::f64);
  const Minimum a = minimize_lbfgs(rosenbrock, start, {.max_iterations = 300}),
                b = minimize_newton_cg(rosenbrock, start);
  for (const Minimum& m : {a, b}) {
    EXPECT_TRUE(m.converged);
    EXPECT_LT(m.gradient_norm, 1e-5);
    EXPECT_LT(max(abs(m.x - 1.0)).item(), 1e-5);
  }
  EXPECT_LT(a.evaluations, 250);
  EXPECT_LT(b.iterations, 60);
  EXPECT_GT(b.products, b.iterations);
}

TEST(Minimizers, TakeAQuadraticInFewSteps) {
  const Tensor a = diag(tensor({1.0, 4.0, 9.0}, DType::f64)), b = tensor({1.0, 1.0, 1.0}, DType::f64);
  const auto f = [&](const Tensor& x) { return 0.5 * dot(x, matmul(a, x)) - dot(b, x); };
  const Tensor expected = tensor({1.0, 0.25, 1.0 / 9}, DType::f64);
  const Tensor start = zeros({3}, DType::f64);
  EXPECT_TRUE(allclose(minimize_lbfgs(f, start).x, expected, {.rtol = 1e-6}));
  const Minimum newton = minimize_newton_cg(f, start);
  EXPECT_TRUE(allclose(newton.x, expected, {.rtol = 1e-6}));
  EXPECT_LE(newton.iterations, 4);
}

TEST(Minimizers, LbfgsFitsTheParametersOfAModel) {
  Tensor w = variable(zeros({2}, DType::f64)), b = variable(zeros({}, DType::f64));
  manual_seed(1);
  const Tensor x = randn({50, 2}, DType::f64).eval();
  const Tensor y = (matmul(x, tensor({2.0, -3.0}, DType::f64)) + 0.5).eval();
  const Minimum m = minimize_lbfgs([&] { return mse_loss(matmul(x, w) + b, y); }, {{"w", &w}, {"b", &b}});
  EXPECT_TRUE(m.converged);
  EXPECT_TRUE(allclose(w, tensor({2.0, -3.0}, DType::f64), {.rtol = 1e-6}));
  EXPECT_NEAR(b.item(), 0.5, 1e-6);
  EXPECT_TRUE(w.requires_grad());
}

TEST(SecondOrder, DiagonalOfTheHessian) {
  const auto f = [](const Tensor& x) { return sum(pow(x, 4.0)) + prod(x); };
  const Tensor x = tensor({{1.0, 2.0}, {-1.0, 0.5}}, DType::f64);
  const Tensor expected = 12.0 * square(x);
  EXPECT_TRUE(allclose(diagonal_hessian(f, x), expected, {.rtol = 1e-10}));
  manual_seed(3);
  const auto separable = [](const Tensor& v) { return sum(pow(v, 4.0)); };
  EXPECT_TRUE(allclose(diagonal_hessian(separable, x, 2), expected, {.rtol = 1e-10}));
}

TEST(SecondOrder, DiagonalOfTheFisherInformation) {
  const Tensor data = tensor({{1.0, 2.0}, {3.0, -1.0}, {0.5, 0.0}}, DType::f64);
  const Tensor x = tensor({0.3, 0.7}, DType::f64);
  const Tensor d = fisher_diagonal([&](const Tensor& v) { return matmul(data, v); }, x);
  EXPECT_TRUE(allclose(d, mean(square(data), 0), {.rtol = 1e-12}));
  EXPECT_THROW_MESSAGE(fisher_diagonal([](const Tensor& v) { return sum(v); }, x),
                       "fisher_diagonal: f must return a vector, one number per sample");
}

TEST(SecondOrder, GaussNewtonIsTheHessianOfAQuadraticLossOnALinearModel) {
  const Tensor data = tensor({{1.0, 2.0}, {3.0, -1.0}, {0.5, 0.0}}, DType::f64),
               y = tensor({1.0, 0.0, 2.0}, DType::f64);
  const auto model = [&](const Tensor& w) { return matmul(data, w); };
  const auto loss = [&](const Tensor& z) { return sum(square(z - y)); };
  const Tensor w = tensor({0.1, 0.2}, DType::f64), v = tensor({1.0, -2.0}, DType::f64);
  const Tensor product = gauss_newton_product(model, loss, w, v);
  EXPECT_TRUE(allclose(product, hvp([&](const Tensor& u) { return loss(model(u)); }, w, v), {.rtol = 1e-12}));
  // Not the Hessian where the model bends: the second derivative of the model is left out.
  const auto bent = [&](const Tensor& u) { return matmul(data, square(u)); };
  const Tensor j = jacobian(bent, w);
  EXPECT_TRUE(allclose(gauss_newton_product(bent, loss, w, v), 2.0 * matmul(t(j), matmul(j, v)), {.rtol = 1e-12}));
}

}  // namespace
}  // namespace ebb
