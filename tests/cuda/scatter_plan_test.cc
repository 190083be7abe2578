// SPDX-License-Identifier: MIT
// How sums at the places of an index are computed: one line each, for a fixed model.
#include "cuda/library/scatter_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ebb::cuda {
namespace {

std::string scatter_plan_of(Op op, DType dtype, const Shape& out, const Shape& index, int axis,
                            bool different = false) {
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
    return scatter_plan_of(Op::scatter_zero_add, dtype, out, index, axis);
  };
  EXPECT_EQ(sums(DType::f32, {4096, 8192}, {4096, 4096}, 1),
            "block of 256 threads per line, 40960 bytes of shared memory");
  EXPECT_EQ(sums(DType::bf16, {8, 3136}, {8, 513}, 1), "block of 256 threads per line, 20736 bytes of shared memory");
  EXPECT_EQ(sums(DType::f32, {3, 1000000}, {3, 100}, 1), "warp per line");
  EXPECT_EQ(sums(DType::f32, {3, 1000000}, {3, 5000}, 1), "sorted by place");
  EXPECT_EQ(sums(DType::f64, {3, 1000000}, {3, 1 << 20}, 1), "sorted by place");
  EXPECT_EQ(sums(DType::f32, {3, 9000}, {3, 1 << 20}, 1),
            "block of 256 threads per 9000 elements of a line, 44192 bytes of shared memory");
  EXPECT_EQ(sums(DType::f32, {1000, 1 << 15}, {2000, 1 << 15}, 0), "thread per line");
}

// Lines that would leave most threads of a block idle.
TEST(ScatterPlans, ShortLinesHaveFewThreads) {
  const Op lines = Op::scatter_zero_add, slices = Op::index_zero_add;
  const auto sums = [](Op op, const Shape& out, const Shape& index, int axis) {
    return scatter_plan_of(op, DType::f32, out, index, axis);
  };
  const auto places = [](int bytes, int threads = 256) {
    return fmt::format("thread per line, its places in {} bytes of shared memory for {}", bytes, threads);
  };
  EXPECT_EQ(sums(slices, {12113047, 2}, {1}, 1), places(256 * 3 * 8));
  EXPECT_EQ(sums(lines, {2097153, 5}, {2097153, 5}, 1), places(256 * 5 * 4));
  EXPECT_EQ(sums(lines, {4099, 7, 513}, {4099, 5, 513}, 1), places(256 * 7 * 4));
  EXPECT_EQ(sums(slices, {1000, 32}, {8}, 1), places(128 * 33 * 8, 128));
  const std::string firsts = "thread per element, the first for each place looks through the line";
  EXPECT_EQ(sums(lines, {1, 33554432}, {1, 5}, 1), firsts);
  EXPECT_EQ(sums(lines, {40000, 1000}, {40000, 32}, 1), firsts);
  EXPECT_EQ(sums(slices, {64, 100003}, {5}, 0), firsts);
  EXPECT_EQ(sums(lines, {40000, 100}, {40000, 70}, 1), "warp per line, 8 in 3200 bytes of shared memory");
  EXPECT_EQ(sums(lines, {400, 100}, {400, 70}, 1), "block of 128 threads per line, 8592 bytes of shared memory");
  EXPECT_EQ(sums(slices, {4099, 513}, {171}, 1), "sorted by place");
  EXPECT_EQ(sums(slices, {9, 513}, {171}, 1), "block of 256 threads per line, 12296 bytes of shared memory");
}

// Threads with sums of their own wait for no other.
TEST(ScatterPlans, ThreadsHaveSumsOfTheirOwnForFewPlaces) {
  const auto sums = [](Op op, DType dtype, const Shape& out, const Shape& index, int axis) {
    return scatter_plan_of(op, dtype, out, index, axis);
  };
  const Op lines = Op::scatter_zero_add, slices = Op::index_zero_add;
  EXPECT_EQ(sums(lines, DType::f32, {4668, 10}, {4668, 2859}, 1),
            "sums of 256 threads per line, 10240 bytes of shared memory");
  EXPECT_EQ(sums(lines, DType::f32, {1}, {5000000}, 0),
            "sums of 256 threads per 16384 elements of a line, 1024 bytes of shared memory");
  EXPECT_EQ(sums(lines, DType::bf16, {3, 256}, {3, 700}, 1),
            "sums of 64 threads per line, 65536 bytes of shared memory");
  EXPECT_EQ(sums(lines, DType::f32, {10, 1 << 15}, {20, 1 << 15}, 0),
            "sums of 256 threads per line of 256 neighbours, 10240 bytes of shared memory");
  EXPECT_EQ(sums(slices, DType::f32, {3, 64}, {1000000}, 0),
            "sums of 256 threads per 977 elements of a line of 64 neighbours, 6144 bytes of shared memory");
  EXPECT_EQ(sums(slices, DType::f32, {50, 70}, {400000}, 0),
            "sums of 128 threads per 400 elements of a line of 70 neighbours, 51200 bytes of shared memory");
  EXPECT_EQ(sums(slices, DType::f32, {5000, 64}, {1000000}, 0), "sorted by place");
  EXPECT_EQ(sums(slices, DType::f32, {5000}, {1000000}, 0),
            "block of 256 threads per 5000 elements of a line, 48192 bytes of shared memory");
}

