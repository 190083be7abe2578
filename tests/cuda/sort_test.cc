// SPDX-License-Identifier: MIT
// argsort and ranges of it on cuda:0, against a stable sort on the host: lengths around the limits of each method, all
// dtypes, ties, NaN, zeros of both signs, infinities, both directions, lines of all strides.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/format_error.h"
#include "cuda/backend.h"
#include "cuda/emulated_device.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/gpu.h"
#include "ebb/ebb.h"
#include "emulated_device.h"
#include "ops/index_nodes.h"
#include "tied_numbers.h"

namespace ebb::testing {
namespace {

class SortOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(23);
  }
};
class SortOfDType : public SortOnGpu, public ::testing::WithParamInterface<DType> {};

// Places [first, first + count) of the sorted order, or all of it, against the host's.
void expect_order(const Tensor& x, int axis, bool descending, std::int64_t first, std::int64_t count,
                  const Tensor& made) {
  SCOPED_TRACE(fmt::format("{} {}, axis {}{}, places [{}, {})", name(x.dtype()), x.shape(), axis,
                           descending ? ", descending" : "", first, first + count));
  const int last = x.rank() - 1;
  const Tensor order = transpose(made, axis, last);
  const std::vector<double> lines = transpose(x, axis, last).to_vector<double>();
  const std::vector<std::int64_t> got = order.to_vector<std::int64_t>();
  const std::int64_t length = x.size(axis);
  const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  std::vector<std::int64_t> want(static_cast<std::size_t>(length));
  ASSERT_EQ(got.size(), lines.size() / want.size() * static_cast<std::size_t>(count));
  for (std::size_t l = 0; l < lines.size() / want.size(); ++l) {
    std::iota(want.begin(), want.end(), std::int64_t{0});
    const double* const line = lines.data() + l * want.size();
    std::stable_sort(want.begin(), want.end(), [&](std::int64_t a, std::int64_t b) {
      return descending ? less(line[b], line[a]) : less(line[a], line[b]);
    });
    const auto begin = want.begin() + first;
    const auto at = got.begin() + static_cast<std::ptrdiff_t>(l) * count;
    ASSERT_TRUE(std::equal(begin, begin + count, at)) << "line " << l;
  }
}
// The order, and the elements in it, each with its own sign: zeros and NaN have equal keys.
void expect_sorted(const Tensor& x, int axis, bool descending) {
  expect_order(x, axis, descending, 0, x.size(axis), argsort(x.to(kGpu), axis, descending));
  const auto [values, order] = sort(x.to(kGpu), axis, descending);
  expect_order(x, axis, descending, 0, x.size(axis), order);
  const std::vector<double> got = values.to_vector<double>(),
                            want = gather(x, axis, order.to(Device{})).to_vector<double>();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE((got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) &&
                std::signbit(got[i]) == std::signbit(want[i]))
        << fmt::format("{} {}, axis {}: {} instead of {} at {}", name(x.dtype()), x.shape(), axis, got[i], want[i], i);
  }
}
void expect_selected(const Tensor& x, int axis, bool descending, std::int64_t first, std::int64_t count) {
  expect_order(x, axis, descending, first, count, argsort_range(x.to(kGpu), axis, descending, first, count));
}

// A block merges up to 512 (of 8 bytes 1024), sorts up to 4096 by digits, and several blocks sort longer lines.
TEST_F(SortOnGpu, LinesOfAllLengths) {
  for (const std::int64_t n : {1,    2,    3,    31,   32,   33,   255,  257,  511,  512,  513,  1023, 1024,
                               1025, 1279, 1280, 1281, 2048, 4095, 4096, 4097, 8191, 8192, 8193, 17000}) {
    expect_sorted(tied({n}, DType::f32), 0, false);
    if (n < 5000) expect_sorted(tied({n}, DType::f32, n), 0, true);
  }
}

