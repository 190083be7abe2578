// SPDX-License-Identifier: MIT
// Decisions about products, as values: one line each for a fixed model of a machine.
#include "cpu/gemm/plan.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "cpu/gemm/gemm.h"
#include "cpu/gemm/kernels.h"
#include "ebb/ebb.h"

namespace ebb::cpu {
namespace {

constexpr GemmTileShape kAvx512F32{
    .rows = 8, .cols = 48, .lanes = 16, .group = 1, .most_depth = 512, .bytes = 4, .rows_stay = true};
constexpr GemmTileShape kNeonF32{
    .rows = 8, .cols = 12, .lanes = 4, .group = 1, .most_depth = 384, .bytes = 4, .rows_stay = false};
constexpr GemmTileShape kAmx{.rows = 32,
                             .cols = 32,
                             .lanes = 16,
                             .group = 32,
                             .most_depth = 1024,
                             .bytes = 2,
                             .rows_stay = true,
                             .reads_rows = true};

CpuModel machine() {
  CpuModel model;
  model.l2_bytes = 2 << 20;
  return model;
}

// Both factors dense: rows of A and B, or columns.
enum class LiesBy { by_rows, by_cols };
GemmRequest request_of(std::int64_t m, std::int64_t n, std::int64_t k, LiesBy a, LiesBy b, std::int64_t threads) {
  GemmRequest r;
  r.m = m;
  r.n = n;
  r.k = k;
  r.a = a == LiesBy::by_rows ? GemmRequest::Factor{true, k, 1} : GemmRequest::Factor{true, 1, m};
  r.b = b == LiesBy::by_rows ? GemmRequest::Factor{true, 1, n} : GemmRequest::Factor{true, k, 1};
  r.shared = threads > 0;
  r.threads = threads;
  return r;
}

struct Line {
  const GemmTileShape& tiles;
  std::int64_t m, n, k;
  LiesBy a, b;
  std::int64_t threads;  // 0: not shared
  const char* plan;
};
constexpr LiesBy kRows = LiesBy::by_rows, kCols = LiesBy::by_cols;

TEST(GemmPlans, AreTheStoredOnes) {
  const Line lines[] = {
      {kAvx512F32, 4, 4, 8, kRows, kRows, 2, "a dot product per output, k 8"},
      {kAvx512F32, 1, 4096, 4096, kRows, kRows, 2, "vector, k in 8 of 512, 1 per task"},
      {kAvx512F32, 1, 4096, 4096, kRows, kCols, 2, "vector, 64 outputs per task, k in 8 of 512"},
      {kAvx512F32, 1, 2, 400000, kRows, kCols, 2, "vector, k in 782 of 512, 128 per task side by side"},
      {kAvx512F32, 64, 64, 100000, kCols, kRows, 16, "k in 196 of 512, 1 per task, 196 at a time, tiles 8x48"},
      {kAvx512F32, 128, 128, 128, kRows, kRows, 2,
       "tasks 64x128, tiles 8x48, k 128, A in rows, B copied by its first tiles"},
      {kAvx512F32, 256, 256, 256, kRows, kRows, 2,
       "tasks 64x128, tiles 8x48, k 256, A in rows, B copied by its first tiles"},
      {kAvx512F32, 512, 512, 512, kRows, kRows, 2,
       "tasks 256x96, tiles 8x48, k 512, A in rows, B copied by its first tiles"},
      {kAvx512F32, 1024, 1024, 1024, kRows, kRows, 2,
       "tasks 1024x48, tiles 8x48, k in 2 of 512 (2 at a time), A packed by all, B packed by its task, parts "
       "1024x1024"},
      {kAvx512F32, 1024, 1024, 1024, kRows, kRows, 16,
       "tasks 128x96, tiles 8x48, k in 2 of 512 (2 at a time), A in rows, B copied by its first tiles"},
      {kAvx512F32, 1024, 1024, 1024, kRows, kCols, 0,
       "tasks 1024x384, tiles 8x48, k in 2 of 512, A packed by all, B packed by its task, parts 1024x1024, one thread"},
      {kAvx512F32, 128, 1024, 784, kRows, kRows, 2,
       "22 turns, tiles 8x48, k in 2 of 392, A packed by all, B packed while the turn before is multiplied"},
      {kAvx512F32, 128, 4096, 4096, kRows, kRows, 2,
       "tasks 128x192, tiles 8x48, k in 8 of 512 (3 at a time), A packed by all, B packed by its task, parts 128x4096"},
      {kAvx512F32, 128, 1024, 784, kRows, kCols, 2,
       "tasks 128x48, tiles 8x48, k in 2 of 392 (2 at a time), A packed by all, B packed by its task, parts 128x1024"},
      {kAvx512F32, 1024, 784, 128, kCols, kRows, 2,
       "tasks 256x272, tiles 8x48, k 128, A packed by all, B copied by its first tiles, parts 1024x784"},
      {kAvx512F32, 4096, 50304, 768, kRows, kCols, 16,
       "tasks 2048x384, tiles 8x48, k in 2 of 384, A packed by all, B packed by its task, parts 2048x50304"},
      {kNeonF32, 512, 512, 512, kRows, kRows, 2,
       "tasks 128x96, tiles 8x12, k in 2 of 256, A packed by all, B packed by all, parts 512x512"},
      {kNeonF32, 1024, 8, 64, kCols, kRows, 2,
       "tasks 256x96, tiles 8x12, k 64, A in place, B in place, parts 1024x8, one thread"},
      {kAmx, 512, 512, 512, kRows, kRows, 16, "tasks 256x64, tiles 32x32, k 512, A in rows, B packed by its task"},
      {kAmx, 4096, 4096, 4096, kRows, kCols, 16,
       "tasks 512x512, tiles 32x32, k in 4 of 1024, A packed by its task, B packed by its task"},
      {kAmx, 4096, 4096, 2000, kRows, kCols, 1,
       "tasks 2048x512, tiles 32x32, k in 2 of 1000, A in rows, B packed by its task"},
      {kAmx, 100, 52, 5000, kRows, kRows, 4, "k in 5 of 1000, 1 per task, 5 at a time, tiles 32x32"},
  };
  for (const Line& l : lines) {
    const GemmRequest request = request_of(l.m, l.n, l.k, l.a, l.b, l.threads);
    EXPECT_EQ(describe(plan_product(request, l.tiles, machine())), l.plan) << l.m << "x" << l.n << "x" << l.k;
  }
}

// Equal requests have equal plans; another machine, or another constant of its model, another plan.
TEST(GemmPlans, AreValues) {
  const GemmRequest request = request_of(512, 512, 512, LiesBy::by_rows, LiesBy::by_rows, 2);
  const GemmPlan plan = plan_product(request, kAvx512F32, machine());
  EXPECT_EQ(plan, plan_product(request, kAvx512F32, machine()));
  EXPECT_EQ(hash(plan), hash(plan_product(request, kAvx512F32, machine())));
  CpuModel small = machine(), large_tasks = machine();
  small.l2_bytes = 1 << 18;
  large_tasks.task_flops = 1e9;
  large_tasks.first_task_flops = 1e9;
  EXPECT_NE(plan, plan_product(request, kAvx512F32, small));
  EXPECT_NE(plan, plan_product(request, kAvx512F32, large_tasks));
}

// Whatever the decision, tasks are whole tiles of a part of C, and the blocks of k are those that define the
// bits.
TEST(GemmPlans, CoverEveryProduct) {
  std::mt19937 rng(3);
  const auto size = [&] { return static_cast<std::int64_t>(1 + rng() % (rng() % 2 ? 3000 : 130)); };
  for (int i = 0; i < 20000; ++i) {
    const GemmTileShape* const shapes[] = {&kAvx512F32, &kNeonF32, &kAmx};
    const GemmTileShape& tiles = *shapes[rng() % 3];
    GemmRequest r = request_of(size(), size(), size(), rng() % 2 ? LiesBy::by_rows : LiesBy::by_cols,
                               rng() % 2 ? LiesBy::by_rows : LiesBy::by_cols, static_cast<std::int64_t>(rng() % 20));
    r.a.own = rng() % 4 != 0;
    r.b.own = rng() % 4 != 0;
    r.vectors = r.dots = rng() % 2;
    r.rounded = tiles.group > 1 && rng() % 2;
    const GemmPlan plan = plan_product(r, tiles, machine());
    SCOPED_TRACE(describe(plan));
    ASSERT_EQ(plan.depth, gemm_depth(r.k, tiles.most_depth));
    ASSERT_EQ(plan.blocks, (r.k + plan.depth - 1) / plan.depth);
    ASSERT_GE(plan.at_a_time, 1);
    ASSERT_TRUE(!r.rounded || plan.order == GemmPlan::Order::tasks);
    if (plan.order != GemmPlan::Order::tasks) continue;
    ASSERT_LE(plan.at_a_time, kGemmMostAtATime);
    ASSERT_EQ(plan.task_rows % tiles.rows, 0);
    ASSERT_EQ(plan.task_cols % tiles.lanes, 0);
    ASSERT_TRUE(plan.b.own || plan.task_cols % tiles.cols == 0);
    ASSERT_TRUE(plan.a.own ? plan.part_rows == r.m : plan.part_rows <= r.m);
    ASSERT_TRUE(plan.b.own ? plan.part_cols == r.n : plan.part_cols <= r.n);
  }
}

// A part of a product that tiles round never consists of blocks of k shared by threads: those are f32.
TEST(GemmPlans, NarrowLastPartOfHalvesIsRounded) {
  const std::int64_t m = 100, n = 2100, k = 5000;
  std::mt19937 rng(4);
  std::normal_distribution<float> normal;
  std::vector<BFloat16> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (BFloat16& x : a) x = bfloat16_from(normal(rng));
  for (BFloat16& x : b) x = bfloat16_from(normal(rng));
  const Matrix<float> left{a.data(), k, 1, DType::bf16}, right{b.data(), n, 1, DType::bf16};
  std::vector<float> exact(static_cast<std::size_t>(m * n));
  std::vector<BFloat16> rounded(exact.size());
  const int before = num_threads();
  set_num_threads(4);
  gemm<float>(m, n, k, 1.0f, left, right, 0.0f, exact.data(), n);
  gemm_to_halves(m, n, k, left, right, DType::bf16, rounded.data(), n);
  set_num_threads(before);
  for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_EQ(rounded[i].bits, bfloat16_from(exact[i]).bits) << i;
}

TEST(GemmPlans, AreShownWithTheSchedule) {
  const Tensor a = randn({40, 50}).eval(), b = randn({50, 60}).eval(), c = randn({7, 3, 4}).eval(),
               d = randn({7, 4, 5}).eval();
  const std::string one = print_schedule({matmul(a, b)}), many = print_schedule({matmul(c, d)});
  EXPECT_NE(one.find("call matmul f32[40, 50] f32[50, 60] -> f32[40, 60]\n  plan: tasks "), std::string::npos) << one;
  EXPECT_NE(many.find("\n  plan: 7 products, shared among threads: a dot product per output, k 4"), std::string::npos)
      << many;
}

}  // namespace
}  // namespace ebb::cpu
