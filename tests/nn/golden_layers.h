// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ebb/nn/parameters.h"
#include "ebb/ops.h"
#include "golden_numbers.h"

// Compares a layer with golden/layers.txt: output, gradient of the input and of the first parameter, with parameters
// and inputs that are formulas.
namespace ebb::testing {

inline constexpr DType f64 = DType::f64;

inline std::vector<std::string> names(const Parameters& all) {
  std::vector<std::string> out;
  for (const Parameter& p : all) out.push_back(p.name);
  return out;
}

inline Tensor waves(const Shape& shape, double phase, double scale = 0.5) {
  return sin(reshape(arange(0, shape.numel(), 1, DType::f64), shape) * 12.9898 + phase) * scale;
}

inline void expect_close(const Tensor& actual, const std::vector<double>& expected, const std::string& what) {
  const std::vector<double> now = actual.to_vector();
  ASSERT_EQ(now.size(), expected.size()) << what;
  for (std::size_t k = 0; k < now.size(); ++k) {
    ASSERT_NEAR(now[k], expected[k], 1e-9 * std::max(1.0, std::abs(expected[k]))) << what << ", element " << k;
  }
}

template <class Layer, class Call>
void follow(const std::string& name, Layer layer, const Shape& shape, Call call) {
  const auto golden = testing::golden("nn/golden/layers.txt");
  double phase = 0;
  for (const Parameter& p : parameters(layer)) *p.tensor = variable(waves(p.tensor->shape(), ++phase));
  const Tensor x = variable(waves(shape, 0.5, 1));
  const Tensor y = call(layer, x);
  const Gradients g = backward(sum(y * waves(y.shape(), 0.25)));
  expect_close(y, golden.at(name).at(0), name);
  expect_close(g[x], golden.at(name + ".input").at(0), name + ".input");
  const Parameters all = parameters(layer);
  if (!all.empty()) expect_close(g[*all[0].tensor], golden.at(name + ".first").at(0), name + ".first");
}
template <class Layer>
void follow(const std::string& name, Layer layer, const Shape& shape) {
  follow(name, std::move(layer), shape, [](Layer& l, const Tensor& x) { return l(x); });
}

}  // namespace ebb::testing
