// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "cases/all_cases.h"
#include "ebb/ebb.h"
#include "losses/products.h"
#include "table/case_name.h"

// A Jacobian is computed many rows at a time: the same rows as one by one, for each operation of the table, and for the
// second derivatives.
namespace ebb::table {
namespace {

Tensor row_by_row(const Function& f, const Tensor& x) {
  const auto [y, pull] = vjp(f, x);
  const Tensor basis = eye(y.numel(), y.numel(), y.dtype());
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < y.numel(); ++i) rows.push_back(pull(reshape(basis[i], y.shape())));
  std::vector<std::int64_t> shape(y.shape().begin(), y.shape().end());
  shape.insert(shape.end(), x.shape().begin(), x.shape().end());
  return reshape(stack(rows, 0), Shape(shape));
}

void expect_close(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.shape(), expected.shape());
  ASSERT_EQ(got.dtype(), expected.dtype());
  const std::vector<double> a = got.to_vector(), b = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(std::fabs(a[i] - b[i]) <= 1e-11 * (1 + std::fabs(b[i])) || (a[i] != a[i] && b[i] != b[i]))
        << "element " << i << ": " << a[i] << " instead of " << b[i];
}

class Jacobian : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Jacobian, IsItsRows) {
  const Case& c = all_cases()[GetParam()];
  if (info(c.op).grad != OpGrad::yes) return;  // not differentiable
  for (std::size_t k = 0; k < c.inputs.size(); ++k) {
    if (c.inputs[k].kind != Input::Kind::real) continue;
    const Operands o = draw(c, c.shapes[0], DType::f64, Layout::contiguous, 3);
    const Function f = [&](const Tensor& x) {
      Tensors inputs = o.tensors;
      inputs[k] = x;
      return c.call(inputs);
    };
    expect_close(jacobian(f, o.tensors[k]), row_by_row(f, o.tensors[k]));
    ASSERT_FALSE(HasFatalFailure()) << "input " << k;
    // Second derivatives of a weighted sum, so that few of them vanish.
    const Function df = grad(Function([&](const Tensor& x) {
      const Tensor y = f(x);
      return sum(y * cos(reshape(arange(0, y.numel(), 1, y.dtype()), y.shape())));
    }));
    expect_close(jacobian(df, o.tensors[k]), row_by_row(df, o.tensors[k]));
    ASSERT_FALSE(HasFatalFailure()) << "second derivatives by input " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Jacobian, ::testing::Range(std::size_t{0}, all_cases().size()), case_name);

TEST(JacobianTogether, ProductsWithEitherSideFixed) {
  manual_seed(1);
  const Tensor x = randn({3, 4}, DType::f64).eval(), b = randn({4, 5}, DType::f64).eval();
  const Tensor many = randn({2, 4, 5}, DType::f64).eval();
  for (const Function& f :
       std::vector<Function>{[&](const Tensor& z) { return matmul(z, b); },
                             [&](const Tensor& z) { return matmul(transpose(b, 0, 1), transpose(z, 0, 1)); },
                             [&](const Tensor& z) { return matmul(z, transpose(z, 0, 1)); },
                             [&](const Tensor& z) { return matmul(z, many); }}) {
    expect_close(jacobian(f, x), row_by_row(f, x));
  }
}

TEST(JacobianTogether, ProductsOfBf16ThatAreF32) {
  manual_seed(3);
  const Tensor x = randn({3, 4}).eval(), b = randn({4, 5}).eval();
  for (const Function& f : std::vector<Function>{[&](const Tensor& z) { return rounded_product(z, b); },
                                                 [&](const Tensor& z) {
                                                   return rounded_product(b, z, {true, true});
                                                 }}) {
    expect_close(jacobian(f, x), row_by_row(f, x));  // rounded in the same places: to the last bits of f64
  }
}

TEST(JacobianTogether, InPiecesWhereARowIsLong) {
  // 40,000 intermediate numbers per row: some fifty rows at a time.
  manual_seed(2);
  const Tensor w = randn({40000}, DType::f64).eval(), x = randn({100}, DType::f64).eval();
  const Function f = [&](const Tensor& z) { return sum(tanh(unsqueeze(z, 1) * reshape(w, {100, 400})), 1); };
  expect_close(jacobian(f, x), row_by_row(f, x));
}

TEST(JacobianTogether, OfWhatDoesNotDependOnTheInput) {
  const Tensor x = ones({3}, DType::f64);
  const Tensor j = jacobian([](const Tensor&) { return ones({2}, DType::f64); }, x);
  EXPECT_EQ(j.shape(), (Shape{2, 3}));
  EXPECT_EQ(j.to_vector(), std::vector<double>(6, 0.0));
}

TEST(JacobianTogether, IsDifferentiatedToo) {
  // f = Σ x³: the Hessian is diag(6x), the gradient of its sum 6.
  const Function total = [](const Tensor& x) {
    return sum(hessian([](const Tensor& z) { return sum(pow(z, 3.0)); }, x));
  };
  EXPECT_EQ(grad(total)(tensor({1.0, 2.0, 3.0})).to_vector(), (std::vector<double>{6, 6, 6}));
}

TEST(JacobianTogether, WithARuleThatLooksAtNumbers) {
  const auto f = [](const Tensor& x) {
    return custom_function(
        [](const Tensors& v) { return 2 * v[0]; },
        [](const Tensor& g, const Tensor&, const Tensors&) { return Tensors{sum(g).item() > 0 ? 2 * g : 3 * g}; }, {x});
  };
  EXPECT_EQ(jacobian(f, ones({2})).to_vector(), (std::vector<double>{2, 0, 0, 2}));
}

}  // namespace
}  // namespace ebb::table
