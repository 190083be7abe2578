// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedule/graphs.h"
#include "schedule/strips.h"

// Values and gradients of a formula with strips and without.
namespace ebb::testing {

// Strips for every product of at least 64 KiB, of 32 rows or more.
inline constexpr StripModel kSmallStrips{
    .large = 64 << 10, .large_enough_to_repeat = 64 << 10, .strip_bytes = 32 << 10, .least_rows = 32};

// A memory budget of the default device, for the lifetime of this object.
class Budget {
 public:
  explicit Budget(std::size_t bytes) { set_memory_budget(bytes, default_device()); }
  ~Budget() { set_memory_budget(0, default_device()); }
  Budget(const Budget&) = delete;
};

inline std::vector<Tensor> results(const FunctionOfMany& f, const std::vector<Tensor>& inputs) {
  auto [loss, all] = value_and_grad(f)(inputs);
  all.insert(all.begin(), loss);
  return all;
}

// Loss and gradients.
inline std::vector<std::vector<double>> numbers(const std::vector<Tensor>& all) {
  eval(all);
  std::vector<std::vector<double>> out;
  for (const Tensor& t : all) out.push_back(cast(t, DType::f64).to_vector<double>());
  return out;
}

inline int loops(const Plan& plan) {
  return static_cast<int>(
      std::count_if(plan.steps.begin(), plan.steps.end(), [](const PlanStep& s) { return s.strips != nullptr; }));
}
inline int tiled_loops(const Plan& plan) {
  return static_cast<int>(std::count_if(plan.steps.begin(), plan.steps.end(), [](const PlanStep& s) {
    return s.strips && loops(s.strips->bodies[0].plan) > 0;
  }));
}
inline int products(const Plan& plan) {
  int n = 0;
  for (const PlanStep& s : plan.steps) {
    if (s.strips) n += products(s.strips->bodies[0].plan);
    n += !s.sweep && !s.strips && s.op == Op::matmul;
  }
  return n;
}

// Expects the same numbers with and without strips, up to their sums' rounding; `most` is their relative difference.
inline void expect_same(const char* name, const FunctionOfMany& f, const std::vector<Tensor>& inputs,
                        int loops_expected, int products_expected, const StripModel& model = kSmallStrips,
                        double most = 2e-5) {
  SCOPED_TRACE(name);
  const auto plain = numbers(results(f, inputs));
  const UseStripModel strips(model);
  const Plan plan = planned(results(f, inputs));
  EXPECT_EQ(loops(plan), loops_expected) << print(plan);
  EXPECT_EQ(products(plan), products_expected) << print(plan);
  const auto in_strips = numbers(results(f, inputs));
  ASSERT_EQ(plain.size(), in_strips.size());
  for (std::size_t k = 0; k < plain.size(); ++k) {
    double scale = 0;
    for (double y : plain[k]) scale = std::max(scale, std::abs(y));
    for (std::size_t i = 0; i < plain[k].size(); ++i)
      ASSERT_NEAR(plain[k][i], in_strips[k][i], most * scale + 1e-30) << "result " << k << ", element " << i;
  }
}

}  // namespace ebb::testing
