// SPDX-License-Identifier: MIT
#include "ebb/backward/shape.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ebb/autograd.h"
#include "expect_error.h"
#include "graph/node.h"
#include "ops/finite_differences.h"

namespace ebb {
namespace {

using testing::expect_gradient;
using testing::expect_shape_and_values;
using testing::some;

Tensor ramp(const Shape& shape) { return reshape(arange(shape.numel()), shape); }

TEST(Shape, ReshapeInfersOneSize) {
  EXPECT_EQ(reshape(ramp({2, 6}), {3, -1}).shape(), Shape({3, 4}));
  EXPECT_THROW_MESSAGE(reshape(ramp({2, 6}), {5, -1}),
                       "reshape: a tensor of shape [2, 6] cannot have the sizes [5, -1]");
  EXPECT_THROW_MESSAGE(reshape(ramp({2, 6}), {5}), "reshape: shape [2, 6] has 12 elements, [5] has 5");
  EXPECT_EQ(flatten(ramp({2, 3, 4}), 1).shape(), Shape({2, 12}));
  EXPECT_EQ(squeeze(ramp({1, 3, 1})).shape(), Shape({3}));
  EXPECT_EQ(squeeze(ramp({1, 3, 1}), 0).shape(), Shape({3, 1}));
  EXPECT_EQ(unsqueeze(ramp({3}), -1).shape(), Shape({3, 1}));
}

// The ramp of `shape` with its axes in another order, from its definition: element i is Σ i_d · stride of axes[d].
Tensor permuted_ramp(const Shape& shape, const std::vector<std::int64_t>& axes) {
  const Strides strides = contiguous_strides(shape);
  const int rank = shape.rank();
  Tensor sum = zeros({}, DType::i64);
  for (int d = 0; d < rank; ++d) {
    Shape along(std::vector<std::int64_t>(static_cast<std::size_t>(rank), 1));
    const auto axis = static_cast<int>(axes[static_cast<std::size_t>(d)]);
    sum = sum + reshape(arange(shape[axis]) * strides[axis], along.with(d, shape[axis]));
  }
  return sum;
}

TEST(Shape, EveryOrderOfAxesIsCopied) {
  const Shape shape{3, 70, 65, 2};
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i32, DType::u8}) {
    std::vector<std::int64_t> axes{0, 1, 2, 3};
    do {
      const Tensor x = cast(remainder(ramp(shape), 251), dtype).eval();
      const Tensor found = contiguous(permute(x, axes)), part = contiguous(permute(narrow(x, 2, 1, 64), axes));
      const Tensor expected = cast(remainder(permuted_ramp(shape, axes), 251), dtype);
      EXPECT_TRUE(all(found == expected).item<bool>()) << name(dtype) << axes[0] << axes[1] << axes[2] << axes[3];
      const auto where = std::find(axes.begin(), axes.end(), 2) - axes.begin();
      EXPECT_TRUE(all(part == narrow(expected, where, 1, 64)).item<bool>());
    } while (std::next_permutation(axes.begin(), axes.end()));
  }
}

// Several tasks, each of many planes of a few elements.
TEST(Shape, ManySmallPlanesAreCopied) {
  const Shape shape{17, 5, 11, 3, 29, 2};
  const Tensor x = cast(remainder(ramp(shape), 65521), DType::i32).eval();
  for (const std::vector<std::int64_t>& axes :
       {std::vector<std::int64_t>{0, 1, 4, 2, 5, 3}, {4, 0, 2, 1, 3, 5}, {5, 3, 1, 4, 2, 0}, {0, 2, 1, 5, 3, 4}}) {
    const Tensor expected = cast(remainder(permuted_ramp(shape, axes), 65521), DType::i32);
    EXPECT_TRUE(all(contiguous(permute(x, axes)) == expected).item<bool>()) << axes[0] << axes[1] << axes[2];
  }
}

TEST(Shape, MovingAxesOfOneElementCopiesNothing) {
  const Tensor row = ramp({1, 5}).eval(), planes = ramp({2, 1, 3}).eval();
  const Tensor column = contiguous(t(row)), moved = contiguous(permute(planes, {1, 0, 2}));
  expect_shape_and_values(column, {5, 1}, {0, 1, 2, 3, 4});
  expect_shape_and_values(moved, {1, 2, 3}, {0, 1, 2, 3, 4, 5});
  const auto memory = [](const Tensor& x) { return x.eval().node()->storage.buffer.data(); };  // on any device
  EXPECT_EQ(memory(column), memory(row));
  EXPECT_EQ(memory(moved), memory(planes));
  expect_shape_and_values(contiguous(permute(planes, {2, 1, 0})), {3, 1, 2}, {0, 3, 1, 4, 2, 5});
  expect_shape_and_values(contiguous(t(narrow(ramp({2, 3}).eval(), 1, 0, 1))), {1, 2}, {0, 3});
}

