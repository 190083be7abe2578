#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ebb/ebb.h"
#include "engine/oracle.h"

// Random graphs: whatever the scheduler makes of them, the numbers are those of evaluating node by node.
namespace ebb {
namespace {

// Builds the same graph for the same seed. Every step keeps values of about the size of one, so that differences in
// rounding stay what they are.
class RandomProgram {
 public:
  RandomProgram(unsigned seed, DType dtype, bool library) : g_(seed), dtype_(dtype), library_(library) {
    static const Shape kSpaces[] = {{5, 7}, {33, 3}, {4, 1030}, {2, 3, 5}, {1, 9}, {64, 1}, {3, 0, 2}, {17}};
    space_ = kSpaces[pick(8)];
    std::uint64_t draw = 0;
    for (int k = 0; k < 3; ++k) leaves_.push_back(leaf(space_, ++draw));
    Shape row = space_, column = space_;
    for (int d = 0; d + 1 < space_.rank(); ++d) row = row.with(d, 1);
    column = column.with(space_.rank() - 1, 1);
    leaves_.push_back(leaf(row, ++draw));
    leaves_.push_back(leaf(column, ++draw));
    leaves_.push_back(leaf(Shape{}, ++draw));
    index_ = column.numel() && space_[space_.rank() - 1] > 0
                 ? remainder(from_numbers(column, 99), space_[space_.rank() - 1]).eval()
                 : Tensor();
  }

  // `steps` further nodes; returns some of them.
  std::vector<Tensor> build(int steps) {
    std::mt19937 g = g_;
    std::vector<Tensor> pool = leaves_;
    auto any = [&] { return pool[g() % pool.size()]; };
    auto full = [&] {  // one of the space's shape
      for (int tries = 0; tries < 20; ++tries) {
        const Tensor t = any();
        if (t.shape() == space_) return t;
      }
      return leaves_[0];
    };
    std::vector<Tensor> results;
    for (int s = 0; s < steps; ++s) {
      const Tensor made = step(g, any, full);
      pool.push_back(made);
      if (g() % 4 == 0) results.push_back(made);
    }
    results.push_back(pool.back());
    return results;
  }

 private:
  std::size_t pick(std::size_t n) { return g_() % n; }
  static Tensor from_numbers(const Shape& shape, std::uint64_t draw) {
    std::mt19937 g(static_cast<unsigned>(draw));
    std::vector<std::int64_t> v(static_cast<std::size_t>(shape.numel()));
    for (auto& x : v) x = static_cast<std::int64_t>(g() % 1000);
    return from_data(v, shape);
  }
  Tensor leaf(const Shape& shape, std::uint64_t draw) const {
    return cast(cast(from_numbers(shape, draw), DType::f64) / 500 - 1, dtype_).eval();
  }

  template <class Any, class Full>
  Tensor step(std::mt19937& g, Any any, Full full) {
    const int last = space_.rank() - 1;
    switch (g() % (library_ ? 22 : 19)) {
      case 0:
        return any() + any() * 0.5;
      case 1:
        return tanh(any() - any());
      case 2:
        return sigmoid(any()) * any();
      case 3:
        return where(leaves_[g() % leaves_.size()] > 0.1013, any(), -any());
      case 4:
        return sqrt(abs(any()) + 0.5);
      case 5:
        return maximum(any(), 0.3 * any());
      case 6:
        return cos(any()) / (1 + square(any()));
      case 7:
        return mean(full(), last, true);
      case 8:
        return numel() ? softmax(full()) : full();
      case 9:
        return numel() ? 0.2 * log_softmax(full()) : full();
      case 10:
        return space_.rank() > 1 ? mean(full(), 0, true) : full();
      case 11:
        return mean(full() * full());
      case 12:
        return numel() ? max(full(), last, true) - min(full(), last, true) : full();
      case 13:
        return space_.rank() > 1 ? transpose(transpose(full(), 0, last) * 0.7, 0, last) : full();
      case 14:
        return reshape(reshape(full(), {space_.numel()}) * 0.9, space_);
      case 15:
        return index_.defined() ? gather(full(), last, index_) : full();
      case 16:
        return cast(cast(any(), other()), dtype_);
      case 17:
        return numel() ? layer_norm(full(), {space_[last]}) * 0.3 : full();
      case 18:
        // Only leaves are compared: a rounding must not decide what a program computes.
        return cast(leaves_[g() % leaves_.size()] > 0.0513, dtype_) * full() + slice(full(), last, -1, kEnd, -1);
      case 19:
        return cumsum(full(), 0) * 0.1;
      case 20:
        return cat({narrow(full(), 0, 0, space_[0] / 2), narrow(full(), 0, space_[0] / 2, space_[0] - space_[0] / 2)},
                   0);
      default:
        return full() * mean(tanh(matmul(full(), transpose(full(), -1, last == 0 ? 0 : -2)) * 0.1));
    }
  }
  bool numel() const { return space_.numel() > 0; }
  DType other() const { return dtype_ == DType::f64 ? DType::f32 : DType::f64; }

