// SPDX-License-Identifier: MIT
// cumsum, cumprod and nonzero on cuda:0: lines of a thread, of a block of any size, of several pieces and of groups of
// those.
#include "cuda/library_on_gpu.h"

namespace ebb::testing {
namespace {

using ScanOnGpu = LibraryOnGpu;

TEST_P(ScanOnGpu, LinesOfAllLengths) {
  for (const std::int64_t n : {1, 2, 31, 32, 33, 511, 512, 513, 1025, 4095, 4096, 4097, 8192, 8193, 20000}) {
    const Tensor x = real({3, n}), near_one = (1 + x * (0.5 / static_cast<double>(n))).eval();
    compare(fmt::format("cumsum of {}", n), {x}, [](const std::vector<Tensor>& in) { return cumsum(in[0], 1); });
    compare(fmt::format("cumsum of {}, backwards", n), {x},
            [](const std::vector<Tensor>& in) { return cumsum(flip(in[0], 1), 1); });
    compare(fmt::format("cumprod of {}", n), {near_one},
            [](const std::vector<Tensor>& in) { return cumprod(in[0], 1); });
  }
}

// Lines that are neighbours of others', of one strip, a few, and more than one thread looks at.
TEST_P(ScanOnGpu, LinesAcross) {
  for (const std::int64_t n : {255, 257, 512, 1025, 64 * 256, 64 * 256 + 1}) {
    const Tensor x = real({n, 3}), near_one = (1 + x * (0.5 / static_cast<double>(n))).eval();
    compare(fmt::format("cumsum of {} across", n), {x}, [](const std::vector<Tensor>& in) { return cumsum(in[0], 0); });
    compare(fmt::format("cumprod of {} across", n), {near_one},
            [](const std::vector<Tensor>& in) { return cumprod(in[0], 0); });
    compare(fmt::format("cummax of {} across", n), {x},
            [](const std::vector<Tensor>& in) { return cummax(in[0], 0).second; });
    compare(fmt::format("cummin of {} across, backwards", n), {x},
            [](const std::vector<Tensor>& in) { return cummin(flip(in[0], 0), 0).second; });
  }
  const Tensor x = real({1000, 3}).to(kGpu), all = cumsum(x, 0);
  EXPECT_EQ(cumsum(x.slice(1, 1, 2), 0).to_vector<double>(), all.slice(1, 1, 2).to_vector<double>());
}

TEST_P(ScanOnGpu, EveryRunAndBatchHaveTheSameBits) {
  for (const std::int64_t n : {20, 300, 5000, 50000}) {
    const Tensor x = real({3, n}).to(kGpu);
    const std::vector<double> all = cumsum(x, 1).to_vector<double>(),
                              alone = cumsum(x.slice(0, 1, 2).eval(), 1).to_vector<double>();
    for (int run = 0; run < 3; ++run) EXPECT_EQ(cumsum(x, 1).to_vector<double>(), all) << n;
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + n)) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ScanOnGpu, ::testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& i) { return std::string(name(i.param)); });

// Sums of halves are rounded once from f64, also if they are subnormal, infinite, or decided by a far lower bit.
TEST(ScanOfHalvesOnGpu, EachSumIsRoundedOnce) {
  use_emulated_device_without_gpu();
  const double inf = HUGE_VAL;
  const std::vector<std::tuple<DType, std::vector<double>, std::vector<double>>> cases{
      {DType::bf16, {1, 0x1p-8, 0x1p-40, -0x1p-40}, {1, 1, 1 + 0x1p-7, 1}},
      {DType::bf16, {-1, -0x1p-8, -0x1p-40}, {-1, -1, -1 - 0x1p-7}},
      {DType::bf16, {0x1p-133, 0x1p-133, -0x1p-132, 1}, {0x1p-133, 0x1p-132, 0, 1}},
      {DType::bf16, {0x1.fep127, 0x1p119, 1, -0x1.fep127}, {0x1.fep127, inf, inf, 0x1p119}},
      {DType::bf16, {0x1.fep127, 0x1p118, 0x1.fep127}, {0x1.fep127, 0x1.fep127, inf}},
      {DType::f16, {2048, 1, 0x1p-24, -0x1p-23}, {2048, 2048, 2050, 2048}},
      {DType::f16, {65504, 15, 1, -65504}, {65504, 65504, inf, 16}},
      {DType::f16, {0x1p-24, 0x1p-14, -0x1p-14}, {0x1p-24, 0x1.004p-14, 0x1p-24}},
  };
  for (const auto& [dtype, x, want] : cases) {
    const Shape shape{static_cast<std::int64_t>(x.size())};
    EXPECT_EQ(cumsum(tensor_from(x, shape, dtype).to(kGpu), 0).to_vector<double>(), want) << name(dtype) << " " << x[1];
  }
  const std::vector<double> nan =
      cumsum(tensor_from(std::vector<double>{inf, -inf, 1.0}, Shape{3}, DType::bf16).to(kGpu), 0).to_vector<double>();
  EXPECT_TRUE(nan[0] == inf && std::isnan(nan[1]) && std::isnan(nan[2]));
}

