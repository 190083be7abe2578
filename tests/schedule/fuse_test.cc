// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "schedule/graphs.h"

// Which values share a sweep, and which work waits for a later one.
namespace ebb {
namespace {

using testing::Fused;
using testing::leaf;

TEST(Fuse, ElementwiseWorkIsOneSweep) {
  const Tensor x = leaf({30, 40}), row = leaf({40});
  EXPECT_EQ(Fused({exp(x) * row + tanh(x), x - row}).groups(), 1u);
}

TEST(Fuse, ARowReductionAndItsUsersAreOneSweep) {
  const Tensor x = leaf({3000, 40});
  EXPECT_EQ(Fused({softmax(x)}).groups(), 1u);
  EXPECT_EQ(Fused({layer_norm(x, {40})}).groups(), 1u);
  // Over the outer axis a maximum and a sum are of columns: known after the last row.
  EXPECT_EQ(Fused({softmax(x, 0)}).groups(), 3u);
}

TEST(Fuse, RowsAndColumnsOfOneSpaceDoNotMix) {
  const Tensor x = leaf({300, 400});
  EXPECT_EQ(Fused({x - mean(x, 1, true) - mean(x, 0, true)}).groups(), 2u);
}

TEST(Fuse, ATotalIsWaitedForInSmallSpacesOnly) {
  const Tensor small = leaf({128, 128}), large = leaf({128, 129});
  EXPECT_EQ(Fused({small / sum(small)}).groups(), 1u);
  EXPECT_EQ(Fused({large / sum(large)}).groups(), 2u);
}

TEST(Fuse, SmallWorkOnATotalIsAnEpilogue) {
  const Tensor x = leaf({300, 400});
  const Fused f({sqrt(mean(square(x)))});
  EXPECT_EQ(f.groups(), 1u);
  EXPECT_EQ(f.place(Op::sqrt).post, Post::scalar);
  EXPECT_EQ(f.place(Op::square).post, Post::no);
  EXPECT_EQ(Fused({exp(sum(x, 0))}).place(Op::exp).post, Post::column);
}

TEST(Fuse, ReadersOfOneMemoryAreJoined) {
  const Tensor x = leaf({300, 400}), y = leaf({300, 400});
  EXPECT_EQ(Fused({sum(x), exp(x)}).groups(), 1u);
  EXPECT_EQ(Fused({sum(x), exp(y)}).groups(), 2u);
}

TEST(Fuse, OnlyWhatIsAskedForIsWritten) {
  const Tensor x = leaf({300, 400});
  const Fused f({tanh(exp(x))});
  EXPECT_FALSE(f.place(Op::exp).in_memory);
  EXPECT_TRUE(f.place(Op::tanh).in_memory);
}

TEST(Fuse, WhatIsRoundedBeforeItIsJoinedIsNotWrittenUnrounded) {
  const Tensor x = leaf({300, 400});
  const Fused f({cast(cat({exp(x), tanh(x)}, 1), DType::bf16)});
  EXPECT_FALSE(f.place(Op::exp).in_memory);
  EXPECT_FALSE(f.place(Op::tanh).in_memory);
  EXPECT_TRUE(f.place(Op::cast).in_memory);
}

TEST(Fuse, ACallEndsASweep) {
  const Tensor x = leaf({30, 30});
  const Fused f({tanh(matmul(exp(x), x))});
  EXPECT_EQ(f.groups(), 2u);
  EXPECT_TRUE(f.place(Op::exp).in_memory);
  EXPECT_LT(f.place(Op::exp).level, f.place(Op::matmul).level);
  EXPECT_LE(f.place(Op::matmul).level, f.place(Op::tanh).level);
}

TEST(Fuse, RenamedDimensionsAreFollowedAndReversedOnesAreNot) {
  const Tensor x = leaf({300, 400});
  EXPECT_EQ(Fused({transpose(exp(x), 0, 1) + 1}).groups(), 1u);
  EXPECT_EQ(Fused({slice(exp(x), 0, -1, kEnd, -1) + 1}).groups(), 2u);
}

TEST(Fuse, APlacedNumberIsNotComputedForAxesItHasNot) {
  const Tensor s = leaf({}) + 1, wide = s / leaf({16, 3, 5});
  const Tensor placed = gather_backward(reshape(s, {1}), {5}, 0, cast(reshape(s, {1}), DType::i64));
  const Fused f({wide, placed});
  EXPECT_NE(f.place(Op::place).group, f.place(Op::div).group);
}

TEST(Delay, WorkThatOnlyALaterSweepNeedsWaitsForIt) {
  const Tensor x = leaf({300, 400});
  const Fused f({exp(x) * sum(x)});
  EXPECT_EQ(f.groups(), 2u);
  EXPECT_EQ(f.place(Op::exp).group, f.place(Op::mul).group);
  EXPECT_FALSE(f.place(Op::exp).in_memory);
  EXPECT_LT(f.place(Op::sum).level, f.place(Op::exp).level);
}

TEST(Delay, WorkThatACallNeedsDoesNot) {
  const Tensor x = leaf({64, 64});
  const Fused f({matmul(exp(x), x) * sum(matmul(x, x))});
  EXPECT_LT(f.place(Op::exp).level, f.place(Op::mul).level);
  EXPECT_TRUE(f.place(Op::exp).in_memory);
}

TEST(Delay, ASweepWhoseLargeValuesALaterOneReadsRunsWithIt) {
  // Everything but the count of kept rows waits for that count: one sweep over the data.
  const Tensor x = variable(leaf({3000, 40})), target = zeros({3000}, DType::i64).eval();
  const Tensor loss = cross_entropy(x, target);
  const Fused f({loss, backward(loss)[x]});
  EXPECT_EQ(f.groups(), 2u);
  EXPECT_FALSE(f.place(Op::exp).in_memory);
}

// Rounds that delay whole groups end with three sweeps here. Delaying one more group makes it two.
TEST(Delay, GoesOnWhileAStepSavesBytes) {
  const Tensor x = variable(leaf({5, 4})), target = variable(leaf({5, 4})), weight = variable(leaf({5, 4}));
  const Tensor loss = mse_loss(x, target, {.weight = weight});
  Gradients g = backward(loss);
  EXPECT_EQ(Fused({loss, g[x], g[target], g[weight]}).groups(), 2u);
}

// ---- reductions by memory -------------------------------------------------------------------------------------------

Fused fused_by_memory(const std::vector<Tensor>& roots) {
  Fused f(roots);
  f.graph = testing::simplified(roots);
  f.fusion = fuse(f.graph, 4, Reductions::by_memory);
  return f;
}

// Blocks of columns of a head wait for each other. A block's part of the one-hot matrix could be made with the first
// one; it is made with the block. (f16: no processor multiplies it as it is.)
TEST(Delay, WorkForAStepThatWaitsForAnEventWaitsWithIt) {
  const Tensor x = variable(cast(leaf({512, 8}), DType::f16).eval()), head = cast(leaf({8000, 8}), DType::f16).eval();
  TokenStatisticsOptions options;
  options.entropy = true;
  options.chunk = 16;
  const TokenStatistics s = linear_token_statistics(x, head, randint(0, 8000, {512}).eval(), options);
  const Tensor dx = backward(sum(s.log_probs) + sum(s.entropy))[x];
  const Plan plan = testing::planned({dx, s.log_probs, s.entropy});
  std::int64_t most = 0;
  for (const PlanStep& step : plan.steps) {
    std::int64_t elements = 0;
    for (const std::int32_t v : step.outputs) elements += plan.graph.values[static_cast<std::size_t>(v)].shape.numel();
    most = std::max(most, elements);
  }
  EXPECT_LT(most, 3 * 16 * 8000);
}

// Whatever a view calls its dimensions, a GPU reads neighbours in memory together.
TEST(Reductions, OfATransposedViewAreOfColumns) {
  const Tensor x = leaf({300, 200}), small = leaf({100, 90}), batch = leaf({4, 60, 90});
  const auto post = [](const Tensor& t) { return fused_by_memory({t}).place(Op::sum).post; };
  EXPECT_EQ(post(sum(transpose(x, 0, 1), 1)), Post::column);
  EXPECT_EQ(post(sum(exp(transpose(x, 0, 1)), 1)), Post::column);
  EXPECT_EQ(post(sum(transpose(exp(x), 0, 1), 1)), Post::column);
  EXPECT_EQ(post(sum(transpose(x, 0, 1), 0)), Post::no);
  EXPECT_EQ(post(sum(x, 0)), Post::column);
  EXPECT_EQ(post(sum(x, 1)), Post::no);
  EXPECT_EQ(post(sum(transpose(batch, 1, 2), 2)), Post::no);  // over neither the first nor the last numbers
  EXPECT_EQ(post(sum(transpose(small, 0, 1), 1)), Post::no);  // stays in the caches
  EXPECT_EQ(Fused({sum(transpose(x, 0, 1), 1)}).place(Op::sum).post, Post::no);
}

TEST(Reductions, OfManyColumnsAreNotBesideThoseOfRows) {
  const auto groups = [](std::int64_t columns) {
    const Tensor x = leaf({8, columns});
    return fused_by_memory({sum(exp(x), 0), max(exp(x), 1)}).groups();
  };
  EXPECT_EQ(groups(8000), 1u);
  EXPECT_EQ(groups(20000), 2u);
}

TEST(Reductions, OfFewColumnsAreNotBesideThoseOfManyRows) {
  const auto groups = [](std::int64_t rows, std::int64_t columns) {
    const Tensor x = leaf({rows, columns});
    return fused_by_memory({sum(exp(x), 0), max(exp(x), 1)}).groups();
  };
  EXPECT_EQ(groups(100'000, 7), 2u);
  EXPECT_EQ(groups(1000, 7), 1u);  // a launch would take longer
  EXPECT_EQ(groups(100'000, 70), 1u);
}

}  // namespace
}  // namespace ebb
