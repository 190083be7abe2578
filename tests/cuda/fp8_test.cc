// SPDX-License-Identifier: MIT
// Products of factors rounded to eight bits on the GPU: the same numbers as on the CPU, from factors of any order and
// address.
#include "ebb/ops/fp8.h"
#include "cuda/library/product.h"
#include "cuda/library_on_gpu.h"

namespace ebb::testing {
namespace {

class Fp8OnGpu : public LibraryOnGpu {
 protected:
  // Values and gradients on GPU and CPU agree up to what tensor cores drop from sums: see fp8_error_bound.
  void expect_alike(const std::string& what, const Tensor& x, const Tensor& w,
                    const std::function<Tensor(const Tensor&, const Tensor&)>& f) const {
    const auto on = [&](Device device) {
      const Tensor a = variable(x.to(device)), b = variable(w.to(device));
      const Tensor y = f(a, b);
      const Tensor weights = 1 + 0.25 * cast(remainder(arange(y.numel()), 7), DType::f32);
      const Gradients g = backward(sum(cast(y, DType::f32) * reshape(weights, y.shape())));
      return std::vector<std::vector<double>>{y.to_vector<double>(), g[a].to_vector<double>(),
                                              g[b].to_vector<double>()};
    };
    const auto here = on({}), there = on(kGpu);
    const double rounding = GetParam() == DType::bf16 ? 0x1p-7 : 0x1p-10;
    for (std::size_t r = 0; r < here.size(); ++r) {
      ASSERT_EQ(here[r].size(), there[r].size());
      double most = 0;
      for (const double v : here[r]) most = std::max(most, std::fabs(v));
      for (std::size_t i = 0; i < here[r].size(); ++i)
        ASSERT_NEAR(here[r][i], there[r][i], rounding * most) << what << ", result " << r << ", element " << i;
    }
  }
};

TEST_P(Fp8OnGpu, ValuesAndGradients) {
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{16, 32, 48},
                                {5, 7, 3},
                                {33, 300, 65},
                                {130, 16, 32},
                                {1, 40, 20},
                                {70, 131, 258}}) {
    const std::string size = fmt::format("{} x {} x {}", m, k, n);
    expect_alike(size, real({m, k}), real({n, k}), [](const auto& x, const auto& w) { return fp8_linear(x, w); });
    expect_alike("turned " + size, real({k, m}), real({k, n}),
                 [](const auto& x, const auto& w) { return fp8_linear(t(x), t(w)); });
    expect_alike("parts of " + size, real({m + 1, 2 * k + 3}), real({n, 2 * k}), [k = k](const auto& x, const auto& w) {
      return fp8_linear(narrow(narrow(x, 0, 1, x.size(0) - 1), 1, 3, k), narrow(w, 1, k, k));
    });
  }
  expect_alike("every second", real({20, 60}), real({24, 60}), [](const auto& x, const auto& w) {
    return fp8_linear(slice(t(reshape(x, {60, 20})), 1, 0, 60, 2), slice(w, 1, 0, 60, 2));
  });
}

// The head of a language model: in strips, the gradient of the weight is a sum of products.
TEST_P(Fp8OnGpu, SumsOfProductsAreAdded) {
  const Tensor x = real({3, 32, 48}), w = real({40, 48});
  expect_alike("sum of three", x, w, [](const auto& a, const auto& b) {
    return fp8_linear(select(a, 0, 0), b) + fp8_linear(select(a, 0, 1), b) + fp8_linear(select(a, 0, 2), b);
  });
}

// cuBLASLt's fastest algorithm is found by timing: that must not affect bits.
TEST_P(Fp8OnGpu, TuningChangesNoBits) {
  const std::int64_t scale = device_is_emulated() ? 1 : 64;
  const Tensor x = real({48 * scale, 32 * scale}).to(kGpu), w = real({16 * scale, 32 * scale}).to(kGpu);
  const auto bits = [&](double from) {
    const double before = cuda::tune_products_from(from);
    const std::vector<double> made = fp8_linear(x, w).to_vector<double>();
    cuda::tune_products_from(before);
    return made;
  };
  EXPECT_EQ(bits(0), bits(std::numeric_limits<double>::infinity()));
}

INSTANTIATE_TEST_SUITE_P(Of, Fp8OnGpu, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& i) { return std::string(name(i.param)); });

}  // namespace
}  // namespace ebb::testing
