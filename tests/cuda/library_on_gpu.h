// SPDX-License-Identifier: MIT
// Library calls on cuda:0, a GPU if there is one, else the emulated device, against the CPU: values and gradients.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "cuda/emulated_device.h"
#include "ebb/ebb.h"

namespace ebb::testing {

class LibraryOnGpu : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    manual_seed(17);
  }
  Tensor real(const Shape& shape) const { return cast(randn(shape), GetParam()).eval(); }

  // Relative to the largest element: each is a sum of many.
  double tolerance() const {
    const DType d = GetParam();
    return d == DType::f64 ? 1e-12 : d == DType::f32 ? 2e-5 : d == DType::f16 ? 1e-2 : 5e-2;
  }
  void expect_same(const Tensor& here, const Tensor& there, const std::string& what) const {
    ASSERT_EQ(here.shape(), there.shape()) << what;
    ASSERT_EQ(here.dtype(), there.dtype()) << what;
    const std::vector<double> a = here.to_vector<double>(), b = there.to_vector<double>();
    double largest = 0;
    for (const double x : a) largest = std::max(largest, std::isfinite(x) ? std::fabs(x) : 0);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      ASSERT_LE(std::fabs(a[i] - b[i]), tolerance() * (1e-3 + largest))
          << what << ", element " << i << ": " << b[i] << ", on the CPU " << a[i];
    }
  }
  // f of these inputs, and the gradients of a weighted sum of it with respect to the floating ones.
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;
  void compare(const std::string& what, const std::vector<Tensor>& inputs, const Function& f) const {
    const auto on = [&](Device device) {
      std::vector<Tensor> moved;
      for (const Tensor& x : inputs) moved.push_back(is_floating(x.dtype()) ? variable(x.to(device)) : x.to(device));
      const Tensor y = f(moved);
      std::vector<Tensor> all{y};
      if (y.requires_grad()) {
        const Tensor weights = 1 + 0.25 * cast(remainder(arange(y.numel()), 7), DType::f32);
        const Gradients g = backward(sum(cast(y, compute_dtype(y.dtype())) * reshape(weights, y.shape())));
        for (const Tensor& x : moved) {
          if (is_floating(x.dtype())) all.push_back(g[x]);
        }
      }
      return all;
    };
    const std::vector<Tensor> here = on({}), there = on(kGpu);
    ASSERT_EQ(here.size(), there.size());
    for (std::size_t k = 0; k < here.size() && !HasFatalFailure(); ++k)
      expect_same(here[k], there[k], fmt::format("{}, {}", what, k ? fmt::format("gradient {}", k) : "value"));
  }
};

// Parameters of such tests, and their names.
inline const auto kFloats = ::testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16);
inline std::string dtype_of_test(const ::testing::TestParamInfo<DType>& info) { return std::string(name(info.param)); }

}  // namespace ebb::testing
