// SPDX-License-Identifier: MIT
// Rules are graphs themselves: the first three derivatives of every operation with a rule of its own, each against
// central differences of the previous one.
#include <string>

#include "ebb/autograd.h"
#include "ops/finite_differences.h"

namespace ebb {
namespace {

using testing::some;

struct DerivativeCase {
  std::string name;
  Function f;
  Tensor x;
};

// Along fixed directions u₁, u₂, u₃:  φ₀ = Σ f(x)·g,   φ_{k+1} = Σ ∇φ_k·u_k
void expect_three_derivatives(const DerivativeCase& c) {
  SCOPED_TRACE(c.name);
  Function phi = [f = c.f](const Tensor& v) {
    const Tensor y = f(v);
    return sum(y * some(y.shape(), 0.7));
  };
  for (int order = 1; order <= 3; ++order) {
    const Tensor u = some(c.x.shape(), 1.3 + order);
    const Function next = [phi, u](const Tensor& v) { return sum(grad(phi)(v) * u); };
    const double h = 1e-5;
    const double numeric = (phi(c.x + h * u).item() - phi(c.x - h * u).item()) / (2 * h);
    EXPECT_NEAR(next(c.x).item(), numeric, 2e-5 * (1 + std::abs(numeric))) << "order " << order;
    phi = next;
  }
}

void expect_three_derivatives(const std::vector<DerivativeCase>& cases) {
  for (const DerivativeCase& c : cases) expect_three_derivatives(c);
}

#define CASE(expression, x)                                     \
  DerivativeCase {                                              \
#expression, [=](const Tensor& v) { return expression; }, x \
  }

// Zeros, infinities and products that f32 does not hold: as the products of the others.
TEST(ProductGradient, SpecialNumbers) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<std::pair<std::vector<double>, std::vector<double>>> cases{
      {{2, 3, 5}, {15, 10, 6}},
      {{0, 3, 5}, {15, 0, 0}},
      {{0, 3, 0}, {0, 0, 0}},
      {{2, inf, -3}, {-inf, -6, inf}},
      {{-inf, inf, 2}, {inf, -inf, -inf}},
      {{0, -inf, 2}, {-inf, 0, nan}},
      {{0x1p100, 0x1p100, 0x1p-100}, {1, 1, inf}},
      {{nan, 1, 2}, {nan, nan, nan}},
      {{7}, {1}}};
  for (const auto& [numbers, want] : cases) {
    const Tensor x = variable(tensor_from(numbers, {static_cast<std::int64_t>(numbers.size())}, DType::f32));
    const std::vector<double> got = backward(prod(x, 0))[x].to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
          << "d/dx" << i << " of the product of " << numbers[0] << ", ...: " << got[i] << " instead of " << want[i];
  }
}

TEST(HigherOrder, Reductions) {
  const Tensor x = some({3, 4, 2});
  const Tensor zeros_inside = tensor({{2.0, 0.0, 3.0, 0.0, 5.0, 1.0}, {1.0, 2.0, 0.0, 1.0, 1.0, 1.0}}, DType::f64);
  expect_three_derivatives({
      CASE(square(sum(v, {0, 2})), x),
      CASE(exp(mean(v, 1)), x),
      CASE(prod(v, {0, 2}), x),
      CASE(prod(v, 1), zeros_inside),
      CASE(cumprod(v, 1), zeros_inside),
      CASE(square(cumsum(v, 1)), x),
      CASE(square(max(v, 1)), x),
      CASE(square(min(v, {0, 2}, true)), x),
      CASE(var(v, 1), x),
      CASE(stddev(v, {0, 2}), x),
      CASE(norm(v, 2, 1), x),
      CASE(norm(v, 1.5, 1), x),
      CASE(logsumexp(v, {0, 2}), x),
      CASE(square(median(v, 1)), x),
      CASE(square(quantile(v, 0.3, 1)), x),
  });
}

TEST(HigherOrder, Shapes) {
  const Tensor x = some({3, 4, 2});
  expect_three_derivatives({
      CASE(exp(permute(reshape(v, {4, 3, 2}), {2, 0, 1})), x),
      CASE(exp(expand(unsqueeze(v, 0), {2, 3, 4, 2})) * exp(v), x),
      CASE(exp(slice(v, 1, 3, kEnd, -2)), x),
      CASE(exp(slice(v, 1, 0, kEnd, 3)), x),
      CASE(exp(cat({v, square(v)}, 1)), x),
      CASE(exp(pad(v, {1, 1, 2, 0}, PadMode::reflect)), x),
      CASE(exp(pad(v, {1, 1, 2, 0}, PadMode::replicate)), x),
      CASE(exp(roll(v, {1, 1}, {0, 1})), x),
      CASE(exp(repeat(v, {2, 2, 1, 2})), x),
      CASE(exp(diagonal(v, 1)), x),
      CASE(exp(diag(v, 1)), some({3})),
  });
}

TEST(HigherOrder, Indices) {
  const Tensor x = some({3, 4}), many = tensor({{0, 0, 3}, {2, 1, 2}}), one = tensor({{3}, {0}, {1}});
  auto part = [](const Tensor& v) { return square(slice(slice(v, 0, 0, 2), 1, 0, 3)); };
  expect_three_derivatives({
      CASE(exp(gather(v, 1, many)), x),
      CASE(exp(gather(v, 1, one)), x),
      CASE(exp(scatter(v, 1, many, part(v))), x),
      CASE(exp(scatter_add(v, 1, many, part(v))), x),
      CASE(exp(index_select(v, 0, tensor({2, 0, 2}))), x),
      CASE(exp(index_add(v, 0, tensor({2, 0, 2}), square(v))), x),
      CASE(exp(embedding(v, tensor({{1, 0}, {2, 2}}))), x),
      CASE(exp(sort(v, 1).first), x),
      CASE(exp(topk(v, 2, 1).first), x),
  });
}

TEST(HigherOrder, LinearAlgebra) {
  const Tensor one = eye(4, {}, DType::f64), a = some({2, 4, 4}) + 2 * one, b = some({2, 4, 2}, 3);
  const Tensor x = some({3, 4, 2}), w = some({2, 3});
  const Tensor singular = tensor({{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}, {1.0, 0.0, 1.0}}, DType::f64);
  expect_three_derivatives({
      CASE(matmul(v, exp(transpose(v, -1, -2))), x),
      CASE(exp(matmul(v, w)), x),
      CASE(einsum("bij,bkj->ik", {v, exp(v)}), x),
      CASE(cholesky(matmul(v, transpose(v, -1, -2)) + one), a),
      CASE(solve(v, b), a),
      CASE(inv(v), a),
      CASE(det(v), a),
      CASE(det(v), singular),
      CASE(logdet(matmul(v, transpose(v, -1, -2))), a),
      CASE(triangular_solve(v, exp(b)), a),
      CASE(triangular_solve(v, square(slice(v, 2, 0, 2)), {true, true, true}), a),
  });
}

TEST(HigherOrder, Norms) {
  const Tensor x = some({3, 4, 2}), w = some({4, 2}, 1);
  expect_three_derivatives({
      CASE(layer_norm(v, {4, 2}, w, w), x),
      CASE(rms_norm(v, {4, 2}, w), x),
      CASE(normalize(v), x),
      CASE(normalize(v, 3, 0), x),
  });
}

}  // namespace
}  // namespace ebb
