// SPDX-License-Identifier: MIT
#include "ebb/backward/index.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ebb/autograd.h"
#include "expect_error.h"
#include "ops/finite_differences.h"

namespace ebb {
namespace {

using testing::expect_gradient;
using testing::expect_shape_and_values;
using testing::some;

// Sums that were added one after the other. GPUs add in other orders.
void expect_sums_in_order(const Tensor& found, const std::vector<float>& want) {
  const std::vector<float> got = found.to_vector<float>();
  if (default_device() == Device{}) {
    EXPECT_EQ(got, want);
    return;
  }
  float largest = 0;
  for (const float x : want) largest = std::max(largest, std::fabs(x));
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-6f * largest) << i;
}

Tensor two_by_three() { return tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}); }

TEST(Index, GatherTakesOneOrManyPositions) {
  expect_shape_and_values(gather(two_by_three(), 1, tensor({{2}, {0}})), {2, 1}, {3, 4});
  expect_shape_and_values(gather(two_by_three(), 1, tensor({{0, 0}, {2, 1}})), {2, 2}, {1, 1, 6, 5});
  expect_shape_and_values(gather(two_by_three(), 0, tensor({{1, 0}})), {1, 2}, {4, 2});
  expect_shape_and_values(gather(two_by_three(), 1, tensor({{2}, {0}}, DType::i32)), {2, 1}, {3, 4});
  expect_shape_and_values(take_along(two_by_three(), tensor({{2, 0}}), 1), {2, 2}, {3, 1, 6, 4});
}

TEST(Index, NamesTheBadIndexAndTheBadDtype) {
  EXPECT_THROW_MESSAGE(gather(two_by_three(), 1, tensor({{0.0}, {1.0}})),
                       "gather: an index must be i64 or i32, got f32");
  EXPECT_THROW_MESSAGE(gather(two_by_three(), 1, tensor({{0, 1}, {3, 0}})).eval(),
                       "gather: index[1, 0] = 3 is outside [0, 3)");
  EXPECT_THROW_MESSAGE(gather(two_by_three(), 1, tensor({{0}, {-1}})).eval(),
                       "gather: index[1] = -1 is outside [0, 3)");
  EXPECT_THROW_MESSAGE(embedding(two_by_three(), tensor({0, 2})).eval(), "embedding: index[1] = 2 is outside [0, 2)");
  EXPECT_THROW_MESSAGE(gather(two_by_three(), 1, tensor({0, 1})), "gather: index of shape [2]");
}

TEST(Index, ScatterWritesAndAdds) {
  const Tensor index = tensor({{0, 0}, {2, 1}}), src = tensor({{10.0, 20.0}, {30.0, 40.0}});
  expect_shape_and_values(scatter(two_by_three(), 1, index, src), {2, 3}, {20, 2, 3, 4, 40, 30});
  expect_shape_and_values(scatter(two_by_three(), 1, index, 0.0), {2, 3}, {0, 2, 3, 4, 0, 0});
  expect_shape_and_values(scatter_add(two_by_three(), 1, index, src), {2, 3}, {31, 2, 3, 4, 45, 36});
}

