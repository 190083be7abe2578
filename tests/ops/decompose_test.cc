// SPDX-License-Identifier: MIT
#include "ebb/ops/decompose.h"

#include "ebb/autograd.h"
#include "ebb/gradcheck.h"
#include "ebb/ops.h"
#include "expect_error.h"
#include "ops/values.h"

namespace ebb {
namespace {

// sin of a square: a plain wave would give matrices of rank 2.
Tensor full_rank_numbers(const Shape& shape) {
  return reshape(sin(square(arange(0, shape.numel(), 1, DType::f64) + 1.3) * 0.7), shape).eval();
}
Tensor T(const Tensor& x) { return transpose(x, -2, -1); }
void expect_close(const Tensor& a, const Tensor& b) { EXPECT_TRUE(allclose(a, b, {.rtol = 1e-10, .atol = 1e-11})); }
void expect_decomposed_gradients(const Function& f, const Tensor& x) {
  require_gradients(f, x);
  require_second_gradients(f, x, {.rtol = 1e-5, .atol = 1e-6});
}

TEST(Slogdet, SignAndLogarithmOfEveryDeterminant) {
  const Tensor a = full_rank_numbers({3, 4, 4});
  const auto [s, l] = slogdet(a);
  expect_close(s * exp(l), det(a));
  expect_values(slogdet(1e200 * eye(3, {}, DType::f64)).second, {3 * std::log(1e200)});
  const auto [zero, infinite] = slogdet(ones({2, 2}, DType::f64));
  expect_values(zero, {0});
  expect_values(infinite, {-kInf});
  expect_decomposed_gradients([](const Tensor& x) { return slogdet(x).second; }, a);
}

// From 33 rows on, values and gradients come from one factorisation.
TEST(Determinants, SharedFactorsHaveTheirDerivatives) {
  const std::int64_t n = 34;
  const Tensor a = full_rank_numbers({2, n, n}) + 4 * flip(eye(n, {}, DType::f64), {1});
  const Tensor b = full_rank_numbers({n, n}) + eye(n, {}, DType::f64), c = T(b) * 0.5;
  const auto line = [&](const Tensor& t) { return a + select(t, 0, 0) * b + select(t, 0, 1) * c; };
  const auto [s, l] = slogdet(a);
  expect_close(l, 0.5 * slogdet(matmul(a, T(a))).second);
  expect_close(s * exp(l - 50), det(a) * std::exp(-50.0));
  expect_close(where(s < 0, 0.0, logdet(a)), where(s < 0, 0.0, l));
  EXPECT_TRUE(all(isnan(logdet(a)) == (s < 0)).item<bool>());
  const Tensor at = tensor({0.1, -0.2}, DType::f64);
  expect_decomposed_gradients([&](const Tensor& t) { return slogdet(line(t)).second; }, at);
  expect_decomposed_gradients([&](const Tensor& t) { return logdet(matmul(line(t), T(line(t)))); }, at);
  expect_decomposed_gradients([&](const Tensor& t) { return det(line(t) * 0.2); }, at);
  const Tensor singular = ones({n, n}, DType::f64), v = variable(singular);
  EXPECT_EQ(det(singular).item<double>(), 0);
  expect_values(slogdet(singular).second, {-kInf});
  EXPECT_THROW_MESSAGE(backward(det(v))[v].eval(), "singular");
}

TEST(Eigh, RebuildsItsMatrix) {
  const Tensor x = full_rank_numbers({2, 4, 4}), a = x + T(x);
  const auto [w, v] = eigh(a);
  expect_close(matmul(v * unsqueeze(w, -2), T(v)), a);
  expect_close(matmul(T(v), v), expand(eye(4, {}, DType::f64), {2, 4, 4}));
  expect_decomposed_gradients([](const Tensor& x) { return eigh(x + T(x)).first; }, x);
  // A function of V that does not depend on its signs.
  expect_decomposed_gradients([](const Tensor& x) { return square(eigh(x + T(x)).second); }, full_rank_numbers({3, 3}));
  EXPECT_THROW_MESSAGE(eigh(full_rank_numbers({2, 3})), "eigh: needs square matrices");
}

TEST(Qr, RebuildsItsMatrix) {
  for (const Shape& shape : {Shape{2, 4, 3}, Shape{3, 3}, Shape{2, 5}}) {
    const Tensor a = full_rank_numbers(shape);
    const auto [q, r] = qr(a);
    const std::int64_t k = std::min(a.size(-1), a.size(-2));
    expect_close(matmul(q, r), a);
    expect_close(r, triu(r));
    expect_close(matmul(T(q), q),
                 expand(eye(k, {}, DType::f64), shape.with(shape.rank() - 2, k).with(shape.rank() - 1, k)));
    expect_decomposed_gradients([](const Tensor& x) { return qr(x).first; }, a);
    expect_decomposed_gradients([](const Tensor& x) { return qr(x).second; }, a);
  }
}

TEST(Svd, RebuildsItsMatrix) {
  for (const Shape& shape : {Shape{2, 4, 3}, Shape{3, 3}, Shape{2, 5}}) {
    const Tensor a = full_rank_numbers(shape);
    const auto [u, s, vt] = svd(a);
    expect_close(matmul(u * unsqueeze(s, -2), vt), a);
    EXPECT_TRUE(all(s >= 0).item<bool>());
    expect_decomposed_gradients([](const Tensor& x) { return std::get<1>(svd(x)); }, a);
    require_gradients(
        [](const Tensor& x) {
          const auto [u, s, vt] = svd(x);
          return matmul(u, vt) + 0 * sum(s);  // U·Vᵀ does not depend on the signs of the vectors
        },
        a);
  }
}

TEST(Pinv, SolvesInTheSenseOfLeastSquares) {
  for (const Shape& shape : {Shape{2, 4, 3}, Shape{3, 3}, Shape{2, 5}}) {
    const Tensor a = full_rank_numbers(shape), p = pinv(a);
    expect_close(matmul(matmul(a, p), a), a);
    expect_close(matmul(matmul(p, a), p), p);
    expect_decomposed_gradients([](const Tensor& x) { return pinv(x); }, a);
  }
  const Tensor a = full_rank_numbers({5, 2}), b = full_rank_numbers({5});
  expect_close(lstsq(a, b), solve(matmul(t(a), a), matmul(t(a), b)));
  expect_values(pinv(zeros({2, 3}, DType::f64)), {0, 0, 0, 0, 0, 0});
  EXPECT_THROW_MESSAGE(lstsq(a, full_rank_numbers({4})), "do not fit");
}

TEST(LeastSquares, KnowsWhatItsFactorisationTells) {
  const Tensor a = full_rank_numbers({2, 5, 3}), b = full_rank_numbers({2, 5, 4});
  const LeastSquares found = least_squares(a, b);
  expect_close(found.solution, lstsq(a, b));
  expect_close(found.residuals, sum(square(matmul(a, found.solution) - b), -2));
  expect_values(found.rank, {3, 3});
  expect_close(found.singular_values, svdvals(a));
  expect_decomposed_gradients([&](const Tensor& x) { return least_squares(x, b).residuals; }, a);
  const Tensor narrow_one = outer(arange(1, 6, 1, DType::f64), cast(tensor({1.0, 2.0, -1.0}), DType::f64));
  EXPECT_EQ(least_squares(narrow_one, full_rank_numbers({5})).rank.item<std::int64_t>(), 1);
  EXPECT_EQ(least_squares(a, b, 2.0).rank.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0}));
  const LeastSquares half = least_squares(cast(a, DType::bf16), cast(b, DType::bf16));
  EXPECT_EQ(half.solution.dtype(), DType::bf16);
  EXPECT_TRUE(allclose(cast(half.solution, DType::f64),
                       lstsq(cast(cast(a, DType::bf16), DType::f64), cast(cast(b, DType::bf16), DType::f64)),
                       {.rtol = 8e-3, .atol = 1e-6}));
  const LeastSquares empty = least_squares(zeros({3, 0}), ones({3, 2}));
  EXPECT_EQ(empty.solution.shape(), (Shape{0, 2}));
  EXPECT_EQ(empty.rank.item<std::int64_t>(), 0);
  expect_values(empty.residuals, {3, 3});
}

