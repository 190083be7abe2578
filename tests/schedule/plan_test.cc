// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "schedule/graphs.h"

// The order of steps, and when memory is allocated and freed.
namespace ebb {
namespace {

using testing::leaf;
using testing::planned;

std::string names(const Plan& p) {
  std::string all;
  for (const PlanStep& s : p.steps) all += (all.empty() ? "" : " ") + std::string(s.sweep ? "sweep" : info(s.op).name);
  return all;
}

TEST(Plan, StepsComeInTheOrderTheyWereWritten) {
  const Tensor x = leaf({20, 20}), w = leaf({20, 20});
  const Tensor first = matmul(x, w), sorted = argsort(w, 0), second = matmul(tanh(first), w);
  EXPECT_EQ(names(planned({first, sorted, second})), "matmul argsort sweep matmul");
  const Tensor early = argsort(w, 0), late = matmul(x, w);
  EXPECT_EQ(names(planned({late, early})), "argsort matmul");
}

TEST(Plan, MemoryIsReleasedAfterItsLastReader) {
  const Tensor x = leaf({20, 20}), w = leaf({20, 20});
  const Plan p = planned({matmul(tanh(matmul(x, w)), w)});
  ASSERT_EQ(names(p), "matmul sweep matmul");
  auto releases = [&](std::size_t step, std::size_t made_by) {
    const auto& r = p.steps[step].release;
    return std::find(r.begin(), r.end(), p.steps[made_by].outputs[0]) != r.end();
  };
  EXPECT_TRUE(releases(1, 0));
  EXPECT_TRUE(releases(2, 1));
  EXPECT_FALSE(releases(1, 1));
}

TEST(Plan, WhatNobodyAsksForIsNotComputed) {
  const Tensor x = leaf({20, 20});
  const Tensor unused = exp(x);
  const Plan p = planned({tanh(x)});
  ASSERT_EQ(p.steps.size(), 1u);
  EXPECT_EQ(print(*p.steps[0].program).find("exp"), std::string::npos);
  (void)unused;
}

TEST(Plan, ViewsOfMemoryTakeNoStep) {
  const Tensor x = leaf({20, 30});
  const Plan p = planned({transpose(x, 0, 1)});
  EXPECT_TRUE(p.steps.empty());
  EXPECT_FALSE(p.attach_first.empty());
}

TEST(Plan, AsText) {
  const Tensor x = leaf({200, 30}), y = leaf({200, 30});
  EXPECT_EQ(print(planned({mean(square(x - y)), sum(x, 1)})), R"(sweep [200] x [30]
    %0   f32 full   = load #0 f32 [30, 1]
    %1   f32 full   = load #1 f32 [30, 1]
    %2   f32 full   = sub %0 %1
    %3   f32 full   = square %2
    %4   f32 scalar = total sum %3
    %5   f32 scalar = constant #2 f32
    %7   f32 row    = row sum %0
  epilogue
    %6   f32 scalar = div %4 %5
  store #3 f32 [0, 0] = %6
  store #4 f32 [1, 0] = %7
)");
}

}  // namespace
}  // namespace ebb