TEST(Index, Slices) {
  expect_shape_and_values(index_select(two_by_three(), 1, tensor({2, 2, 0})), {2, 3}, {3, 3, 1, 6, 6, 4});
  expect_shape_and_values(index_add(two_by_three(), 0, tensor({1, 1}), ones({2, 3})), {2, 3}, {1, 2, 3, 6, 7, 8});
  expect_shape_and_values(embedding(two_by_three(), tensor({{1, 0}, {1, 1}})), {2, 2, 3},
                          {4, 5, 6, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  EXPECT_THROW_MESSAGE(index_add(two_by_three(), 0, tensor({1}), ones({2, 3})), "index_add: src has shape [2, 3]");
}

TEST(Index, OneHot) {
  expect_shape_and_values(one_hot(tensor({2, 0}), 3), {2, 3}, {0, 0, 1, 1, 0, 0});
  EXPECT_EQ(one_hot(tensor({2, 0})).shape(), Shape({2, 3}));
  EXPECT_EQ(one_hot(tensor({2, 0}), 3, DType::f32).dtype(), DType::f32);
  EXPECT_THROW_MESSAGE(one_hot(tensor({3}), 3).eval(),
                       "one_hot: an index must not be negative and be below the number of classes");
}

TEST(Index, Sorts) {
  const auto [values, order] = sort(tensor({{3.0, 1.0, 2.0}, {1.0, 1.0, 0.0}}), 1);
  expect_shape_and_values(values, {2, 3}, {1, 2, 3, 0, 1, 1});
  expect_shape_and_values(order, {2, 3}, {1, 2, 0, 2, 0, 1});
  const auto [top, at] = topk(tensor({3.0, 1.0, 4.0, 1.0, 5.0}), 2);
  expect_shape_and_values(top, {2}, {5, 4});
  expect_shape_and_values(at, {2}, {4, 2});
  EXPECT_THROW_MESSAGE(topk(two_by_three(), 4), "topk: k = 4 is outside [0, 3]");
}

TEST(IndexBackward, AgreesWithDifferences) {
  const Tensor x = some({3, 4}), src = some({2, 3}, 1.5), many = tensor({{0, 0, 3}, {2, 1, 2}}),
               rows = tensor({2, 0, 2});
  const Shape s = x.shape();
  expect_gradient([&](auto& v) { return gather(v, 1, many); }, [&](auto& g) { return gather_backward(g, s, 1, many); },
                  x);
  const Tensor one = tensor({{3}, {0}, {1}});
  expect_gradient([&](auto& v) { return gather(v, 1, one); }, [&](auto& g) { return gather_backward(g, s, 1, one); },
                  x);
  expect_gradient(
      [&](auto& v) {
        return take_along(v, tensor({{3, 3}}), 1);
      },
      [&](auto& g) {
        return take_along_backward(g, s, tensor({{3, 3}}), 1);
      },
      x);
  expect_gradient([&](auto& v) { return scatter(v, 1, many, src); },
                  [&](auto& g) { return scatter_backward(g, 1, many).first; }, x);
  expect_gradient([&](auto& v) { return scatter(x, 1, many, v); },
                  [&](auto& g) { return scatter_backward(g, 1, many).second; }, src);
  expect_gradient([&](auto& v) { return scatter_add(x, 1, many, v); },
                  [&](auto& g) { return scatter_add_backward(g, 1, many).second; }, src);
  expect_gradient([&](auto& v) { return index_select(v, 0, rows); },
                  [&](auto& g) { return index_select_backward(g, s, 0, rows); }, x);
  expect_gradient([&](auto& v) { return index_add(x, 0, rows, v); },
                  [&](auto& g) { return index_add_backward(g, 0, rows).second; }, some({3, 4}, 2));
  expect_gradient([&](auto& v) { return embedding(v, many); }, [&](auto& g) { return embedding_backward(g, many, 4); },
                  some({4, 2}));
  const Tensor order = argsort(x, 0);
  expect_gradient([&](auto& v) { return sort(v, 0).first; }, [&](auto& g) { return sort_backward(g, order, 0); }, x);
  const Tensor top = topk(x, 2, 1).second;
  expect_gradient([&](auto& v) { return topk(v, 2, 1).first; }, [&](auto& g) { return topk_backward(g, s, top, 1); },
                  x);
}

// Numbers for the same element come one behind the other, and return to an element after others: each is added in
// order.
TEST(Index, AddsRunsInTheOrderOfTheLine) {
  constexpr std::int64_t kRows = 3, kLength = 1001, kPlaces = 7;
  std::vector<std::int64_t> at;
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < kRows * kLength; ++i) {
    at.push_back(i % 50 < 45 ? i / 50 % kPlaces : (i * i + 1) % kPlaces);
    numbers.push_back(std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(i % 23)));
  }
  for (const std::int64_t axis : {0, 1}) {  // the same numbers line by line, and side by side
    const Shape shape = axis == 1 ? Shape{kRows, kLength} : Shape{kLength, kRows};
    const Shape result = shape.with(static_cast<int>(axis), kPlaces);
    std::vector<float> want(static_cast<std::size_t>(result.numel())), last = want;
    for (std::int64_t l = 0; l < kRows; ++l) {
      for (std::int64_t i = 0; i < kLength; ++i) {
        const auto from = static_cast<std::size_t>(axis == 1 ? l * kLength + i : i * kRows + l);
        const auto to = static_cast<std::size_t>(axis == 1 ? l * kPlaces + at[from] : at[from] * kRows + l);
        want[to] += numbers[from];
        last[to] = numbers[from];
      }
    }
    const Tensor index = from_data(at, shape), source = from_data(numbers, shape), none = zeros(result);
    expect_sums_in_order(scatter_add(none, axis, index, source), want);
    EXPECT_EQ(scatter(none, axis, index, source).to_vector<float>(), last);
  }
}