TEST(Decompositions, ValuesAloneHaveGradientsWhereSomeAreEqual) {
  for (const Shape& shape : {Shape{2, 4, 3}, Shape{3, 3}, Shape{2, 5}}) {
    const Tensor a = full_rank_numbers(shape);
    expect_close(svdvals(a), std::get<1>(svd(a)));
    expect_decomposed_gradients([](const Tensor& x) { return svdvals(x); }, a);
  }
  const Tensor x = full_rank_numbers({2, 4, 4});
  expect_close(eigvalsh(x + T(x)), eigh(x + T(x)).first);
  expect_decomposed_gradients([](const Tensor& x) { return eigvalsh(x + T(x)); }, x);
  const Tensor equal = eye(3, {}, DType::f64);
  expect_close(grad([](const Tensor& x) { return sum(svdvals(x)); })(equal), equal);
  expect_close(grad([](const Tensor& x) { return sum(square(eigvalsh(x))); })(equal), 2 * equal);
  EXPECT_THROW_MESSAGE(eigvalsh(full_rank_numbers({2, 3})), "eigvalsh: needs square matrices");
  EXPECT_THROW_MESSAGE(svdvals(full_rank_numbers({3})), "svdvals: needs matrices");
}

// LAPACK iterates forever on some of them.
TEST(Decompositions, RefuseMatricesThatAreNotFinite) {
  for (const double bad : {kInf, -kInf, kNaN}) {
    for (std::size_t at = 0; at < 12; ++at) {
      std::vector<double> in = full_rank_numbers({2, 3, 4}).to_vector<double>();
      in[12 + at] = bad;
      const Tensor a = from_data(in, {2, 3, 4});
      EXPECT_THROW_MESSAGE(svd(a), "svd: matrix 1 of shape [2, 3, 4] has NaNs or infinities");
      EXPECT_THROW_MESSAGE(pinv(a), "pinv: matrix 1 of shape [2, 3, 4] has NaNs or infinities");
      const Tensor square = narrow(a, -1, 0, 3);
      if (at % 4 == 3 || at % 4 > at / 4) {  // next to it, and above the diagonal, which eigh does not read
        EXPECT_NO_THROW(eigh(square));
      } else {
        EXPECT_THROW_MESSAGE(eigh(square), "eigh: matrix 1 of shape [2, 3, 3] has NaNs or infinities");
      }
    }
  }
}

}  // namespace
}  // namespace ebb
