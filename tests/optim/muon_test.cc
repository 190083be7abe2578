// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "ebb/ops.h"
#include "ebb/optim.h"
#include "expect_error.h"

// Muon against its definition in plain loops.
namespace ebb {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size(), 0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b[0].size(); ++j) {
      for (std::size_t k = 0; k < b.size(); ++k) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}
Matrix transposed(const Matrix& a) {
  Matrix c(a[0].size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[0].size(); ++j) c[j][i] = a[i][j];
  }
  return c;
}
Matrix combined(double s, const Matrix& a, double t, const Matrix& b) {
  Matrix c = a;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[0].size(); ++j) c[i][j] = s * a[i][j] + t * b[i][j];
  }
  return c;
}
Matrix orthogonal(Matrix x, int iterations) {
  double squares = 0;
  for (const auto& row : x) {
    for (double v : row) squares += v * v;
  }
  x = combined(1 / (std::sqrt(squares) + 1e-7), x, 0, x);
  for (int k = 0; k < iterations; ++k) {
    const Matrix a = product(x, transposed(x)), aa = product(a, a);
    x = combined(3.4445, x, 1, product(combined(-4.775, a, 2.0315, aa), x));
  }
  return x;
}

Matrix matrix_of(const Tensor& t, std::size_t rows) {
  const std::vector<double> v = t.to_vector();
  Matrix m(rows);
  for (std::size_t i = 0; i < v.size(); ++i) m[i / (v.size() / rows)].push_back(v[i]);
  return m;
}

struct MuonLayer {
  Tensor w, b = variable(tensor({0.5, -0.25, 1.0}, DType::f64));
  explicit MuonLayer(const Shape& shape) {
    std::vector<double> v;
    for (std::int64_t i = 0; i < shape.numel(); ++i) v.push_back(std::sin(12.9898 * static_cast<double>(i) + 0.1));
    w = variable(from_data(v, shape));
  }
  template <class V>
  void visit(V&& v) {
    v("w", w);
    v("b", b);
  }
  Tensor loss() const { return sum(square(square(w)) - w) + sum(square(b) * b); }
};

void expect_steps(const Shape& shape, const MuonOptions& o) {
  MuonLayer layer(shape);
  Muon muon(o);
  const auto rows = static_cast<std::size_t>(shape[0]);
  Matrix p = matrix_of(layer.w, rows), momentum = combined(0, p, 0, p);
  std::vector<double> b = layer.b.to_vector(), m(b.size()), v(b.size());
  const double columns = static_cast<double>(p[0].size());
  const double scale = 0.2 * std::sqrt(std::max(static_cast<double>(rows), columns));
  for (int t = 1; t <= 4; ++t) {
    Matrix g = p;
    for (auto& row : g) {
      for (double& x : row) x = 4 * x * x * x - 1;
    }
    momentum = combined(o.momentum, momentum, 1 - o.momentum, g);
    const Matrix u = o.nesterov ? combined(o.momentum, momentum, 1 - o.momentum, g) : momentum;
    const Matrix x = orthogonal(u, static_cast<int>(o.iterations));
    p = combined(1 - o.lr * o.weight_decay, p, -o.lr * scale, x);
    for (std::size_t k = 0; k < b.size(); ++k) {
      const double slope = 3 * b[k] * b[k];
      m[k] = o.beta1 * m[k] + (1 - o.beta1) * slope;
      v[k] = o.beta2 * v[k] + (1 - o.beta2) * slope * slope;
      const double mean = m[k] / (1 - std::pow(o.beta1, t)), size = v[k] / (1 - std::pow(o.beta2, t));
      b[k] += -o.lr * o.weight_decay * b[k] - o.lr * mean / (std::sqrt(size) + o.eps);
    }
    muon.step(layer, backward(layer.loss()));
    const Matrix got = matrix_of(layer.w, rows);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < p[0].size(); ++j) ASSERT_NEAR(got[i][j], p[i][j], 1e-9) << "step " << t;
    }
    for (std::size_t k = 0; k < b.size(); ++k) ASSERT_NEAR(layer.b.to_vector()[k], b[k], 1e-12) << "step " << t;
  }
}

TEST(Muon, StepsAreThoseOfItsDefinition) {
  expect_steps({3, 5}, {.lr = 0.02});
  expect_steps({5, 3}, {.lr = 0.02, .nesterov = false, .weight_decay = 0});
  expect_steps({4, 2, 3, 3}, {.lr = 0.05, .momentum = 0.5, .iterations = 3});  // the kernel of a convolution
}

TEST(Muon, MakesSingularValuesNearlyOne) {
  MuonLayer layer({6, 4});
  const Tensor before = layer.w;
  Muon muon({.lr = 1, .weight_decay = 0});
  muon.step(layer, backward(layer.loss()));
  const Tensor x = (before - layer.w) / (0.2 * std::sqrt(6.0)), gram = matmul(t(x), x);
  // Eigenvalues of a symmetric matrix lie within its row sums of |entries| around the diagonal; these are near 1.
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_NEAR(select(select(gram, 0, i), 0, i).item(), 1, 0.5);
}

TEST(Muon, GoesOnFromSavedState) {
  MuonLayer straight({3, 4}), stopped({3, 4});
  Muon one, first, second;
  for (int t = 0; t < 6; ++t) one.step(straight, backward(straight.loss()));
  for (int t = 0; t < 3; ++t) first.step(stopped, backward(stopped.loss()));
  second.load_state(first.state());
  for (int t = 0; t < 3; ++t) second.step(stopped, backward(stopped.loss()));
  EXPECT_EQ(straight.w.to_vector(), stopped.w.to_vector());
}

TEST(Muon, NamesWhatIsWrong) {
  EXPECT_THROW_MESSAGE(Muon({.momentum = 1}), "Muon: momentum must be in [0, 1), got 1");
  EXPECT_THROW_MESSAGE(Muon({.iterations = 0}), "Muon: iterations must be at least 1, got 0");
}

}  // namespace
}  // namespace ebb
