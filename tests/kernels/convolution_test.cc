// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cpu/tile/simd_targets.h"
// After the list of targets.
#include <hwy/targets.h>

#include "ebb/backward/conv.h"
#include "ebb/ebb.h"

// Convolutions and their gradients have the bits of their definitions, on every target and for every way a size is cut
// into tiles: rows that fill vectors and rows that do not, channels that fill tiles and channels that do not.
namespace ebb {
namespace {

struct ConvolutionCase {
  std::int64_t images, channels, height, width, outputs, window, stride, padding;
};
std::ostream& operator<<(std::ostream& o, const ConvolutionCase& c) {
  return o << c.images << "x" << c.channels << "x" << c.height << "x" << c.width << " to " << c.outputs << ", window "
           << c.window << ", stride " << c.stride << ", padding " << c.padding;
}
const ConvolutionCase kConvolutionCases[] = {
    {1, 3, 32, 32, 16, 3, 1, 1}, {2, 16, 8, 8, 64, 3, 1, 1}, {1, 33, 8, 8, 32, 3, 1, 1},   {1, 4, 16, 16, 24, 3, 1, 1},
    {1, 8, 7, 7, 40, 3, 1, 1},   {2, 5, 9, 17, 7, 3, 1, 1},  {1, 16, 32, 32, 32, 3, 2, 1}, {1, 6, 16, 16, 33, 1, 2, 0},
    {1, 2, 12, 12, 48, 5, 1, 2}, {18, 9, 6, 4, 16, 3, 1, 1}, {1, 7, 10, 24, 3, 3, 2, 2},   {1, 20, 1, 70, 17, 3, 1, 1},
    {1, 24, 14, 14, 8, 3, 1, 0}, {2, 3, 11, 8, 36, 3, 3, 1}, {1, 65, 4, 8, 10, 2, 1, 0},
};

template <class T>
std::vector<T> even_numbers(std::int64_t n, unsigned seed) {
  std::mt19937 g(seed);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (T& x : v) x = static_cast<T>(static_cast<double>(g()) * 0x1p-31 - 1);
  return v;
}
template <class T>
Tensor tensor_of(const std::vector<T>& v, const Shape& shape) {
  return from_data(v, shape);
}

// A target's step of a sum: one rounding where it has the instruction, otherwise two.
template <class T>
T add_product(T a, T b, T sum, bool fused) {
  return fused ? std::fma(a, b, sum) : sum + a * b;
}

template <class T>
class Definition {
 public:
  Definition(const ConvolutionCase& c, bool fused)
      : c_(c),
        fused_(fused),
        high_((c.height + 2 * c.padding - c.window) / c.stride + 1),
        wide_((c.width + 2 * c.padding - c.window) / c.stride + 1),
        x(even_numbers<T>(c.images * c.channels * c.height * c.width, 1)),
        w(even_numbers<T>(c.outputs * c.channels * c.window * c.window, 2)),
        bias(even_numbers<T>(c.outputs, 3)),
        g(even_numbers<T>(c.images * c.outputs * high_ * wide_, 4)) {}

  // Channel by channel and tap by tap.
  std::vector<T> forward() const {
    std::vector<T> y;
    each(c_.images, c_.outputs, high_, wide_, [&](auto n, auto k, auto p, auto q) {
      T sum = bias[k];
      each(1, c_.channels, c_.window, c_.window, [&](auto, auto c, auto r, auto s) {
        sum = add_product(w[((k * c_.channels + c) * c_.window + r) * c_.window + s], image(n, c, p, q, r, s), sum,
                          fused_);
      });
      y.push_back(sum);
    });
    return y;
  }
  std::vector<T> to_input() const {
    std::vector<T> dx;
    each(c_.images, c_.channels, c_.height, c_.width, [&](auto n, auto c, auto h, auto v) {
      T sum = 0;
      each(1, c_.outputs, c_.window, c_.window, [&](auto, auto k, auto r, auto s) {
        const auto p = h + static_cast<std::size_t>(c_.padding) - r, q = v + static_cast<std::size_t>(c_.padding) - s;
        const auto step = static_cast<std::size_t>(c_.stride);
        if (p % step != 0 || q % step != 0 || p / step >= high_ || q / step >= wide_) return;
        sum = add_product(w[((k * c_.channels + c) * c_.window + r) * c_.window + s],
                          g[((n * c_.outputs + k) * high_ + p / step) * wide_ + q / step], sum, fused_);
      });
      dx.push_back(sum);
    });
    return dx;
  }
  // Position by position in chunks of images, at most 16, which are added in order.
  std::vector<T> to_windows() const {
    std::vector<T> dw;
    const std::int64_t chunk = (c_.images + 15) / 16;
    each(c_.outputs, c_.channels, c_.window, c_.window, [&](auto k, auto c, auto r, auto s) {
      T total = 0;
      for (std::int64_t first = 0; first < c_.images; first += chunk) {
        T sum = 0;
        each(std::min(chunk, c_.images - first), 1, high_, wide_, [&](auto n, auto, auto p, auto q) {
          n += static_cast<std::size_t>(first);
          sum = add_product(g[((n * c_.outputs + k) * high_ + p) * wide_ + q], image(n, c, p, q, r, s), sum, fused_);
        });
        total = first == 0 ? sum : total + sum;
      }
      dw.push_back(total);
    });
    return dw;
  }