TEST_P(SortOfDType, BothWays) {
  for (const bool descending : {false, true}) {
    for (const Shape& shape : {Shape{2, 300}, Shape{1, 2500}, Shape{2, 5000}})
      expect_sorted(tied(shape, GetParam()), 1, descending);
  }
}

// Digits that all keys share are skipped: none, some, and all of them.
TEST_F(SortOnGpu, ByTheDigitsThatDiffer) {
  for (const std::int64_t n : {1500, 5000}) {
    const Tensor near = randint(0, 40, {n}).eval();
    const std::vector<std::int64_t> order = argsort(near, 0).to_vector<std::int64_t>();
    for (const Tensor& x :
         {near + (std::int64_t{1} << 62), near * (std::int64_t{1} << 20), near * (std::int64_t{1} << 50),
          near * ((std::int64_t{1} << 16) + (std::int64_t{1} << 40)), near - (std::int64_t{1} << 62)})
      EXPECT_EQ(argsort(x.to(kGpu), 0).to_vector<std::int64_t>(), order);
    expect_sorted(zeros({n}, DType::i64).eval(), 0, false);
    expect_sorted(randn({n}).eval(), 0, true);
    expect_sorted(randn({n}, DType::f64).eval(), 0, false);
  }
}

// Lines that share a block, lines of a block, lines that are longer, with strides of all kinds.
TEST_F(SortOnGpu, ManyLines) {
  for (const Shape& shape : {Shape{700, 3}, Shape{3, 700}, Shape{130, 17}, Shape{2, 5, 40}, Shape{3, 1030, 2},
                             Shape{5, 2100}, Shape{1, 4000}, Shape{3, 4100}, Shape{3, 1}}) {
    const Tensor x = tied(shape, DType::f32);
    for (int axis = 0; axis < shape.rank(); ++axis) expect_sorted(x, axis, false);
  }
  const Tensor x = tied({4, 4200, 2}, DType::f32).to(kGpu), there = x.to(Device{});
  const auto same = [&](const std::function<Tensor(const Tensor&)>& view, int axis) {
    EXPECT_EQ(argsort(view(x), axis).to_vector<std::int64_t>(), argsort(view(there), axis).to_vector<std::int64_t>());
    EXPECT_EQ(isnan(sort(view(x), axis).first).to_vector<std::int64_t>(),
              isnan(sort(view(there), axis).first).to_vector<std::int64_t>());
    EXPECT_EQ(nan_to_num(sort(view(x), axis).first).to_vector<float>(),
              nan_to_num(sort(view(there), axis).first).to_vector<float>());
    EXPECT_EQ(argsort_range(view(x), axis, true, 3, 20).to_vector<std::int64_t>(),
              argsort_range(view(there), axis, true, 3, 20).to_vector<std::int64_t>());
  };
  same([](const Tensor& t) { return t; }, 1);
  same([](const Tensor& t) { return t.slice(1, 3, 4200, 2); }, 1);
  same([](const Tensor& t) { return permute(t, {2, 0, 1}); }, 2);
  same([](const Tensor& t) { return broadcast_to(t.slice(0, 1, 2), {3, 4200, 2}); }, 1);
  same([](const Tensor& t) { return flip(t, 1); }, 1);
  same([](const Tensor& t) { return flip(t.slice(2, 0, 1), 1); }, 1);
}

// Counts of more than 16 tiles are summed in groups.
TEST_F(SortOnGpu, LongLines) {
  if (!device_is_emulated()) expect_sorted(tied({(1 << 20) + 4097}, DType::f32, 1 << 20), 0, false);
  expect_sorted(tied({60000}, DType::bf16, 1 << 20), 0, false);
  expect_sorted(tied({40000}, DType::f32, 1 << 20), 0, true);
}

