// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "cases/test_tensor.h"
#include "cpu/jit/loop.h"
#include "ebb/ebb.h"
#include "engine/evaluate_anew.h"
#include "engine/oracle.h"
#include "engine/sum_trees.h"

// The contract of sums (sweep/sum_order.h, cuda/print/prelude.cc): what their bits depend on, and what they do not.
namespace ebb {
namespace {

// Numbers of many sizes and both signs, so that every order of adding gives different bits.
template <class T>
std::vector<T> mixed_numbers(std::int64_t n, unsigned seed = 1) {
  std::mt19937 g(seed);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (T& x : v) {
    const double size = std::exp2(static_cast<double>(g() % 24) - 12);
    x = static_cast<T>((static_cast<double>(g()) * 0x1p-31 - 1) * size);
  }
  return v;
}
template <class T>
constexpr DType kDType = sizeof(T) == 4 ? DType::f32 : DType::f64;

template <class T>
Tensor tensor_of(const std::vector<T>& v, const Shape& shape) {
  return table::test_tensor(v, shape, kDType<T>);
}

// As the default device adds.
const auto as_device = [](auto&& sum) {
  return testing::on_gpu() ? sum(testing::CudaSums{}) : sum(testing::CpuSums{});
};
template <class T>
double line(const T* x, std::int64_t n) {
  return as_device([&](auto tree) { return tree.line(x, n); });
}
template <class T>
double total_of_rows(const T* x, std::int64_t rows, std::int64_t columns) {
  return as_device([&](auto tree) { return tree.total_of_rows(x, rows, columns); });
}
template <class T>
double column(const T* x, std::int64_t rows, std::int64_t columns) {
  return as_device([&](auto tree) { return tree.column(x, rows, columns); });
}

template <class T>
class Sums : public ::testing::Test {
 protected:
  static double at(const Tensor& t, std::int64_t i) {
    if (!t.evaluated()) evaluate_anew({t});
    return cast(t, DType::f64).to_vector()[static_cast<std::size_t>(i)];
  }
  static double one(const Tensor& t) { return at(t, 0); }
  static double kept(double x) { return static_cast<T>(x); }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Sums, Types);

const std::int64_t kLengths[] = {1,    2,    15,   16,    17,    100,   1023,  1024,
                                 1025, 4097, 9000, 65535, 65536, 65537, 70001, 200003};

// Whatever is between the numbers of a line: other lines, few or many, as memory or as a product computed there.
TYPED_TEST(Sums, OfALineAreTheSameWhereOtherLinesLieBetweenItsNumbers) {
  using T = TypeParam;
  for (std::int64_t n : {2, 5, 16, 17, 100, 1023, 1024, 1025, 4097, 70001}) {
    for (std::int64_t beside : {2, 3, 4, 7, 17, 63, 64, 130, 300}) {
      if (n * beside > 4000000) continue;
      SCOPED_TRACE(n * 1000 + beside);
      const std::vector<T> v = mixed_numbers<T>(2 * n * beside);
      const Tensor x = tensor_of(v, {2, n, beside}), one = ones(x.shape(), x.dtype());
      for (const cpu::NativeLoops loops : {cpu::NativeLoops::never, cpu::NativeLoops::always}) {
        cpu::set_native_loops(loops);
        const std::vector<Tensor> sums = {sum(x, 1), sum(x * one, 1), sum(x - 0.0 * max(x, 1, true), 1),
                                          sum(x.permute({0, 2, 1}), 2)};
        evaluate_anew(sums);
        for (const std::int64_t row : {std::int64_t{0}, beside - 1, beside, 2 * beside - 1}) {
          std::vector<T> of_row(static_cast<std::size_t>(n));
          for (std::int64_t c = 0; c < n; ++c)
            of_row[static_cast<std::size_t>(c)] =
                v[static_cast<std::size_t>(row / beside * n * beside + c * beside + row % beside)];
          const double want = this->kept(line(of_row.data(), n));
          for (const Tensor& s : sums) EXPECT_EQ(this->at(s, row), want) << row;
        }
      }
      cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
    }
  }
}

// Flat, as a row of a batch, as the only row, from memory with strides, with and without loops of machine code: T(n).
TYPED_TEST(Sums, OfALineDependOnItsLengthAlone) {
  using T = TypeParam;
  for (std::int64_t n : kLengths) {
    SCOPED_TRACE(n);
    const std::vector<T> v = mixed_numbers<T>(3 * n);
    const Tensor rows = tensor_of(v, {3, n});
    const double want = this->kept(line(v.data() + n, n));
    const Tensor row = narrow(rows, 0, 1, 1);
    for (const cpu::NativeLoops loops : {cpu::NativeLoops::never, cpu::NativeLoops::always}) {
      cpu::set_native_loops(loops);
      EXPECT_EQ(this->one(sum(reshape(row, {n}))), want) << "flat";
      EXPECT_EQ(this->one(sum(row, 1)), want) << "a row alone";
      EXPECT_EQ(this->at(sum(rows, 1), 1), want) << "a row of a batch";
      // With work of its own around it, which makes it a sweep with stages.
      EXPECT_EQ(this->at(sum(rows, 1, true) + 0 * max(rows, 1, true), 1), want) << "a row with company";
      EXPECT_EQ(this->one(sum(square(sqrt(abs(reshape(row, {n})))) * 0 + reshape(row, {n}))), want)
          << "flat, with company";
    }
    cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
    const Tensor wide = stack({rows, rows}, 2).eval();
    EXPECT_EQ(this->at(sum(narrow(wide, 2, 0, 1), 1), 1), want) << "every second element of memory";
  }
}

// A channel of many images consists of pieces, one per image, which loops read in place.
TYPED_TEST(Sums, OfPiecesAreThoseOfALine) {
  using T = TypeParam;
  for (const auto& [images, piece] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {17, 64}, {40, 64}, {9, 192}, {21, 256}, {3, 1000}, {5, 1024}, {67, 1024}, {3, 2048}, {4, 3136}}) {
    SCOPED_TRACE(std::to_string(images) + " of " + std::to_string(piece));
    constexpr std::int64_t kChannels = 3;
    const std::vector<T> v = mixed_numbers<T>(images * kChannels * piece, 4);
    std::vector<T> channel;
    for (std::int64_t n = 0; n < images; ++n) {
      const auto from = v.begin() + (n * kChannels + 1) * piece;
      channel.insert(channel.end(), from, from + piece);
    }
    const auto n = static_cast<std::int64_t>(channel.size());
    const double want = this->kept(line(channel.data(), n));
    const Tensor x = tensor_of(v, {images, kChannels, piece});
    for (const cpu::NativeLoops loops : {cpu::NativeLoops::never, cpu::NativeLoops::always}) {
      cpu::set_native_loops(loops);
      EXPECT_EQ(this->at(sum(x, {0, 2}), 1), want);
      const Tensor y = x + 0 * sum(x, {0, 2}, true);  // x to the bit, in a second pass over the row
      EXPECT_EQ(this->at(sum(y, {0, 2}), 1), want) << "in a second stage";
      EXPECT_EQ(this->at(y, piece + 5), v[static_cast<std::size_t>(piece) + 5]) << "stored";
      EXPECT_EQ(this->at(y, ((images - 1) * kChannels + 2) * piece + piece - 1), v.back()) << "stored last";
    }
    cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
  }
}

struct SumSpace {
  std::int64_t rows, columns;
};
const SumSpace kSumSpaces[] = {{1, 5},     {7, 3},     {33, 31},   {257, 2},  {1025, 2},  {300, 17}, {9, 1023},
                               {70, 1024}, {40, 1025}, {20, 3000}, {5000, 3}, {5000, 40}, {3, 70001}};

// The total of a sweep with rows depends only on the numbers of rows and columns, not on the rest of the sweep.
TYPED_TEST(Sums, OfRowsAndColumnsDependOnTheSpaceAlone) {
  using T = TypeParam;
  for (const auto& [rows, columns] : kSumSpaces) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
    const std::vector<T> v = mixed_numbers<T>(rows * columns, 2);
    const Tensor x = tensor_of(v, {rows, columns});
    const double first = this->kept(column(v.data(), rows, columns));
    const double last = this->kept(column(v.data() + columns - 1, rows, columns));
    // On a GPU the kernel chooses how many rows are a group, by the rest of its sweep. Groups are added in f64: for a
    // sum in f32 that does not matter, one in f64 may have other last bits.
    double sizes = 0;
    for (std::int64_t r = 0; r < rows * columns; ++r)
      sizes += std::fabs(static_cast<double>(v[static_cast<std::size_t>(r)]));
    const double slack = testing::on_gpu() && sizeof(T) == 8 ? 1e-15 * sizes : 0;
    auto expect_columns = [&](const Tensor& sums, const char* what) {
      EXPECT_NEAR(this->at(sums, 0), first, slack) << what;
      EXPECT_NEAR(this->at(sums, columns - 1), last, slack) << what;
    };
    expect_columns(sum(x, 0), "columns alone");
    const Tensor columns_beside = sum(x, 0), rows_beside = sum(x, 1), heavy = exp(tanh(x));
    eval({columns_beside, rows_beside, heavy});
    expect_columns(columns_beside, "columns beside rows and more");
    // y is x to the bit, but needs its row's maximum first: the sweep has rows.
    const double by_rows = this->kept(total_of_rows(v.data(), rows, columns));
    auto of_rows = [&] { return x + 0 * max(x, 1, true); };
    const Tensor alone = sum(of_rows());
    EXPECT_NEAR(this->one(alone), by_rows, slack) << "total alone";
    const Tensor y = of_rows(), total = sum(y), beside = sum(y, 0), costly = exp(tanh(y));
    eval({total, beside, costly});
    EXPECT_EQ(this->one(total), this->one(alone)) << "total beside columns and more";
    expect_columns(beside, "columns beside a total");
  }
}