  std::mt19937 g_;
  DType dtype_;
  bool library_;
  Shape space_;
  std::vector<Tensor> leaves_;
  Tensor index_;
};

double tolerance(DType d) { return d == DType::f64 ? 1e-6 : d == DType::f32 ? 1e-3 : 0.1; }

void expect_close(const Tensor& got, const Tensor& want, double tolerance, unsigned seed) {
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.dtype(), want.dtype());
  const std::vector<double> a = cast(got, DType::f64).to_vector(), b = cast(want, DType::f64).to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * (1 + std::fabs(b[i])))
        << "seed " << seed << ", element " << i << " of " << got.shape().str() << ": " << a[i] << ", node by node "
        << b[i];
  }
}

class RandomPrograms : public ::testing::TestWithParam<DType> {};

TEST_P(RandomPrograms, FusedIsNodeByNode) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    RandomProgram program(seed, GetParam(), true);
    const int steps = 3 + static_cast<int>(seed % 45);
    const std::vector<Tensor> fused = program.build(steps);
    std::vector<Tensor> plain;
    {
      Eager each_at_once;
      plain = program.build(steps);
    }
    eval(fused);
    for (std::size_t k = 0; k < fused.size(); ++k) {
      expect_close(fused[k], plain[k], tolerance(GetParam()), seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(RandomPrograms, SweepsAreTheOracle) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    RandomProgram program(seed, GetParam(), false);
    std::vector<Tensor> roots;
    for (const Tensor& t : program.build(3 + static_cast<int>(seed % 20))) {
      if (!t.evaluated()) roots.push_back(t);
    }
    ebb::testing::OracleTolerance t;
    t.f64 = 1e-9, t.f32 = 1e-3, t.f16 = 0.02, t.bf16 = 0.1;
    ebb::testing::SweepOracle::expect_same(roots, t);
    if (HasFatalFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
}

// A gradient is graph like any other: the same for the fused and for the eager program.
TEST_P(RandomPrograms, GradientsToo) {
  if (is_half(GetParam())) return;  // two roundings of a cotangent may differ by design
  for (unsigned seed = 200; seed < 400; ++seed) {
    auto gradient = [&] {
      return grad(Function([&](const Tensor& x) {
        RandomProgram program(seed, GetParam(), false);
        Tensor total = sum(x * 0);
        for (const Tensor& t : program.build(8)) {
          if (t.numel() > 0) total = total + mean(tanh(t * mean(x)) + t);
        }
        return total;
      }))(full({3}, 0.7, GetParam()));
    };
    const Tensor fused = gradient().eval();
    Eager each_at_once;
    expect_close(fused, gradient(), tolerance(GetParam()), seed);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, RandomPrograms, ::testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16),
                         [](const auto& i) { return std::string(ebb::name(i.param)); });

}  // namespace
}  // namespace ebb