// Exact sums do not depend on the order either.
TEST(ScatterPlans, ManyPlacesHaveSumsInFixedPoint) {
  const std::string exact = "thread per element, exact sums in fixed point";
  EXPECT_EQ(scatter_plan_of(Op::scatter_zero_add, DType::f32, {100000}, {4431497}, 0), exact);
  EXPECT_EQ(scatter_plan_of(Op::scatter_zero_add, DType::bf16, {3, 3000000}, {3, 4431497}, 1), exact);
  EXPECT_EQ(scatter_plan_of(Op::scatter_zero_add, DType::f16, {40000, 7}, {10000, 7}, 0), exact);
  EXPECT_EQ(scatter_plan_of(Op::index_zero_add, DType::f32, {100000}, {4431497}, 0), exact);
  EXPECT_EQ(scatter_plan_of(Op::index_zero_add, DType::f32, {100000, 64}, {4431497}, 0), "sorted by place");
  // Many lines have a short index in common: it is sorted once for all of them.
  EXPECT_EQ(scatter_plan_of(Op::index_zero_add, DType::f32, {159, 65537}, {65542}, 1), "sorted by place");
  EXPECT_EQ(scatter_plan_of(Op::index_zero_add, DType::f32, {1, 65537}, {65542}, 1), "sorted by place");
  EXPECT_EQ(scatter_plan_of(Op::scatter_zero_add, DType::f32, {1 << 20}, {std::int64_t{1} << 27}, 0),
            "sorted by place");
}

TEST(ScatterPlans, IntegersHaveNoOrder) {
  const auto sums = [](Op op, const Shape& out, const Shape& index) {
    return scatter_plan_of(op, DType::i64, out, index, 0);
  };
  EXPECT_EQ(sums(Op::index_zero_add, {1000}, {3000000}), "thread per element, 4 tables of integers in shared memory");
  EXPECT_EQ(sums(Op::scatter_zero_add, {12000}, {3000000}), "thread per element, a table of integers in shared memory");
  EXPECT_EQ(sums(Op::scatter_zero_add, {20000}, {3000000}), "thread per element, atomic sums of integers");
  EXPECT_EQ(sums(Op::index_zero_add, {20000, 64}, {30000}), "thread per element, atomic sums of integers");
}

// The rest of the batch does not change the order of a line's sums, and so not their bits.
TEST(ScatterPlans, OtherLinesDoNotDecideAboutOne) {
  for (const std::int64_t length : {20, 5000, 100000}) {
    const auto plan = [&](std::int64_t lines) {
      return scatter_plan_of(Op::scatter_zero_add, DType::f32, {lines, 5000}, {lines, length}, 1);
    };
    EXPECT_EQ(plan(1), plan(100000)) << length;
  }
}

TEST(ScatterPlans, ElementsThatAreNotAddedHaveAThreadEach) {
  EXPECT_EQ(scatter_plan_of(Op::scatter_zero_add, DType::f32, {5, 7}, {5, 7}, 1, true),
            "thread per element, distinct places");
  EXPECT_EQ(scatter_plan_of(Op::scatter, DType::f32, {5, 70000}, {5, 700}, 1),
            "thread per element, the last for each place");
  EXPECT_EQ(scatter_plan_of(Op::scatter, DType::bf16, {5000000}, {5000000}, 0),
            "thread per element, the last for each place with its value");
  EXPECT_EQ(scatter_plan_of(Op::scatter, DType::f64, {5000000}, {5000000}, 0),
            "thread per element, the last for each place");
  EXPECT_EQ(scatter_plan_of(Op::scatter, DType::f32, {4668, 6554}, {4668, 2859}, 1),
            "block of 256 threads per line, the last for each place in 26216 bytes of shared memory");
  EXPECT_EQ(scatter_plan_of(Op::scatter, DType::f32, {253134, 140}, {253134, 35}, 1),
            "block of 256 threads per 4 lines, the last for each place in 2240 bytes of shared memory");
  EXPECT_EQ(scatter_plan_of(Op::scatter, DType::f32, {3, 40}, {3, 20}, 1),
            "block of 64 threads per 2 lines, the last for each place in 320 bytes of shared memory");
  EXPECT_EQ(scatter_plan_of(Op::scatter, DType::bf16, {128, 65536}, {128, 16384}, 1),
            "thread per element, the last for each place with its value");
  EXPECT_EQ(scatter_plan_of(Op::scatter, DType::f32, {1 << 20, 7}, {1 << 20, 7}, 1),
            "thread per line, its places in 7168 bytes of shared memory for 256");
  EXPECT_EQ(scatter_plan_of(Op::scatter, DType::f32, {1 << 20, 9}, {1 << 20, 9}, 1), "thread per line");
  EXPECT_EQ(scatter_plan_of(Op::scatter, DType::bf16, {2049, 16385}, {2049, 5}, 1), "thread per line");
}

}  // namespace
}  // namespace ebb::cuda
