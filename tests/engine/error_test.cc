// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "ebb/ebb.h"
#include "expect_error.h"

// Every failure is an Error with an actionable message.
namespace ebb {
namespace {

Tensor ramp(const Shape& shape) { return reshape(arange(0, shape.numel(), 1, DType::f32), shape); }
Tensor indices(std::vector<std::int64_t> v, const Shape& shape) { return from_data(v, shape); }

TEST(Errors, ShapesThatDoNotFit) {
  EXPECT_THROW_MESSAGE(ramp({2, 3}) + ramp({2, 4}),
                       "add: shapes [2, 3] and [2, 4] do not broadcast: sizes 3 and 4 of axis 1 differ");
  EXPECT_THROW_MESSAGE(matmul(ramp({2, 3}), ramp({2, 3})), "matmul");
  EXPECT_THROW_MESSAGE(reshape(ramp({2, 3}), {4, 2}), "[2, 3]");
  EXPECT_THROW_MESSAGE(cat({ramp({2, 3}), ramp({3, 2})}, 0), "cat");
}

TEST(Errors, ShapesThatCannotBe) {
  EXPECT_THROW_MESSAGE(zeros({2, -3}), "size -3 of axis 1 in [2, -3] is negative");
  EXPECT_THROW_MESSAGE(zeros({std::int64_t{1} << 40, std::int64_t{1} << 40}), "more elements than memory can address");
  EXPECT_THROW_MESSAGE(expand(zeros({1, 1}), {std::int64_t{1} << 40, std::int64_t{1} << 40}), "more elements");
  EXPECT_THROW_MESSAGE(zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}), "at most 8");
}

// Whichever axis is summed over: the rows of a sweep are not always the first axes of its tensors.
TEST(Errors, PositionsAreThoseOfTheTensor) {
  struct Case {
    Shape shape;
    int axis;
    std::int64_t element;
    const char* position;
  };
  for (const Case& c :
       {Case{{2, 5, 70}, 1, (5 + 3) * 70 + 60, "[1, 3, 60]"}, Case{{2, 2000, 6}, 1, 1999 * 6 + 2, "[0, 1999, 2]"},
        Case{{40, 3000}, 0, 7 * 3000 + 2999, "[7, 2999]"}, Case{{300, 8}, 1, 2 * 8 + 7, "[2, 7]"}}) {
    std::vector<float> x(static_cast<std::size_t>(c.shape.numel()), 0.5f);
    x[static_cast<std::size_t>(c.element)] = 1.5f;
    const Tensor loss = binary_cross_entropy(from_data(x, c.shape), zeros(c.shape), {.reduction = Reduction::none});
    EXPECT_THROW_MESSAGE(sum(loss, c.axis).eval(), std::string("but the element at ") + c.position + " is 1.5");
  }
}

TEST(Errors, AxesThatDoNotExist) {
  EXPECT_THROW_KIND(sum(ramp({2, 3}), 2), index, "sum: axis 2");
  EXPECT_THROW_KIND(softmax(ramp({2, 3}), -3), index, "axis -3");
}

TEST(Errors, IndicesOutOfRangeNamePositionAndValue) {
  // A library call, and a pick inside a sweep.
  EXPECT_THROW_KIND(gather(ramp({2, 3}), 1, indices({0, 1, 2, 5}, {2, 2})).eval(), index,
                    "index[1, 1] = 5 is outside [0, 3)");
  EXPECT_THROW_KIND(gather(exp(ramp({2, 3})), 1, indices({1, -4}, {2, 1})).eval(), index, "= -4 is outside [0, 3)");
  EXPECT_THROW_KIND(gather(exp(ramp({2, 3})), 1, indices({1, -4}, {2, 1})).eval(), index, "index[1");
  EXPECT_THROW_KIND(index_select(ramp({2, 3}), 0, indices({0, 2}, {2})).eval(), index, "= 2 is outside [0, 2)");
  EXPECT_THROW_KIND(ramp({3})[3], index, "index 3 is outside");
}

TEST(Errors, TheFirstOfManyBadIndicesIsNamed) {
  std::vector<std::int64_t> at(70000, 1);
  at[60000] = 9, at[123] = 7, at[69999] = 8;
  EXPECT_THROW_MESSAGE(gather(exp(ramp({70000, 3})), 1, indices(at, {70000, 1})).eval(),
                       "index[123] = 7 is outside [0, 3)");
}

TEST(Errors, AFailedEvaluationLeavesTheGraphUsable) {
  const Tensor x = exp(ramp({2, 3}));
  const Tensor bad = gather(x, 1, indices({1, 4}, {2, 1}));
  EXPECT_THROW_MESSAGE(sum(bad * 2).item(), "index[1] = 4 is outside [0, 3)");
  EXPECT_THROW_MESSAGE(sum(bad).item(), "index[1] = 4 is outside [0, 3)");
  EXPECT_EQ(x[0][0].item(), 1);
}

TEST(Errors, DtypesThatDoNotFit) {
  EXPECT_THROW_KIND(gather(ramp({2, 3}), 1, ramp({2, 1})), type, "an index must be i64 or i32, got f32");
  EXPECT_THROW_KIND(neg(ramp({2}) > 0), type, "neg: not defined for bool");
  EXPECT_THROW_KIND(dtype_from_name("float128"), type, "\"float128\" is not a dtype");
}

TEST(Errors, ReadingAValueAsSomethingElse) {
  EXPECT_THROW_KIND(ramp({2}).to_vector<std::int64_t>(), type, "a tensor of f32 cannot be read as integers");
  EXPECT_THROW_KIND(ramp({2}).data<double>(), type, "the tensor is f32, not f64");
  EXPECT_THROW_MESSAGE(ramp({2}).item(), "item: the tensor has shape [2]");
}

TEST(Errors, TensorsWithoutAValue) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_THROW_MESSAGE(none.shape(), "has no value");
  EXPECT_THROW(none + 1, Error);
  EXPECT_THROW_MESSAGE(eval({none}), "has no value");
  EXPECT_THROW_MESSAGE(backward(none), "has no value");
}

}  // namespace
}  // namespace ebb
