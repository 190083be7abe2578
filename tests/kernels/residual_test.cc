#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cpu/tile_kernels.h"

namespace ebb::cpu {
namespace {

// One loop, the bits of three: subtract, sum the squares, scale.
template <class T>
void check(const TileKernels& kernels, RegType type) {
  std::mt19937 rng(7);
  std::normal_distribution<T> normal;
  for (std::size_t n : {0, 1, 3, 4, 7, 15, 16, 17, 31, 33, 64, 70, 1000, 1023, 1024}) {
    std::vector<T> a(n), b(n), difference(n), scaled(n), out(n + 2, T(-7));
    for (std::size_t i = 0; i < n; ++i) a[i] = normal(rng), b[i] = normal(rng);
    const T scale = T(0.37);
    double sum = 0.25, expected = 0.25;
    kernels.elementwise(Op::sub, type, 0)(difference.data(), a.data(), b.data(), nullptr, n);
    kernels.dot(type)(&expected, difference.data(), difference.data(), 1, n);
    kernels.elementwise(Op::mul, type, 2)(scaled.data(), difference.data(), &scale, nullptr, n);
    kernels.residual(type)(&sum, out.data() + 1, a.data(), b.data(), &scale, n);
    EXPECT_EQ(sum, expected) << kernels.target << " n = " << n;
    EXPECT_EQ(n == 0 ? 0 : std::memcmp(out.data() + 1, scaled.data(), n * sizeof(T)), 0)
        << kernels.target << " n = " << n;
    EXPECT_EQ(out.front(), T(-7));
    EXPECT_EQ(out.back(), T(-7));
  }
}

TEST(Residual, HasTheBitsOfItsParts) {
  const TargetList list = tile_kernel_targets();
  for (std::size_t t = 0; t < list.count; ++t) {
    check<float>(*list.begin_[t], RegType::f32);
    check<double>(*list.begin_[t], RegType::f64);
  }
}

}  // namespace
}  // namespace ebb::cpu