TEST(Shape, RowsOfFewElementsAreJoinedAndPadded) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::i64, DType::u8, DType::bool_}) {
    for (std::int64_t width = 1; width <= 10; ++width) {
      SCOPED_TRACE(width);
      const Tensor x = cast(remainder(ramp({600, width}), 127) == 3, dtype).eval();
      const Tensor y = cast(remainder(ramp({600, 2 * width}), 63) == 5, dtype).eval();
      const Tensor odd = slice(y, 1, 0, 2 * width, 2);  // every second column
      const Tensor padded = pad(x, {1, 2}), joined = cat({x, odd, x}, 1);
      EXPECT_TRUE(all(narrow(padded, 1, 1, width) == x).item<bool>());
      EXPECT_EQ(sum(cast(padded, DType::i64)).item<std::int64_t>(), sum(cast(x, DType::i64)).item<std::int64_t>());
      EXPECT_TRUE(all(narrow(joined, 1, 0, width) == x).item<bool>());
      EXPECT_TRUE(all(narrow(joined, 1, width, width) == odd).item<bool>());
      EXPECT_TRUE(all(narrow(joined, 1, 2 * width, width) == x).item<bool>());
    }
  }
}

// A total over no elements is still one number: it is computed although the dropped dimensions have none.
TEST(Shape, ReshapeOfNothingDropsDimensionsOfAnySize) {
  for (const Shape& shape : {Shape({0, 3, 0}), Shape({0, 3}), Shape({3, 0})}) {
    for (int k = 0; k < 8; ++k) full({1}, 7 + k).eval();  // makes unwritten memory show
    const Tensor x = zeros(shape, DType::f32).eval(), y = exp(x);
    const Tensor product = prod(reshape(y, {0})), total = sum(reshape(y, {0}));
    const Tensor reader = cast(product <= y, DType::f32) + total;
    eval({product, total, reader, y});
    expect_shape_and_values(product, {}, {1});
    expect_shape_and_values(total, {}, {0});
    EXPECT_EQ(reader.shape(), shape);
  }
}