class LongScanOnGpu : public ::testing::Test {
 protected:
  void SetUp() override { use_emulated_device_without_gpu(); }
};

// Up to 256 pieces of 4,096 elements take one pass; longer lines have chunks of one piece, and of two.
TEST_F(LongScanOnGpu, ChunksOfPieces) {
  for (const std::int64_t n : {256 * 4096, 256 * 4096 + 1, 396 * 4096, 396 * 4096 + 4097}) {
    const std::vector<std::int64_t> sums = cumsum(arange(n).to(kGpu).eval(), 0).to_vector<std::int64_t>();
    std::int64_t want = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      want += i;
      ASSERT_EQ(sums[static_cast<std::size_t>(i)], want) << "element " << i << " of " << n;
    }
  }
}

// A line of chunks is the same alone, in a batch and backwards, in every run.
TEST_F(LongScanOnGpu, ChunksHaveTheSameBits) {
  const std::int64_t n = 400 * 4096 + 77;
  const Tensor x = randn({2, n}).to(kGpu).eval(), turned = flip(x, 1).eval();
  const std::vector<double> all = cumsum(x, 1).to_vector<double>(),
                            alone = cumsum(x.slice(0, 1, 2).eval(), 1).to_vector<double>();
  EXPECT_EQ(cumsum(x, 1).to_vector<double>(), all);
  EXPECT_EQ(cumsum(flip(turned, 1), 1).to_vector<double>(), all);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + n));
  double sum = 0;
  const std::vector<double> numbers = x.to_vector<double>();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    sum += numbers[at];
    ASSERT_NEAR(all[at], sum, 1e-6 * (1 + std::fabs(sum))) << "element " << i;
  }
}

// Pieces of 4,096 elements at any address; more pieces than one block adds at a time.
TEST_F(LongScanOnGpu, PlacesOfTrueElements) {
  manual_seed(3);
  for (const Shape& shape :
       {Shape{1}, Shape{5}, Shape{4096}, Shape{4097}, Shape{3, 5000}, Shape{7, 11, 300, 2}, Shape{257 * 4096 + 3}}) {
    for (const double share : {0.0, 0.3, 1.0}) {
      if (shape.numel() > 100000 && share != 0.3) continue;
      const Tensor x = (rand(shape) < share).eval(), there = x.to(kGpu);
      EXPECT_EQ(nonzero(there).device(), kGpu);
      EXPECT_EQ(nonzero(there).to_vector<std::int64_t>(), nonzero(x).to_vector<std::int64_t>()) << x.numel();
      if (shape.numel() > 5) {
        const Tensor part = reshape(there, {-1}).slice(0, 3, shape.numel()),
                     of_host = reshape(x, {-1}).slice(0, 3, shape.numel());
        EXPECT_EQ(nonzero(part).to_vector<std::int64_t>(), nonzero(of_host).to_vector<std::int64_t>());
      }
    }
  }
  EXPECT_EQ(nonzero(zeros({0, 3}).to(kGpu)).shape(), (Shape{0, 2}));
  EXPECT_EQ(nonzero(ones({}).to(kGpu)).shape(), (Shape{1, 0}));
  const Tensor numbers = randn({50, 3}).eval();
  EXPECT_EQ(nonzero(numbers.to(kGpu)).to_vector<std::int64_t>(), nonzero(numbers).to_vector<std::int64_t>());
}

}  // namespace
}  // namespace ebb::testing