TEST_F(SortOnGpu, Nothing) {
  EXPECT_EQ(argsort(zeros({0}).to(kGpu), 0).numel(), 0);
  EXPECT_EQ(argsort(zeros({3, 0}).to(kGpu), 1).numel(), 0);
  EXPECT_EQ(argsort(zeros({0, 5000}).to(kGpu), 1).numel(), 0);
  EXPECT_EQ(sort(zeros({0, 5000}).to(kGpu), 1).first.shape(), (Shape{0, 5000}));
  EXPECT_EQ(sort(zeros({3, 0}).to(kGpu), 1).first.shape(), (Shape{3, 0}));
  EXPECT_EQ(argsort_range(zeros({0, 5000}).to(kGpu), 1, false, 7, 10).shape(), (Shape{0, 10}));
  EXPECT_EQ(topk(zeros({2, 5000}).to(kGpu), 0, 1, true).second.numel(), 0);
}

// Lines in memory and, of many values, in shared memory; a last thread with fewer values than others.
TEST_P(SortOfDType, Searched) {
  const auto numbers = [](const Shape& shape) {
    const Tensor x = floor(40 * randn(shape, DType::f64));
    return is_floating(GetParam()) ? cast(where(x > 100, std::numeric_limits<double>::quiet_NaN(), x), GetParam())
                                   : cast(x, GetParam());
  };
  for (const std::int64_t length : {1, 2, 3, 64, 200}) {
    for (const std::int64_t count : {1, 257, 64 * 200 + 5}) {
      const Tensor line = sort(numbers({length}), 0).first.eval(), values = numbers({count}).eval();
      for (const bool right : {false, true}) {
        EXPECT_EQ(searchsorted(line.to(kGpu), values.to(kGpu), right).to_vector<std::int64_t>(),
                  searchsorted(line, values, right).to_vector<std::int64_t>())
            << length << " elements, " << count << " values";
      }
    }
    const Tensor lines = sort(numbers({3, length}), 1).first.eval(), values = numbers({3, 700}).eval();
    EXPECT_EQ(searchsorted(lines.to(kGpu), values.to(kGpu)).to_vector<std::int64_t>(),
              searchsorted(lines, values).to_vector<std::int64_t>());
  }
}

// Short lines are sorted, longer ones selected from by a block, or by several; a wide range is sorted.
TEST_F(SortOnGpu, RangesOfAllLengths) {
  for (const std::int64_t n : {40, 1024, 1025, 4096, 4097, 6144, 16384, 16385, 18433, 40000}) {
    const Tensor few = tied({n}, DType::f32), many = tied({n}, DType::f32, 1 << 20);
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{2}, std::int64_t{17}, n / 4}) {
      for (const std::int64_t first : {std::int64_t{0}, n / 2, n - count}) {
        expect_selected(few, 0, false, first, std::min(count, n - first));
        if (n < 17000) expect_selected(many, 0, true, first, std::min(count, n - first));
      }
    }
    expect_selected(many, 0, false, 5, n / 4 + 1);
  }
}

TEST_P(SortOfDType, Ranges) {
  for (const bool descending : {false, true}) {
    for (const Shape& shape : {Shape{3, 5000}, Shape{2, 17000}}) {
      const Tensor x = tied(shape, GetParam());
      expect_selected(x, 1, descending, 0, 10);
      expect_selected(x, 1, descending, shape[1] / 2, 2);
      expect_selected(x, 1, descending, shape[1] - 300, 300);
    }
  }
}

// A warp has a line of 33 to 1,024 elements: of every number per lane, with lines that are not neighbours.
TEST_P(SortOfDType, OnePlaceOfShortLines) {
  for (const Shape& shape : {Shape{9, 32}, Shape{9, 33}, Shape{3, 64, 3}, Shape{2, 65, 5}, Shape{17, 129},
                             Shape{2, 300}, Shape{1, 511, 3}, Shape{2, 1024}, Shape{2, 1025}}) {
    const Tensor x = tied(shape, GetParam());
    for (const std::int64_t place : {std::int64_t{0}, shape[1] / 2, shape[1] - 1}) {
      expect_selected(x, 1, false, place, 1);
      expect_selected(x, 1, true, place, 1);
    }
  }
  for (const bool largest : {false, true}) {
    const Tensor x = tied({5, 77}, GetParam());
    const auto [values, places] = topk(x.to(kGpu), 1, 1, largest);
    const auto [wanted, order] = topk(x, 1, 1, largest);
    EXPECT_EQ(places.to_vector<std::int64_t>(), order.to_vector<std::int64_t>());
    EXPECT_TRUE(allclose(cast(values.to(Device{}), DType::f64), cast(wanted, DType::f64),
                         {.rtol = 0, .atol = 0, .equal_nan = true}));
  }
}

