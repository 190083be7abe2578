// SPDX-License-Identifier: MIT
// How sums at the places of an index are made: one line each, for a fixed model.
#include "cuda/library/scatter_plan.h"

#include <gtest/gtest.h>

namespace ebb::cuda {
namespace {

std::string plan_of(Op op, DType dtype, const Shape& out, const Shape& index, int axis, bool different = false) {
  LibraryCall call{op, {}, nullptr, {}, {}};
  call.attrs.i[0] = axis;
  call.attrs.i[1] = different;
  const View to{nullptr, dtype, out, contiguous_strides(out)},
      at{nullptr, DType::i64, index, contiguous_strides(index)};
  const View inputs[] = {at, at}, outputs[] = {to};
  call.inputs = inputs;
  call.outputs = outputs;
  return describe(plan_scatter(call, GpuModel()));
}

TEST(ScatterPlans, LinesThatFitOnChipAreAddedThere) {
  const auto sums = [](DType dtype, const Shape& out, const Shape& index, int axis) {
    return plan_of(Op::scatter_zero_add, dtype, out, index, axis);
  };
  EXPECT_EQ(sums(DType::f32, {4096, 8192}, {4096, 4096}, 1),
            "block of 256 threads per line, 40960 bytes of shared memory");
  EXPECT_EQ(sums(DType::bf16, {8, 3136}, {8, 20}, 1), "block of 32 threads per line, 20736 bytes of shared memory");
  EXPECT_EQ(sums(DType::f32, {3, 1000000}, {3, 100}, 1), "warp per line");
  EXPECT_EQ(sums(DType::f32, {3, 1000000}, {3, 5000}, 1), "sorted by place");
  EXPECT_EQ(sums(DType::f32, {3, 10}, {3, 1 << 20}, 1), "sorted by place");
  EXPECT_EQ(sums(DType::f32, {10, 1 << 15}, {20, 1 << 15}, 0), "thread per line");
  EXPECT_EQ(sums(DType::i64, {3, 10}, {3, 100}, 1), "thread per element, atomic sums of integers");
}

// What else is in the batch does not change the order of a line's sums, and with it their bits.
TEST(ScatterPlans, OtherLinesDoNotDecideAboutOne) {
  for (const std::int64_t length : {20, 5000, 100000}) {
    const auto plan = [&](std::int64_t lines) {
      return plan_of(Op::scatter_zero_add, DType::f32, {lines, 5000}, {lines, length}, 1);
    };
    EXPECT_EQ(plan(1), plan(100000)) << length;
  }
}

TEST(ScatterPlans, ElementsThatAreNotAddedHaveAThreadEach) {
  EXPECT_EQ(plan_of(Op::scatter_zero_add, DType::f32, {5, 7}, {5, 7}, 1, true), "thread per element, distinct places");
  EXPECT_EQ(plan_of(Op::scatter, DType::f32, {5, 7000}, {5, 700}, 1), "thread per element, the last for each place");
  EXPECT_EQ(plan_of(Op::scatter, DType::f32, {1 << 20, 7}, {1 << 20, 7}, 1), "thread per line");
}

}  // namespace
}  // namespace ebb::cuda
