// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "backend/backend.h"
#include "cpu/gemm/bf16.h"
#include "ebb/autograd.h"
#include "ebb/gradcheck.h"
#include "ebb/memory.h"
#include "ebb/ops.h"

// Inputs without a pattern, identical here and in make_golden.py, and the checks these tests make of a loss.
namespace ebb::testing {

// In (−1, 1), away from 0 and from each other.
inline std::vector<double> numbers(std::int64_t n, std::int64_t phase = 0) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i)
    v.push_back(static_cast<double>((i * 7919 + phase * 104729 + 311) % 1009) / 504.5 - 1.0 + 1e-4);
  return v;
}
inline Tensor values(const Shape& shape, std::int64_t phase = 0, double scale = 1) {
  return from_data(numbers(shape.numel(), phase), shape) * scale;
}
inline Tensor positive(const Shape& shape, std::int64_t phase = 0) { return values(shape, phase) * 0.4 + 0.5; }
inline Tensor classes(std::int64_t n, std::int64_t count, std::int64_t phase = 0) {
  std::vector<std::int64_t> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back((i * 31 + phase * 17 + 5) % count);
  return from_data(v, Shape{n});
}

inline void expect_near(const Tensor& got, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> v = got.to_vector();
  ASSERT_EQ(v.size(), expected.size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(v[i])) << "element " << i << " is " << v[i];
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(v[i], expected[i]) << "element " << i;
    } else {
      EXPECT_NEAR(v[i], expected[i], tolerance * std::max(1.0, std::fabs(expected[i]))) << "element " << i;
    }
  }
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  if (x.size() != y.size()) return false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])))) return false;
  }
  return true;
}

// make() must give the same bits with 1, 2, 3 and 8 threads.
inline void expect_same_for_all_threads(const std::function<std::vector<Tensor>()>& make) {
  const int before = num_threads();
  set_num_threads(1);
  const std::vector<Tensor> first = make();
  eval(first);
  for (int threads : {2, 3, 8}) {
    set_num_threads(threads);
    const std::vector<Tensor> again = make();
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_TRUE(same_bits(first[i], again[i])) << "result " << i << " with " << threads << " threads";
  }
  set_num_threads(before);
}

// Products of bf16 by the processor's instructions, if it has them, or without.
class Bf16Instructions {
 public:
  explicit Bf16Instructions(bool allowed) { cpu::allow_gemm_bf16_tiles(allowed); }
  // Are factors rounded to bf16 at present? A GPU always does that.
  static bool round() { return backend_of(default_device()).rounds_to_bf16(); }
  ~Bf16Instructions() { cpu::allow_gemm_bf16_tiles(true); }
  Bf16Instructions(const Bf16Instructions&) = delete;
  Bf16Instructions& operator=(const Bf16Instructions&) = delete;
};
struct Rounding {
  DType dtype;
  bool instructions;
};
inline constexpr Rounding kRoundings[] = {
    {DType::f32, false}, {DType::f16, false}, {DType::bf16, false}, {DType::bf16, true}};

// Compares a loss and its gradients with their values in f64: computed in f32 and rounded once, and `small` for the
// error of f32. With instructions for bf16 the gradient of the logits is rounded before it is multiplied, too: with a
// relative error of at most 2^-9 per number, which for sums of them is taken as 2^-9 of the largest.
inline void expect_rounded_once(const std::vector<Tensor>& got, const std::vector<Tensor>& exact, DType dtype,
                                double small) {
  const double ulp = dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  ASSERT_EQ(got.size(), exact.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].dtype(), dtype);
    const std::vector<double> a = got[i].to_vector(), e = exact[i].to_vector();
    double largest = 0;
    for (double x : e) largest = std::max(largest, std::fabs(x));
    const double twice = dtype == DType::bf16 && Bf16Instructions::round() && i > 0 ? 0x1p-9 * largest : 0.0;
    for (std::size_t k = 0; k < a.size(); ++k)
      ASSERT_NEAR(a[k], e[k], 1.02 * ulp * std::fabs(e[k]) + small + twice)
          << name(dtype) << " result " << i << " at " << k;
  }
}

}  // namespace ebb::testing