TYPED_TEST(Sums, DoNotDependOnThreads) {
  using T = TypeParam;
  const Tensor x = tensor_of(mixed_numbers<T>(3000 * 70, 3), {3000, 70});
  auto results = [&] {
    const Tensor y = x + 0 * max(x, 1, true);
    std::vector<double> all;
    for (const Tensor& t : {sum(x), sum(y), sum(x, 0), sum(x, 1)}) {
      for (double s : cast(t, DType::f64).to_vector()) all.push_back(s);
    }
    return all;
  };
  const int before = num_threads();
  set_num_threads(1);
  const std::vector<double> one = results();
  for (int threads : {2, 3, 8}) {
    set_num_threads(threads);
    EXPECT_EQ(results(), one) << threads << " threads";
  }
  set_num_threads(before);
}

// Stages of a long row leave nothing behind that the next one sees.
TEST(LongRows, AmongOthersAreThoseAlone) {
  constexpr std::int64_t kRows = 600, kColumns = 2500;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor x = cast(tensor_of(mixed_numbers<float>(kRows * kColumns, 3), {kRows, kColumns}), dtype).eval();
    const auto results = [&](const Tensor& rows) {
      const Tensor shifted = exp(rows - max(rows, 1, true)), quotients = shifted / sum(shifted, 1, true);
      evaluate_anew({quotients});
      return cast(quotients, DType::f64).to_vector();
    };
    for (const cpu::NativeLoops loops : {cpu::NativeLoops::never, cpu::NativeLoops::always}) {
      cpu::set_native_loops(loops);
      const std::vector<double> all = results(x);
      for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1}, std::int64_t{77}, kRows - 1}) {
        const std::vector<double> alone = results(narrow(x, 0, row, 1).eval());
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + row * kColumns)) << row;
      }
    }
    cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
  }
}