 private:
  template <class Body>
  static void each(std::int64_t a, std::int64_t b, std::size_t c, std::size_t d, Body body) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(a); ++i)
      for (std::size_t j = 0; j < static_cast<std::size_t>(b); ++j)
        for (std::size_t k = 0; k < c; ++k)
          for (std::size_t l = 0; l < d; ++l) body(i, j, k, l);
  }
  T image(std::size_t n, std::size_t c, std::size_t p, std::size_t q, std::size_t r, std::size_t s) const {
    const auto h = static_cast<std::int64_t>(p) * c_.stride + static_cast<std::int64_t>(r) - c_.padding;
    const auto v = static_cast<std::int64_t>(q) * c_.stride + static_cast<std::int64_t>(s) - c_.padding;
    if (h < 0 || h >= c_.height || v < 0 || v >= c_.width) return 0;
    return x[static_cast<std::size_t>(
        ((static_cast<std::int64_t>(n) * c_.channels + static_cast<std::int64_t>(c)) * c_.height + h) * c_.width + v)];
  }

  const ConvolutionCase c_;
  const bool fused_;

 public:
  const std::size_t high_, wide_;
  const std::vector<T> x, w, bias, g;
};

class Convolutions : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { use(GetParam()); }
  void TearDown() override { use(0); }
  static void use(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  // Targets below AVX2 have no fused multiply-add.
  static bool fused() { return GetParam() != HWY_SSE4 && GetParam() != HWY_SCALAR && GetParam() != HWY_EMU128; }

  template <class T>
  static void check(const ConvolutionCase& c) {
    const Definition<T> d(c, fused());
    const Shape image{c.images, c.channels, c.height, c.width};
    const Tensor x = tensor_of(d.x, image), bias = tensor_of(d.bias, {c.outputs});
    const Tensor w = tensor_of(d.w, {c.outputs, c.channels, c.window, c.window});
    const Tensor g =
        tensor_of(d.g, {c.images, c.outputs, static_cast<std::int64_t>(d.high_), static_cast<std::int64_t>(d.wide_)});
    ConvOptions o;
    o.stride = c.stride, o.padding = c.padding;
    EXPECT_EQ(conv2d(x, w, bias, o).to_vector<T>(), d.forward()) << c;
    // The same image, its rows and columns in another order in memory.
    const Tensor turned = transpose(transpose(x, 2, 3).eval() + 0, 2, 3);
    EXPECT_EQ(conv2d(turned, w, bias, o).to_vector<T>(), d.forward()) << c << ", turned";
    const ConvGradients gradients = conv2d_backward(g, x, w, o);
    EXPECT_EQ(gradients.input.template to_vector<T>(), d.to_input()) << c << ", to the input";
    EXPECT_EQ(gradients.weight.template to_vector<T>(), d.to_windows()) << c << ", to the windows";
  }
};

TEST_P(Convolutions, HaveTheBitsOfTheirDefinitions) {
  for (const ConvolutionCase& c : kConvolutionCases) {
    check<float>(c);
    check<double>(c);
  }
}

// Halves are summed in f32 and rounded once.
TEST_P(Convolutions, OfHalvesAreThoseOfTheirF32) {
  for (const ConvolutionCase& c : kConvolutionCases) {
    for (const DType half : {DType::f16, DType::bf16}) {
      const Tensor x = cast(tensor_of(even_numbers<float>(c.images * c.channels * c.height * c.width, 1),
                                      {c.images, c.channels, c.height, c.width}),
                            half)
                           .eval();
      const Tensor w = cast(tensor_of(even_numbers<float>(c.outputs * c.channels * c.window * c.window, 2),
                                      {c.outputs, c.channels, c.window, c.window}),
                            half)
                           .eval();
      ConvOptions o;
      o.stride = c.stride, o.padding = c.padding;
      const Tensor wide = conv2d(cast(x, DType::f32).eval(), cast(w, DType::f32).eval(), {}, o);
      EXPECT_EQ(conv2d(x, w, {}, o).to_vector<double>(), cast(wide, half).to_vector<double>()) << c;
    }
  }
}

std::vector<std::int64_t> simd_targets() {
  std::vector<std::int64_t> list;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1)
    list.push_back(left & -left);
  return list;
}
INSTANTIATE_TEST_SUITE_P(On, Convolutions, ::testing::ValuesIn(simd_targets()),
                         [](const auto& i) { return std::string(hwy::TargetName(i.param)); });

}  // namespace
}  // namespace ebb
