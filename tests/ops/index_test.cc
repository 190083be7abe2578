// SPDX-License-Identifier: MIT
#include "ebb/backward/index.h"

#include "expect_error.h"
#include "ops/finite_differences.h"

namespace ebb {
namespace {

using testing::expect_gradient;
using testing::expect_shape_and_values;
using testing::some;

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
