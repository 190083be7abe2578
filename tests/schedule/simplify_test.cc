// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "schedule/graphs.h"

namespace ebb {
namespace {

using testing::count;
using testing::leaf;
using testing::live;
using testing::root;
using testing::simplified;

TEST(Simplify, FormulasAreWhatTheyAreMadeOf) {
  const Tensor x = variable(leaf({3, 4}));
  const ValueGraph g = simplified({softmax(relu(x))});
  for (const Value* v : live(g)) EXPECT_NE(info(v->op).cls, OpClass::alias) << info(v->op).name;
  EXPECT_EQ(count(g, Op::exp), 1u);
}

TEST(Simplify, EqualValuesBecomeOne) {
  const Tensor x = leaf({5}), y = leaf({5});
  EXPECT_EQ(count(simplified({exp(x) + square(exp(x))}), Op::exp), 1u);
  const ValueGraph g = simplified({x * y, y * x, maximum(x, y), maximum(y, x), x - y, y - x});
  EXPECT_EQ(g.roots[0], g.roots[1]);
  EXPECT_EQ(g.roots[2], g.roots[3]);
  EXPECT_NE(g.roots[4], g.roots[5]);
}

TEST(Simplify, RandomNumbersAreEqualToNoOthers) {
  const ValueGraph g = simplified({rand({5}) * 2, rand({5}) * 2});
  EXPECT_NE(g.roots[0], g.roots[1]);
}

TEST(Simplify, WorkThatChangesNothingVanishes) {
  const Tensor x = leaf({3, 1});
  for (const Tensor& same : {x * 1, 1 * x, x / 1, sum(x, 1, true), max(x, 1, true)}) {
    const ValueGraph g = simplified({same});
    EXPECT_TRUE(root(g).is_leaf || root(g).is_view()) << info(root(g).op).name;
    EXPECT_EQ(count(g, Op::mul) + count(g, Op::div) + count(g, Op::sum) + count(g, Op::max), 0u);
  }
  EXPECT_EQ(count(simplified({1 / x}), Op::div), 1u);
  // One is one in every dtype: the cotangent of a loss of halves.
  const Tensor half = cast(x, DType::bf16), one = cast(cast(ones({}, DType::bf16), DType::f32), DType::bf16);
  EXPECT_EQ(count(simplified({one * half}), Op::mul), 0u);
  // Widening and rounding back is the identity; rounding and widening is not.
  EXPECT_EQ(count(simplified({cast(cast(half, DType::f32), DType::bf16)}), Op::cast), 1u);
  EXPECT_EQ(count(simplified({cast(cast(half, DType::f64), DType::bf16)}), Op::cast), 1u);
  EXPECT_EQ(count(simplified({cast(half, x.dtype())}), Op::cast), 2u);
  EXPECT_EQ(count(simplified({cast(cast(half, DType::f16), DType::bf16)}), Op::cast), 3u);
}

// Gradients of slices: what lies side by side is joined, the rest is a sum.
TEST(Simplify, PaddedPartsSideBySideAreJoined) {
  const Tensor a = tensor_from(std::vector<double>{1, 2, 3, 4}, {2, 2}, DType::f32).eval(), b = (a + 10).eval(),
               c = (a + 20).eval();
  const auto at = [](const Tensor& x, std::int64_t before, std::int64_t after) { return pad(x, {before, after}); };
  const auto joins = [](const Tensor& t) { return count(simplified({t}), Op::cat); };
  EXPECT_EQ(joins(at(b, 2, 2) + at(a, 0, 4) + at(c, 4, 0)), 2u);    // of two, and then of all three
  EXPECT_EQ(joins((at(a, 0, 4) + at(c, 4, 0)) + at(b, 2, 2)), 1u);  // the first two do not touch
  EXPECT_EQ(joins(at(a, 1, 3) + at(b, 3, 1)), 1u);
  EXPECT_EQ(joins(at(a, 0, 4) + at(c, 4, 0)), 0u);
  EXPECT_EQ(joins(at(a, 0, 4) + at(b, 1, 3)), 0u);  // they overlap
  const std::vector<double> whole{1, 2, 11, 12, 21, 22, 3, 4, 13, 14, 23, 24},
      part{0, 1, 2, 11, 12, 0, 0, 3, 4, 13, 14, 0};
  EXPECT_EQ(((at(a, 0, 4) + at(c, 4, 0)) + at(b, 2, 2)).to_vector<double>(), whole);
  EXPECT_EQ((at(b, 2, 2) + at(a, 0, 4) + at(c, 4, 0)).to_vector<double>(), whole);
  EXPECT_EQ((at(a, 1, 3) + at(b, 3, 1)).to_vector<double>(), part);
}

// What is read out of a matrix with zeros is taken from what was put there, unless most of it is read.
TEST(Simplify, ViewsThatShowNoZerosNeedNoMatrix) {
  const Tensor x = leaf({40}), rows = leaf({6, 5});
  const auto pads = [](const Tensor& t) { return count(simplified({exp(t)}), Op::pad_zero); };
  EXPECT_EQ(pads(diagonal(diag(x))), 0u);
  EXPECT_EQ(pads(narrow(pad(x, {3, 4}), 0, 3, 40)), 0u);
  EXPECT_EQ(pads(narrow(pad(x, {3, 4}), 0, 3, 41)), 1u);
  EXPECT_EQ(pads(narrow(pad(x, {3, 4}), 0, 2, 40)), 1u);
  EXPECT_EQ(pads(narrow(reshape(pad(rows, {0, 25}), {6, 6, 5}), 1, 0, 1)), 0u);
  EXPECT_EQ(pads(narrow(reshape(pad(rows, {0, 25}), {6, 6, 5}), 1, 1, 1)), 1u);
  // One element of a row of ones at the top, and zeros below.
  const Tensor top = pad(leaf({1, 40}), {0, 0, 0, 39});
  const ValueGraph g = simplified({exp(diagonal(top))});
  for (const Value* v : live(g)) EXPECT_LE(v->is_leaf ? 0 : v->shape.numel(), 40) << info(v->op).name;

  const Tensor few = tensor_from(std::vector<double>{1, 2, 3}, {3}, DType::f32).eval();
  const auto numbers = [](const Tensor& t) { return (t * 1).eval().to_vector<double>(); };
  EXPECT_EQ(numbers(diagonal(diag(few))), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(numbers(narrow(pad(few, {2, 1}), 0, 2, 3)), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(numbers(narrow(pad(few, {2, 1}), 0, 3, 2)), (std::vector<double>{2, 3}));
  EXPECT_EQ(numbers(narrow(pad(pad(few, {20, 20}), {50, 60}), 0, 68, 6)), (std::vector<double>{0, 0, 1, 2, 3, 0}));
  const Tensor two = tensor_from(std::vector<double>{1, 2, 3, 4}, {2, 2}, DType::f32).eval();
  EXPECT_EQ(numbers(narrow(reshape(pad(two, {1, 61}), {2, 16, 4}), 1, 0, 1)),
            (std::vector<double>{0, 1, 2, 0, 0, 3, 4, 0}));
  EXPECT_EQ(numbers(narrow(reshape(permute(pad(two, {1, 61}), {1, 0}), {128}), 0, 1, 4)),
            (std::vector<double>{0, 1, 3, 2}));
  const Tensor v = variable(few);
  EXPECT_EQ(backward(sum(select(diag(v), 0, 0) * 2))[v].to_vector<double>(), (std::vector<double>{2, 0, 0}));
  EXPECT_EQ(backward(sum(select(diag(v), 0, 2) * 2))[v].to_vector<double>(), (std::vector<double>{0, 0, 2}));
}

TEST(Simplify, PartsThatAreJoinedAgainAreNotCopied) {
  const Tensor x = exp(leaf({3, 4})), y = leaf({3, 4});
  const auto part = [](const Tensor& t, int axis, int first, int count) { return narrow(t, axis, first, count); };
  EXPECT_EQ(count(simplified({cat({part(x, 0, 0, 1), part(x, 0, 1, 2)}, 0)}), Op::cat), 0u);
  EXPECT_EQ(count(simplified({cat({part(x, 1, 0, 1), part(x, 1, 1, 2), part(x, 1, 3, 1)}, 1)}), Op::cat), 0u);
  // Parts as one call writes them and another wants them: with an axis divided in between.
  const Tensor left = reshape(part(x, 1, 0, 2), {3, 2, 1}), right = reshape(part(x, 1, 2, 2), {3, 2, 1});
  EXPECT_EQ(count(simplified({cat({reshape(left, {3, 2}), reshape(right, {3, 2})}, 1)}), Op::cat), 0u);
  // In another order, incomplete, along another axis, of two tensors, backwards.
  EXPECT_EQ(count(simplified({cat({part(x, 1, 1, 3), part(x, 1, 0, 1)}, 1)}), Op::cat), 1u);
  EXPECT_EQ(count(simplified({cat({part(x, 1, 0, 1), part(x, 1, 1, 2)}, 1)}), Op::cat), 1u);
  EXPECT_EQ(count(simplified({cat({part(x, 1, 0, 1), part(x, 1, 2, 2), part(x, 1, 1, 1)}, 1)}), Op::cat), 1u);
  EXPECT_EQ(count(simplified({cat({part(x, 1, 0, 2), part(x, 1, 2, 2)}, 0)}), Op::cat), 1u);
  EXPECT_EQ(count(simplified({cat({part(x, 1, 0, 2), part(y, 1, 2, 2)}, 1)}), Op::cat), 1u);
  const Tensor flipped = flip(x, {1});
  EXPECT_EQ(count(simplified({cat({part(flipped, 1, 0, 2), part(flipped, 1, 2, 2)}, 1)}), Op::cat), 1u);
  EXPECT_EQ(
      count(simplified({cat({part(transpose(x, 0, 1), 0, 0, 2), part(transpose(x, 0, 1), 0, 2, 2)}, 0)}), Op::cat), 1u);
}

// Joining and padding with zeros move elements, which takes half as long for halves.
TEST(Simplify, HalvesAreJoinedAndPaddedAsHalves) {
  const auto moves_only = [](const Tensor& t, DType dtype) {
    const ValueGraph g = simplified({t});
    bool found = false;
    for (const Value* v : live(g)) {
      if (v->is_leaf || (v->op != Op::cat && v->op != Op::pad_zero)) continue;
      EXPECT_EQ(v->dtype, dtype) << info(v->op).name;
      found = true;
    }
    EXPECT_TRUE(found);
    EXPECT_EQ(root(g).dtype, t.dtype());
  };
  const Tensor a = exp(leaf({2, 3})), b = exp(leaf({2, 2}));
  const auto wide = [](const Tensor& x) { return cast(x, DType::f32); };
  for (const DType half : {DType::bf16, DType::f16}) {
    const Tensor x = cast(a, half), y = cast(b, half);
    moves_only(cast(cat({a, b}, 1), half), half);
    moves_only(cast(pad(cat({a, b}, 1), {1, 2}), half), half);
    moves_only(cast(pad(a, {0, 2}) + pad(b, {3, 0}), half), half);
    moves_only(cat({wide(x), wide(y)}, 1), half);
    moves_only(exp(pad(wide(x), {2, 0})), half);
    moves_only(cast(cat({wide(x), a}, 0), half), half);
    // Nothing is rounded that was not, and nothing twice.
    moves_only(cat({wide(x), a}, 0), DType::f32);
    moves_only(cat({wide(x), wide(cast(b, half == DType::f16 ? DType::bf16 : DType::f16))}, 1), DType::f32);
    moves_only(cast(cat({a, b}, 1), DType::f64), DType::f32);
    moves_only(cast(cast(cat({a, b}, 1), half), DType::f64), half);
  }
  moves_only(cast(cat({a, b}, 1), DType::i32), DType::f32);

  manual_seed(3);
  for (const DType half : {DType::bf16, DType::f16}) {
    const Tensor u = randn({3, 5}).eval(), v = randn({3, 2}).eval();
    const Tensor joined = cast(cat({u * 3, v + 1, zeros({3, 1}), u}, 1), half),
                 parts = cat({cast((u * 3).eval(), half).eval(), cast((v + 1).eval(), half).eval(), zeros({3, 1}, half),
                              cast(u, half).eval()},
                             1);
    EXPECT_EQ(joined.to_vector<double>(), parts.to_vector<double>());
    EXPECT_EQ(cast(pad(u * 3, {2, 1, 0, 1}), half).to_vector<double>(),
              pad(cast((u * 3).eval(), half).eval(), {2, 1, 0, 1}).to_vector<double>());
  }
}

// f32 is not written for reading in another shape if the half it comes from can be read so.
TEST(Simplify, HalvesAreWidenedByWhoReadsThem) {
  const Tensor half = cast(exp(leaf({6, 4})), DType::bf16), wide = cast(half, DType::f32);
  for (const Tensor& t : {sum(reshape(wide, {3, 8}), 1), sum(narrow(wide, 0, 1, 3), 1)}) {
    const ValueGraph g = simplified({t, sum(wide)});
    for (const Value* v : live(g))
      EXPECT_FALSE(v->is_view() && v->dtype == DType::f32 && g.values[v->inputs[0]].op == Op::cast);
  }
  EXPECT_EQ(root(simplified({reshape(wide, {24})})).dtype, DType::f32);
}

TEST(Simplify, RepeatedNumbersAreComputedOnce) {
  const ValueGraph g = simplified({exp(full({100, 7}, 2.0)) + leaf({100, 7})});
  for (const Value* v : live(g)) {
    if (v->op == Op::exp) {
      EXPECT_EQ(v->shape.rank(), 0);
    }
  }
}

TEST(Simplify, SumsOfRepeatedNumbersAreProducts) {
  const Tensor row = leaf({1, 7});
  const ValueGraph g = simplified({sum(expand(row, {100, 7}), 0)});
  EXPECT_EQ(count(g, Op::sum), 0u);
  EXPECT_EQ(count(g, Op::mul), 1u);
  EXPECT_EQ(count(simplified({max(expand(row, {100, 7}), 0)}), Op::mul), 0u);
}

TEST(Simplify, ViewsAreABaseAndStrides) {
  const Tensor x = leaf({4, 6});
  const ValueGraph g = simplified({slice(transpose(x, 0, 1), 0, -1, kEnd, -2)});
  const Value& v = root(g);
  ASSERT_TRUE(v.is_view());
  EXPECT_EQ(g.values[static_cast<std::size_t>(v.base)].op, Op::data);
  EXPECT_EQ(v.offset, 5);
  EXPECT_EQ(v.strides[0], -2);
  EXPECT_EQ(v.strides[1], 6);
}

TEST(Simplify, AReshapeThatStridesCannotExpressIsACopy) {
  const Tensor x = leaf({4, 6});
  EXPECT_EQ(count(simplified({reshape(x, {24})}), Op::copy), 0u);
  EXPECT_EQ(count(simplified({reshape(transpose(x, 0, 1), {24})}), Op::copy), 1u);
}

TEST(Simplify, SignsOfManyElementsMoveIntoOneNumber) {
  const Tensor many = leaf({10000}), few = leaf({10});
  EXPECT_EQ(count(simplified({2.0 * -many}), Op::neg), 1u);  // of the number
  const ValueGraph g = simplified({2.0 * -many});
  for (const Value* v : live(g)) {
    if (v->op == Op::neg) {
      EXPECT_EQ(v->shape.rank(), 0);
    }
  }
  const ValueGraph small = simplified({2.0 * -few});
  for (const Value* v : live(small)) {
    if (v->op == Op::neg) {
      EXPECT_EQ(v->shape, (Shape{10}));
    }
  }
  EXPECT_EQ(count(simplified({many + -exp(many)}), Op::neg), 0u);  // a difference
}

TEST(Simplify, APickFromOneColumnIsACall) {
  const Tensor index = zeros({5, 1}, DType::i64).eval();
  EXPECT_EQ(count(simplified({gather(leaf({5, 1}) * 2, 1, index)}), Op::pick), 0u);
  EXPECT_EQ(count(simplified({gather(leaf({5, 3}) * 2, 1, index)}), Op::pick), 1u);
}

TEST(Simplify, CallsReadMemory) {
  // A product of ones that are not in memory: they are written first.
  const ValueGraph g = simplified({matmul(ones({3, 4}), leaf({4, 2}))});
  for (const Value* v : live(g)) {
    if (v->op != Op::matmul) continue;
    const Value& a = g.values[static_cast<std::size_t>(v->inputs[0])];
    EXPECT_TRUE(a.is_view() || a.op == Op::copy);
  }
  EXPECT_EQ(count(g, Op::copy), 1u);
}

}  // namespace
}  // namespace ebb