// The gradient of a cumulative maximum adds runs in order, in f32: along lines in memory, across them, in short and
// long ones.
TEST(IndexBackward, RunsOfACumulativeMaximumAreAddedInOrder) {
  for (const std::int64_t length : {2, 7, 16, 17, 700}) {
    for (const int axis : {0, 1}) {
      constexpr std::int64_t kLines = 5;
      const Shape shape = axis == 1 ? Shape{kLines, length} : Shape{length, kLines};
      std::vector<float> x, g;
      for (std::int64_t i = 0; i < shape.numel(); ++i) {
        x.push_back(std::sin(static_cast<float>(i * i)) + static_cast<float>(i / 90));
        g.push_back(std::cos(static_cast<float>(i)) * std::exp2(static_cast<float>(i % 21)));
      }
      std::vector<float> want(x.size());
      for (std::int64_t l = 0; l < kLines; ++l) {
        std::size_t best = 0;
        for (std::int64_t i = 0; i < length; ++i) {
          const auto here = static_cast<std::size_t>(axis == 1 ? l * length + i : i * kLines + l);
          if (i == 0 || x[here] >= x[best]) best = here;
          want[best] += g[here];
        }
      }
      const Tensor v = variable(from_data(x, shape));
      const Tensor found = backward(sum(cummax(v, axis).first * from_data(g, shape)))[v];
      SCOPED_TRACE(::testing::Message() << length << " along axis " << axis);
      expect_sums_in_order(found, want);
    }
  }
}

// A few elements of many, some of them several times: sums in f64, whatever the order of the index.
TEST(IndexBackward, AFewElementsOfManyAreAdded) {
  constexpr std::int64_t kElements = 100'003, kTaken = 5000;
  std::vector<std::int64_t> at;
  std::vector<float> g;
  std::vector<double> sums(kElements);
  for (std::int64_t i = 0; i < kTaken; ++i) {
    at.push_back(i % 5 == 0 ? i % 7 * 65536 % kElements : i * 7919 % kElements);
    g.push_back(std::cos(static_cast<float>(i)));
    sums[static_cast<std::size_t>(at.back())] += static_cast<double>(g.back());
  }
  const Tensor index = from_data(at, Shape{kTaken}), grad = from_data(g, Shape{kTaken});
  const Tensor found = index_select_backward(grad, {kElements}, 0, index);
  EXPECT_EQ(found.to_vector<float>(), std::vector<float>(sums.begin(), sums.end()));
  const Tensor none = index_select_backward(zeros({0}), {1000}, 0, zeros({0}, DType::i64));
  EXPECT_EQ(none.to_vector<float>(), std::vector<float>(1000));
}

// Of several numbers for one element the last stays, and only it gets the cotangent: few in long lines, which are
// compared with one another, and many.
TEST(IndexBackward, OnlyWhatStaysGetsTheCotangent) {
  for (const auto& [length, many] : {std::pair<std::int64_t, std::int64_t>{40, 6}, {40, 7}, {3, 3}, {1, 1}}) {
    for (const std::int64_t axis : {0, 1}) {
      const Shape shape = axis == 1 ? Shape{3, length} : Shape{length, 3};
      const Shape few = shape.with(static_cast<int>(axis), many);
      std::vector<std::int64_t> at;
      for (std::int64_t i = 0; i < few.numel(); ++i) at.push_back((i * i * 5 + i / 2) % 7 % length);
      const Tensor index = from_data(at, few), g = 1 + reshape(arange(0, shape.numel(), 1, DType::f64), shape).eval();
      const auto [of_x, of_src] = scatter_backward(g, axis, index);
      const std::vector<double> all = g.to_vector(), x = of_x.to_vector(), src = of_src.to_vector();
      for (std::int64_t i = 0; i < few.numel(); ++i) {
        const std::int64_t line = axis == 1 ? i / many : i % 3, k = axis == 1 ? i % many : i / 3;
        bool last = true;
        for (std::int64_t later = k + 1; later < many; ++later)
          last = last && at[static_cast<std::size_t>(axis == 1 ? line * many + later : later * 3 + line)] !=
                             at[static_cast<std::size_t>(i)];
        const std::int64_t place = at[static_cast<std::size_t>(i)];
        const auto element = static_cast<std::size_t>(axis == 1 ? line * length + place : place * 3 + line);
        EXPECT_EQ(src[static_cast<std::size_t>(i)], last ? all[element] : 0) << length << " " << axis << " " << i;
        EXPECT_EQ(x[element], 0);
      }
    }
  }
}

// The number and its place are also read by a sweep without elements.
TEST(IndexBackward, IsComputedBesideATensorOfNothing) {
  for (int k = 0; k < 8; ++k) full({5}, 7 + k).eval();  // makes unwritten memory show
  const Tensor one = full({}, 1.0).eval(), s = one + 1, nothing = s / zeros({16, 0, 5}).eval();
  const Tensor placed = gather_backward(reshape(s, {1}), {5}, 0, cast(reshape(s, {1}), DType::i64));
  eval({nothing, placed});
  expect_shape_and_values(placed, {5}, {0, 0, 2, 0, 0});
}

TEST(IndexBackward, ThePaddingRowGetsNothing) {
  const Tensor g = embedding_backward(ones({3, 2}), tensor({0, 1, 1}), 2, 1);
  expect_shape_and_values(g, {2, 2}, {1, 1, 0, 0});
}

}  // namespace
}  // namespace ebb