TEST(Shape, PermuteAndTranspose) {
  expect_shape_and_values(permute(ramp({2, 3}), {1, 0}), {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_shape_and_values(transpose(ramp({1, 2, 2}), -1, 1), {1, 2, 2}, {0, 2, 1, 3});
  expect_shape_and_values(reshape(t(ramp({2, 3})), {-1}), {6}, {0, 3, 1, 4, 2, 5});
  EXPECT_THROW_MESSAGE(permute(ramp({2, 3}), {0, 0}), "permute: axis 0 is named twice");
}

TEST(Shape, ExpandRepeatsAndSumToSums) {
  expect_shape_and_values(expand(ramp({2, 1}), {2, -1, 2}), {2, 2, 2}, {0, 0, 1, 1, 0, 0, 1, 1});
  expect_shape_and_values(sum_to(ramp({2, 2, 2}), {2, 1}), {2, 1}, {10, 18});
  expect_shape_and_values(sum_to(ramp({2, 2}), {}), {}, {6});
  EXPECT_THROW_MESSAGE(expand(ramp({2, 3}), {2, 4}), "expand: shape [2, 3] cannot be repeated to [2, 4]");
}

TEST(Shape, SlicesLikeNumPy) {
  const Tensor x = ramp({6});
  expect_shape_and_values(slice(x, 0, 1, 5, 2), {2}, {1, 3});
  expect_shape_and_values(slice(x, 0, -1, kEnd, -1), {6}, {5, 4, 3, 2, 1, 0});
  expect_shape_and_values(slice(x, 0, 4, 0, -3), {2}, {4, 1});
  expect_shape_and_values(x.slice(0, -100, 100), {6}, {0, 1, 2, 3, 4, 5});
  expect_shape_and_values(slice(x, 0, 4, 2), {0}, {});
  expect_shape_and_values(ramp({2, 3})[-1], {3}, {3, 4, 5});
  expect_shape_and_values(select(ramp({2, 3}), 1, 1), {2}, {1, 4});
  EXPECT_THROW_MESSAGE(ramp({2, 3})[2], "index 2 is outside axis 0 of shape [2, 3]");
  EXPECT_THROW_MESSAGE(narrow(x, 0, 4, 3), "narrow: 3 elements from position 4 do not lie in axis 0 of shape [6]");
}

TEST(Shape, SplitsAndJoins) {
  const std::vector<Tensor> parts = split(ramp({5, 2}), 2);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].shape(), Shape({1, 2}));
  expect_shape_and_values(cat(parts), {5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(chunk(ramp({7}), 3).size(), 3u);
  expect_shape_and_values(stack({ramp({2}), ramp({2})}, 1), {2, 2}, {0, 0, 1, 1});
  EXPECT_EQ(cat({tensor({1}), tensor({1.5})}).dtype(), DType::f32);
  EXPECT_THROW_MESSAGE(cat({ramp({2, 2}), ramp({2, 3})}), "cat: tensor 1 has shape [2, 3], which differs from [2, 2]");
  EXPECT_THROW_MESSAGE(split(ramp({5}), std::vector<std::int64_t>{2, 2}), "split: parts of sizes [2, 2]");
}

TEST(Shape, Pads) {
  const Tensor x = ramp({3});
  expect_shape_and_values(pad(x, {1, 2}), {6}, {0, 0, 1, 2, 0, 0});
  expect_shape_and_values(pad(x, {1, 0}, PadMode::constant, 9), {4}, {9, 0, 1, 2});
  expect_shape_and_values(pad(x, {2, 1}, PadMode::reflect), {6}, {2, 1, 0, 1, 2, 1});
  expect_shape_and_values(pad(x, {2, 1}, PadMode::replicate), {6}, {0, 0, 0, 1, 2, 2});
  expect_shape_and_values(pad(x, {-1, 1}), {3}, {1, 2, 0});
  expect_shape_and_values(pad(ramp({1, 2}), {0, 1, 1, 0}), {2, 3}, {0, 0, 0, 0, 1, 0});
  EXPECT_THROW_MESSAGE(pad(x, {3, 0}, PadMode::reflect), "pad: reflection by 3 needs more than 3 elements");
}

TEST(Shape, FlipsRollsAndRepeats) {
  expect_shape_and_values(flip(ramp({2, 2})), {2, 2}, {3, 2, 1, 0});
  expect_shape_and_values(roll(ramp({4}), 1), {4}, {3, 0, 1, 2});
  expect_shape_and_values(roll(ramp({2, 3}), {-1}, {1}), {2, 3}, {1, 2, 0, 4, 5, 3});
  expect_shape_and_values(repeat(ramp({2}), {2, 2}), {2, 4}, {0, 1, 0, 1, 0, 1, 0, 1});
  expect_shape_and_values(repeat(ramp({2, 1}), {1, 3}), {2, 3}, {0, 0, 0, 1, 1, 1});
}

TEST(Shape, TrianglesAndDiagonals) {
  const Tensor x = ramp({3, 3});
  expect_shape_and_values(tril(x), {3, 3}, {0, 0, 0, 3, 4, 0, 6, 7, 8});
  expect_shape_and_values(triu(x, 1), {3, 3}, {0, 1, 2, 0, 0, 5, 0, 0, 0});
  expect_shape_and_values(diag(x), {3}, {0, 4, 8});
  expect_shape_and_values(diag(x, 1), {2}, {1, 5});
  expect_shape_and_values(diag(x, -1), {2}, {3, 7});
  expect_shape_and_values(diag(x, 3), {0}, {});
  expect_shape_and_values(diag(ramp({2}) + 1), {2, 2}, {1, 0, 0, 2});
  expect_shape_and_values(diag(ramp({2}) + 1, -1), {3, 3}, {0, 0, 0, 1, 0, 0, 0, 2, 0});
  expect_shape_and_values(diagonal(ramp({2, 2, 2}), 0, 0, 2), {2, 2}, {0, 5, 2, 7});
  expect_shape_and_values(contiguous(t(ramp({2, 2}))), {2, 2}, {0, 2, 1, 3});
}

TEST(Shape, TrianglesOfAnyShapeAndDiagonal) {
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 7}, {7, 1}, {2, 9}, {9, 2}, {3, 4}, {4, 4}, {0, 5}, {5, 0}}) {
    const Tensor x = variable((cast(ramp({2, rows, columns}), DType::f64) + 1).eval());
    for (const std::int64_t diagonal :
         {-kEnd, std::int64_t{-5}, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{4}, kEnd}) {
      std::vector<double> lower, upper;
      for (std::int64_t i = 0; i < 2 * rows * columns; ++i) {
        const std::int64_t above = i % columns - i / columns % rows;
        lower.push_back(above <= diagonal ? static_cast<double>(i + 1) : 0);
        upper.push_back(above >= diagonal ? static_cast<double>(i + 1) : 0);
      }
      const Tensor low = tril(x, diagonal), up = triu(x, diagonal);
      EXPECT_EQ(low.to_vector(), lower) << rows << " " << columns << " " << diagonal;
      EXPECT_EQ(up.to_vector(), upper) << rows << " " << columns << " " << diagonal;
      EXPECT_EQ(backward(sum(low * x))[x].to_vector(), (2.0 * low).to_vector());
      EXPECT_EQ(backward(sum(up * x))[x].to_vector(), (2.0 * up).to_vector());
    }
  }
}

