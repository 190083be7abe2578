// SPDX-License-Identifier: MIT
// How linear_cross_entropy divides its rows on a GPU: a decision by shapes.
#include "cuda/library/head_plan.h"

#include <gtest/gtest.h>

namespace ebb::testing {
namespace {

using cuda::HeadPlan;
using cuda::HeadWork;

HeadPlan plan(const HeadWork& work) { return cuda::plan_head({}, work); }
HeadWork gradients_of(std::int64_t rows, std::int64_t width, std::int64_t classes) {
  return {.rows = rows, .classes = classes, .width = width, .gradients = true, .head_gradient = true};
}

TEST(HeadPlan, PadsHalvesToEightsByClassesAndWidthAlone) {
  for (const std::int64_t rows : {1, 7, 1000, 32768}) {
    HeadPlan p = plan(gradients_of(rows, 300, 10007));
    EXPECT_EQ(p.step, 10008);
    EXPECT_EQ(p.width, 304);
    p = plan(gradients_of(rows, 1024, 50304));
    EXPECT_EQ(p.step, 50304);
    EXPECT_EQ(p.width, 1024);
  }
  HeadWork wide = gradients_of(10, 301, 10007);
  wide.dtype = DType::f32;
  EXPECT_EQ(plan(wide).width, 301);
}

// A single chunk needs no sums of f32 besides the head's gradient, and may use their memory: 2.1 GB each here.
TEST(HeadPlan, TakesOneChunkWhereSeveralWouldNeedMoreMemory) {
  EXPECT_EQ(plan(gradients_of(8192, 4096, 128256)), (HeadPlan{128256, 4096, 8192, 1024}));
  EXPECT_EQ(plan(gradients_of(8192, 2048, 151936)).chunk, 8192);
  HeadWork rounded = gradients_of(8192, 2048, 151936);
  rounded.head_gradient = false;  // rounded to bf16 after each chunk
  EXPECT_LT(plan(rounded).chunk, 8192);
}

TEST(HeadPlan, DividesEvenly) {
  const HeadPlan p = plan(gradients_of(32768, 1024, 50257));
  EXPECT_EQ(p, (HeadPlan{50264, 1024, 11008, 2304}));
  EXPECT_LE(p.chunk * p.step * 2, std::int64_t{5} << 28);
  EXPECT_LE(p.part * p.step * 4, std::int64_t{512} << 20);
}

TEST(HeadPlan, TakesTheChunkOfTheCall) {
  HeadWork work = gradients_of(1000, 64, 3000);
  work.chunk = 129;
  EXPECT_EQ(plan(work), (HeadPlan{3000, 64, 129, 129}));
  work.rows = 100;
  EXPECT_EQ(plan(work).chunk, 100);
}

// Without gradients, and for answers whose gradients come later, the logits of a chunk are stored as a whole.
TEST(HeadPlan, HasNoPartsWhereLogitsMustStay) {
  HeadWork work = gradients_of(32768, 1024, 50257);
  work.whole_units = true;
  EXPECT_EQ(plan(work), (HeadPlan{50264, 1024, 4096, 4096}));
  work = gradients_of(32768, 1024, 50257);
  work.gradients = work.head_gradient = false;
  EXPECT_EQ(plan(work).part, 4096);
  work = gradients_of(32768, 1024, 50257);
  work.narrow_logits = true;
  EXPECT_EQ(plan(work).part, plan(work).chunk);
}

}  // namespace
}  // namespace ebb::testing
