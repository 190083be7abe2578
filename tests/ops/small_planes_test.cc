// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "ebb/ebb.h"

// Pools of many planes whose lines are shorter than a vector process them side by side: bit-identical to a few planes
// at a time, which are processed one by one.
namespace ebb {
namespace {

constexpr std::int64_t kFew = 5;  // planes, too few to be worthwhile

template <class Pool>
Tensor by_few_planes(const Tensor& x, Pool pool) {
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < x.size(0); i += kFew)
    parts.push_back(pool(narrow(x, 0, i, std::min(kFew, x.size(0) - i))));
  return cat(parts, 0);
}

// Planes [n, 1, h, w]: with equal elements, and a few NaNs.
Tensor planes(std::int64_t n, std::int64_t h, std::int64_t w, DType dtype) {
  const Tensor i = arange(n * h * w), number = cast(remainder(37 * i, 101), DType::f64) - 50.25;
  const Tensor x = where(remainder(i, 97) == 5, std::numeric_limits<double>::quiet_NaN(), number);
  return reshape(cast(x, dtype), {n, 1, h, w});
}

void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_TRUE(all(logical_or(a == b, logical_and(isnan(a), isnan(b)))).item<bool>());
}

struct PlaneCase {
  std::int64_t h, w;
  SizePair window, stride, padding, dilation;
  bool ceil;
};
const PlaneCase kPlaneCases[] = {
    {4, 4, 2, 2, 0, 1, false},          {5, 7, 3, 2, 1, 1, false},   {5, 7, {2, 3}, {1, 2}, {1, 0}, {2, 1}, false},
    {1, 9, {1, 3}, {1, 2}, 0, 1, true}, {17, 19, 3, 1, 1, 1, false}, {6, 3, 3, 3, 1, 1, true},
};

TEST(SmallPlanes, ArePooledSideBySideWithTheSameBits) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (std::int64_t n : {16, 64, 131}) {
      for (const PlaneCase& c : kPlaneCases) {
        SCOPED_TRACE(std::to_string(n) + " planes of height " + std::to_string(c.h) + ", " + std::string(name(dtype)));
        const MaxPoolOptions largest{
            .stride = c.stride, .padding = c.padding, .dilation = c.dilation, .ceil_mode = c.ceil};
        const AvgPoolOptions mean{.stride = c.stride, .padding = c.padding, .ceil_mode = c.ceil};
        const Tensor x = planes(n, c.h, c.w, dtype), across = transpose(x, 2, 3);
        for (const Tensor& image : {x, transpose(contiguous(across), 2, 3)}) {
          const auto max_of = [&](const Tensor& t) { return max_pool2d(t, c.window, largest); };
          const auto place_of = [&](const Tensor& t) { return max_pool2d_with_indices(t, c.window, largest).second; };
          const auto mean_of = [&](const Tensor& t) { return avg_pool2d(t, c.window, mean); };
          expect_same(max_of(image), by_few_planes(image, max_of));
          expect_same(place_of(image), by_few_planes(image, place_of));
          expect_same(mean_of(image), by_few_planes(image, mean_of));
          const auto gradient = [&](const Tensor& t) {
            const Tensor v = variable(t), y = mean_of(v);
            return backward(sum(y * cast(reshape(arange(y.size(2) * y.size(3)), {y.size(2), y.size(3)}), dtype)))[v];
          };
          expect_same(gradient(image), by_few_planes(image, gradient));
        }
      }
      const Tensor x = planes(n, 7, 6, dtype);
      const auto adaptive = [](const Tensor& t) { return adaptive_max_pool2d_with_indices(t, {3, 4}).second; };
      const auto means = [](const Tensor& t) { return adaptive_avg_pool2d(t, {3, 4}); };
      expect_same(adaptive(x), by_few_planes(x, adaptive));
      expect_same(means(x), by_few_planes(x, means));
    }
  }
}

}  // namespace
}  // namespace ebb