// Each of these adds in a different order, or the tests above could not fail.
TEST(SumOrder, IsSeenInTheBits) {
  const std::vector<float> v = mixed_numbers<float>(5000 * 40, 2);
  const double whole = line(v.data(), 200000), by_rows = total_of_rows(v.data(), 5000, 40);
  EXPECT_NE(whole, by_rows);
  double plain = 0;
  for (float x : v) plain += static_cast<double>(x);
  EXPECT_NE(static_cast<float>(line(v.data(), 1000)), static_cast<float>(plain));
  float in_f32 = 0;
  for (std::size_t r = 0; r < 5000; ++r) in_f32 += v[r * 40];
  EXPECT_NE(static_cast<float>(column(v.data(), 5000, 40)), in_f32);
  EXPECT_NE(testing::CpuSums::line(v.data(), 1000), testing::CudaSums::line(v.data(), 1000));
}

// Reductions of transposed views, alone and with others of the same numbers: equal to those of a contiguous copy.
TEST(TransposedViews, AreReducedAsTheirCopies) {
  std::mt19937 random(5);
  for (int round = 0; round < 3; ++round) {
    const std::int64_t a = 120 + random() % 90, b = 140 + random() % 90, c = 1 + random() % 3;
    SCOPED_TRACE(std::to_string(a) + " x " + std::to_string(b) + " x " + std::to_string(c));
    const Tensor x = tensor_of(mixed_numbers<float>(a * b * c, 8 + static_cast<unsigned>(round)), {a, b, c});
    const auto all = [](const Tensor& t) {
      return std::vector<Tensor>{sum(tanh(t), 1),     max(t, 1),       logsumexp(t, {1}), sum(tanh(t), 0),
                                 softmax(tanh(t), 1), sum(tanh(t), 2), logsumexp(t, {0})};
    };
    for (const auto& [first, second] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)}) {
      const Tensor seen = transpose(x, first, second), copied = (seen + 0.0).eval();
      const std::vector<Tensor> views = all(seen), copies = all(copied);
      eval(views);
      for (std::size_t k = 0; k < views.size(); ++k) {
        const std::vector<float> v = views[k].to_vector<float>(), w = copies[k].to_vector<float>();
        ASSERT_EQ(v.size(), w.size());
        for (std::size_t i = 0; i < v.size(); ++i)
          ASSERT_NEAR(v[i], w[i], 1e-5 * std::max(1.0f, std::fabs(w[i]))) << "result " << k << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ebb
