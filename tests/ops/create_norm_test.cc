// SPDX-License-Identifier: MIT
#include "ebb/backward/norm.h"
#include "ebb/random.h"
#include "expect_error.h"
#include "ops/finite_differences.h"

namespace ebb {
namespace {

using testing::expect_gradient;
using testing::expect_shape_and_values;
using testing::some;

TEST(Create, ConstantsAndRamps) {
  expect_shape_and_values(zeros({2}), {2}, {0, 0});
  EXPECT_EQ(full({2}, 3).dtype(), DType::i64);
  EXPECT_EQ(full({2}, true).dtype(), DType::bool_);
  expect_shape_and_values(arange(3), {3}, {0, 1, 2});
  expect_shape_and_values(arange(5, 0, -2), {3}, {5, 3, 1});
  expect_shape_and_values(arange(0, 1, 0.25), {4}, {0, 0.25, 0.5, 0.75});
  expect_shape_and_values(linspace(0, 1, 5), {5}, {0, 0.25, 0.5, 0.75, 1});
  EXPECT_EQ(linspace(0.1, 0.7, 7, DType::f64).to_vector().back(), 0.7);
  expect_shape_and_values(eye(2, 3), {2, 3}, {1, 0, 0, 0, 1, 0});
  EXPECT_THROW_MESSAGE(arange(0, 3, -1), "arange: a step of -1 does not lead from 0 to 3");
}

TEST(Create, DataAndLiterals) {
  expect_shape_and_values(tensor({{{1.0}, {2.0}}}), {1, 2, 1}, {1, 2});
  EXPECT_EQ(tensor({1.5}, DType::f16).dtype(), DType::f16);
  expect_shape_and_values(from_data(std::vector<bool>{true, false}, {2}), {2}, {1, 0});
  EXPECT_THROW_MESSAGE(from_data({1.0, 2.0}, {3}), "from_data: 2 elements were given for shape [3], which has 3");
  bool released = false;
  {
    float numbers[2] = {1, 2};
    expect_shape_and_values(from_foreign(numbers, DType::f32, {2}, [&] { released = true; }), {2}, {1, 2});
  }
  EXPECT_TRUE(released);
}

TEST(Create, RandomNumbersRepeatWithTheSeed) {
  manual_seed(7);
  const std::vector<double> a = rand({100}).to_vector(), n = randn({20000}).to_vector();
  const Tensor i = randint(-2, 3, {1000}), c = bernoulli({10000}, 0.25);
  manual_seed(7);
  EXPECT_EQ(rand({100}).to_vector(), a);
  EXPECT_NE(rand({100}).to_vector(), a);
  double mean_of_n = 0, square_of_n = 0;
  for (double v : n) mean_of_n += v / 20000, square_of_n += v * v / 20000;
  EXPECT_NEAR(mean_of_n, 0, 0.03);
  EXPECT_NEAR(square_of_n, 1, 0.05);
  EXPECT_EQ(min(i).item<std::int64_t>(), -2);
  EXPECT_EQ(max(i).item<std::int64_t>(), 2);
  EXPECT_NEAR(mean(c).item(), 0.25, 0.02);
  EXPECT_LT(max(rand({100000}, DType::bf16)).item(), 1);
}

TEST(Create, RandomNumbersLikeThoseOfATensor) {
  const Tensor x = zeros({3, 4}, DType::f64);
  manual_seed(7);
  const std::vector<double> uniform = rand_like(x).to_vector(), normal = randn_like(x).to_vector();
  const Tensor whole = randint_like(cast(x, DType::i32), -2, 3);
  EXPECT_EQ(whole.dtype(), DType::i32);
  EXPECT_EQ(whole.shape(), x.shape());
  for (const double v : whole.to_vector()) EXPECT_TRUE(v >= -2 && v < 3) << v;
  manual_seed(7);
  EXPECT_EQ(rand({3, 4}, DType::f64).to_vector(), uniform);
  EXPECT_EQ(randn({3, 4}, DType::f64).to_vector(), normal);
}

TEST(Norm, LayerNormHasMeanZeroAndVarianceOne) {
  const Tensor x = some({3, 5}), y = layer_norm(x, {5}, {}, {}, 0);
  EXPECT_TRUE(allclose(mean(y, 1), zeros({3}, DType::f64), {0, 1e-12}));
  EXPECT_TRUE(allclose(var(y, 1, false, 0), ones({3}, DType::f64), {0, 1e-12}));
  EXPECT_EQ(layer_norm(cast(x, DType::bf16), {5}, ones({5})).dtype(), DType::bf16);
  EXPECT_THROW_MESSAGE(layer_norm(x, {3}),
                       "layer_norm: the normalized shape [3] must be the last sizes of the input's shape");
  EXPECT_THROW_MESSAGE(layer_norm(x, {5}, ones({3})), "layer_norm: weight has shape [3], the normalized shape is [5]");
}

TEST(Norm, RmsNormAndNormalize) {
  expect_shape_and_values(rms_norm(tensor({{3.0, 4.0}}), {2}, tensor({1.0, 2.0}), 0.0), {1, 2},
                          {3 / std::sqrt(12.5), 8 / std::sqrt(12.5)}, 1e-6);
  expect_shape_and_values(normalize(tensor({{3.0, 4.0}, {0.0, 0.0}})), {2, 2}, {0.6, 0.8, 0, 0}, 1e-7);
}

TEST(NormBackward, AgreesWithDifferences) {
  const Tensor x = some({3, 2, 4}), w = some({2, 4}, 1), b = some({2, 4}, 2);
  auto d = [&](const Tensor& g) { return layer_norm_backward(g, x, {2, 4}, w); };
  expect_gradient([&](auto& v) { return layer_norm(v, {2, 4}, w, b); }, [&](auto& g) { return d(g).input; }, x);
  expect_gradient([&](auto& v) { return layer_norm(x, {2, 4}, v, b); }, [&](auto& g) { return d(g).weight; }, w);
  expect_gradient([&](auto& v) { return layer_norm(x, {2, 4}, w, v); }, [&](auto& g) { return d(g).bias; }, b);
  expect_gradient(
      [&](auto& v) {
        return rms_norm(v, {2, 4}, w);
      },
      [&](auto& g) {
        return rms_norm_backward(g, x, {2, 4}, w).first;
      },
      x);
  expect_gradient(
      [&](auto& v) {
        return rms_norm(x, {2, 4}, v);
      },
      [&](auto& g) {
        return rms_norm_backward(g, x, {2, 4}, w).second;
      },
      w);
  for (double p : {1.0, 2.0, 3.0}) {
    expect_gradient([&](auto& v) { return normalize(v, p); }, [&](auto& g) { return normalize_backward(g, x, p); }, x);
  }
}

}  // namespace
}  // namespace ebb