TEST_F(SortOnGpu, RangesOfEqualElements) {
  expect_selected(ones({3, 100}).eval(), 1, false, 41, 1);
  expect_selected(full({100}, std::nan("")).eval(), 0, false, 99, 1);
  for (const std::int64_t n : {5000, 20000}) {
    expect_selected(ones({n}).eval(), 0, false, 0, 7);
    expect_selected(ones({n}).eval(), 0, true, n / 2, 100);
    expect_selected(full({n}, std::nan("")).eval(), 0, true, n - 3, 3);
  }
}

// Enough lines that each has one block, whatever its length.
TEST_F(SortOnGpu, RangesOfManyLines) {
  expect_selected(tied({257, 4100}, DType::u8), 1, true, 0, 5);
  if (!device_is_emulated()) expect_selected(tied({300, 40000}, DType::f32, 1 << 20), 1, true, 100, 64);
}

// Elements of a range's first digit, as many as a block keeps and one more; the next digits tell them apart, or do not.
TEST_F(SortOnGpu, RangesOfWhatABlockKeeps) {
  const std::int64_t n = 6000;
  for (const std::int64_t kept : {1, 9, 2047, 2048, 2049}) {
    for (const std::int64_t few : {1, 3, 1000000}) {
      const Tensor large = (1 << 30) + remainder(arange(n) * 7919, few), place = remainder(arange(n) * 4001, n);
      const Tensor x = cast(where(place < kept, large, remainder(arange(n), 500)), DType::i32).eval();
      expect_selected(x, 0, true, 0, std::min<std::int64_t>(kept, 10));
      expect_selected(x, 0, true, 3, 20);
      expect_selected(x, 0, false, n - kept, kept);
      expect_selected(x, 0, false, n - kept - 2, 3);
    }
  }
}

// Tiles of four, eight and twelve elements per thread; groups of tiles that grow with their number.
TEST_F(SortOnGpu, TilesOfAllSizes) {
  const cuda::GpuModel before = cuda::gpu(0).model();
  for (const std::int64_t tiles : {1, 7, 264}) {
    cuda::GpuModel model = before;
    model.radix_tiles = tiles;
    if (tiles == 264) model.summed_tiles = 1;
    cuda::gpu(0).set_model(model);
    for (const DType dtype : {DType::bf16, DType::f32, DType::i64}) expect_sorted(tied({2, 8300}, dtype), 1, false);
  }
  cuda::gpu(0).set_model(before);
}

TEST_F(SortOnGpu, MedianQuantileAndTopk) {
  const Tensor x = randn({2, 20001}).eval(), there = x.to(kGpu);
  EXPECT_EQ(median(there, 1).to_vector<float>(), median(x, 1).to_vector<float>());
  EXPECT_EQ(quantile(there, 0.25, 1).to_vector<float>(), quantile(x, 0.25, 1).to_vector<float>());
  for (const bool largest : {false, true}) {
    const auto [values, places] = topk(x, 50, 1, largest);
    const auto [values_there, places_there] = topk(there, 50, 1, largest);
    EXPECT_EQ(values_there.to_vector<float>(), values.to_vector<float>());
    EXPECT_EQ(places_there.to_vector<std::int64_t>(), places.to_vector<std::int64_t>());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, SortOfDType,
                         ::testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                                           DType::u8, DType::bool_),
                         [](const auto& i) { return std::string(name(i.param)); });

}  // namespace
}  // namespace ebb::testing
