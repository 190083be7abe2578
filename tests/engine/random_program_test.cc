// SPDX-License-Identifier: MIT
#include "engine/random_program.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include <algorithm>
#include <cmath>

#include "engine/oracle.h"
#include "test_device.h"

// Random graphs: whatever the scheduler does with them, the numbers are those of evaluating node by node.
namespace ebb {
namespace {

// EBB_RANDOM_PROGRAMS=10 makes ten times as many, 0.5 half as many.
unsigned times(unsigned usual) {
  const char* factor = std::getenv("EBB_RANDOM_PROGRAMS");
  return factor ? std::max(1u, static_cast<unsigned>(usual * std::atof(factor))) : usual;
}

using testing::ProgramKinds;
using testing::RandomProgram;

// tolerance 0: bit for bit.
void expect_close(const Tensor& got, const Tensor& want, double tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.dtype(), want.dtype());
  const std::vector<double> a = cast(got, DType::f64).to_vector(), b = cast(want, DType::f64).to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * (1 + std::fabs(b[i])))
        << "element " << i << " of " << got.shape().str() << ": " << a[i] << ", node by node " << b[i];
  }
}

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < got.size() && !::testing::Test::HasFatalFailure(); ++k)
    expect_close(got[k], want[k], tolerance);
}

class RandomPrograms : public ::testing::TestWithParam<DType> {
 protected:
  // make() returns the tensors to compare, fused and node by node.
  template <class Make>
  void compare(unsigned seed, double tolerance, Make make) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::vector<Tensor> fused = make();
    eval(fused);
    Eager each_at_once;
    expect_close(fused, make(), tolerance);
  }
};

// One unit in the last place of numbers near 1.
double unit_of(DType dtype) {
  return dtype == DType::f64 ? 0x1p-52 : dtype == DType::f32 ? 0x1p-23 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
}

// Elementwise work, maxima and library calls: an element depends on its operands, however it is fused. Except for
// halves on a GPU: functions have a fast path where all results of a sweep are halves, and then a half may be rounded
// the other way.
TEST_P(RandomPrograms, FusedIsNodeByNodeBitForBit) {
  const double tolerance = testing::on_gpu() && is_half(GetParam()) ? 8 * unit_of(GetParam()) : 0;
  for (unsigned seed = 0; seed < times(500) && !HasFatalFailure(); ++seed) {
    const RandomProgram program(seed, GetParam(), {.sums = false});
    compare(seed, tolerance, [&] { return program.build(3 + static_cast<int>(seed % 45)); });
  }
}

// With sums, whose order, and so whose last bits, may differ: a few units in the last place, which later steps
// multiply. A half that is rounded the other way moves by 2^-11 (f16) or 2^-8 (bf16) at once.
TEST_P(RandomPrograms, FusedSumsAreThoseNodeByNode) {
  const double unit = unit_of(GetParam());
  for (unsigned seed = 1000; seed < 1000 + times(400) && !HasFatalFailure(); ++seed) {
    const RandomProgram program(seed, GetParam(), {});
    compare(seed, (is_half(GetParam()) ? 8 : 64) * unit,
            [&] { return program.build(3 + static_cast<int>(seed % 45)); });
  }
}

TEST_P(RandomPrograms, StepsAreTheOracle) {
  for (unsigned seed = 2000; seed < 2000 + times(300) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProgram program(seed, GetParam(), {});
    std::vector<Tensor> roots;
    for (const Tensor& t : program.build(3 + static_cast<int>(seed % 20))) {
      if (!t.evaluated()) roots.push_back(t);
    }
    // Inside one step: a chain of roundings of a few units each.
    testing::OracleTolerance t;
    t.f64 = 1e-11, t.f32 = 1e-4, t.f16 = 0.02, t.bf16 = 0.1;
    testing::SweepOracle::expect_same(roots, t);
  }
}

// The loss of a program as a function of its leaves: a weighted mean of all results.
Tensor loss_of(const RandomProgram& program, int steps, const std::vector<Tensor>& leaves) {
  Tensor total = mean(leaves.back());
  double weight = 1;
  for (const Tensor& t : program.build(steps, leaves)) {
    weight = weight < 0.3 ? 1 : weight * 0.8;
    if (t.numel() > 0) total = total + weight * mean(t * (1 + 0.5 * t));
  }
  return total;
}

// The gradient goes through the random graph itself, to all of its leaves; it is an ordinary graph.
TEST_P(RandomPrograms, GradientsAreThoseNodeByNode) {
  if (is_half(GetParam())) return;  // a cotangent rounded the other way changes small differences
  const double unit = GetParam() == DType::f64 ? 0x1p-52 : 0x1p-23;
  for (unsigned seed = 3000; seed < 3000 + times(200) && !HasFatalFailure(); ++seed) {
    const RandomProgram program(seed, GetParam(), {});
    compare(seed, 256 * unit, [&] {
      std::vector<Tensor> variables;
      for (const Tensor& t : program.leaves()) variables.push_back(variable(t));
      const Tensor loss = loss_of(program, 3 + static_cast<int>(seed % 18), variables);
      const Gradients g = backward(loss);
      std::vector<Tensor> all{loss};
      for (const Tensor& v : variables) all.push_back(g[v]);
      return all;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Of, RandomPrograms, ::testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16),
                         [](const auto& i) { return std::string(ebb::name(i.param)); });

// Along a random direction the loss changes as its gradient says: central differences in f64, steps without kinks.
TEST(RandomPrograms, GradientIsTheSlope) {
  for (unsigned seed = 4000; seed < 4000 + times(200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProgram program(seed, DType::f64, {.kinks = false});
    if (program.space().numel() == 0) continue;  // the mean of nothing is NaN
    const int steps = 3 + static_cast<int>(seed % 18);
    std::vector<Tensor> variables, direction;
    manual_seed(seed);
    for (const Tensor& t : program.leaves()) {
      variables.push_back(variable(t));
      direction.push_back(randn(t.shape(), DType::f64).eval());
    }
    const Gradients g = backward(loss_of(program, steps, variables));
    double slope = 0;
    for (std::size_t k = 0; k < variables.size(); ++k) slope += sum(g[variables[k]] * direction[k]).item();
    auto loss_at = [&](double h) {
      std::vector<Tensor> moved;
      for (std::size_t k = 0; k < variables.size(); ++k) moved.push_back(program.leaves()[k] + h * direction[k]);
      return loss_of(program, steps, moved).item();
    };
    // The error of the difference falls with h⁴ (Richardson) and grows with 1e-16/h.
    const double h = 1e-4, near = (loss_at(h) - loss_at(-h)) / (2 * h),
                 far = (loss_at(2 * h) - loss_at(-2 * h)) / (4 * h), expected = (4 * near - far) / 3;
    ASSERT_NEAR(slope, expected, 1e-8 * (1 + std::fabs(expected)));
  }
}

}  // namespace
}  // namespace ebb