TEST(Shape, SizesThatDoNotFitAreErrors) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THROW_MESSAGE(reshape(ramp({4}), {huge, huge, -1}), "reshape: a size of");
  EXPECT_THROW_MESSAGE(pad(ramp({4}), {kEnd, kEnd}), "pad: a size of");
  EXPECT_THROW_MESSAGE(repeat(ramp({4}), {kEnd}), "too large");
  expect_shape_and_values(diag(ramp({2, 2}), kEnd), {0}, {});
  expect_shape_and_values(diag(ramp({2, 2}), -kEnd), {0}, {});
}

TEST(ShapeBackward, NarrowOfEveryStep) {
  const Tensor x = some({2, 7, 3});
  for (std::int64_t step : {1, 2, 3, 6, 9, -1, -2, -3, -9}) {
    for (std::int64_t start : {0, 1, 6}) {
      const std::int64_t from = step < 0 ? -1 - start : start;
      expect_gradient([&](auto& v) { return slice(v, 1, from, kEnd, step); },
                      [&](auto& g) { return slice_backward(g, x.shape(), 1, from, kEnd, step); }, x);
    }
  }
}

TEST(ShapeBackward, AgreesWithDifferences) {
  const Tensor x = some({2, 3, 4});
  const Shape s = x.shape();
  expect_gradient(
      [](auto& v) {
        return permute(v, {2, 0, 1});
      },
      [](auto& g) {
        return permute_backward(g, {2, 0, 1});
      },
      x);
  expect_gradient(
      [](auto& v) {
        return expand(v, {2, 3, 4});
      },
      [](auto& g) {
        return expand_backward(g, {3, 1});
      },
      some({3, 1}));
  expect_gradient([](auto& v) { return select(v, 1, -1); }, [&](auto& g) { return select_backward(g, s, 1, -1); }, x);
  expect_gradient(
      [](auto& v) {
        return cat({v, 2 * v}, 1);
      },
      [](auto& g) {
        const auto parts = cat_backward(g, {3, 3}, 1);
        return parts[0] + 2 * parts[1];
      },
      x);
  for (PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::replicate}) {
    const std::vector<std::int64_t> amounts{2, 1, 1, 2};
    expect_gradient([&](auto& v) { return pad(v, amounts, mode); },
                    [&](auto& g) { return pad_backward(g, s, amounts, mode); }, x);
  }
  expect_gradient([](auto& v) { return pad(v, {-1, 2}); }, [&](auto& g) { return pad_backward(g, s, {-1, 2}); }, x);
  expect_gradient([](auto& v) { return flip(v, {0, 2}); }, [](auto& g) { return flip_backward(g, {0, 2}); }, x);
  expect_gradient(
      [](auto& v) {
        return roll(v, {1, -2}, {0, 2});
      },
      [](auto& g) {
        return roll_backward(g, {1, -2}, {0, 2});
      },
      x);
  expect_gradient(
      [](auto& v) {
        return repeat(v, {2, 1, 3, 2});
      },
      [&](auto& g) {
        return repeat_backward(g, s, {2, 1, 3, 2});
      },
      x);
  expect_gradient([](auto& v) { return tril(v, 1); }, [](auto& g) { return tril_backward(g, 1); }, x);
  expect_gradient([](auto& v) { return diagonal(v, 1, 2, 1); },
                  [&](auto& g) { return diagonal_backward(g, s, 1, 2, 1); }, x);
  expect_gradient([](auto& v) { return diag(v, -1); }, [](auto& g) { return diag_backward(g, {3}, -1); }, some({3}));
}

}  // namespace
}  // namespace ebb
