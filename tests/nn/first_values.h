// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "ebb/nn/parameters.h"
#include "ebb/ops/create.h"

// Initial values of the training curves of golden/curves.txt: the same formulas as in make_golden.py.
namespace ebb::testing {

inline Tensor formula(const Shape& shape, double phase, double base = 0, double scale = 0.2) {
  std::vector<float> v(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<float>(base + scale * std::sin(static_cast<double>(i) * 12.9898 + phase));
  }
  return from_data(v, shape);
}

// Gains of norms are about 1, everything else about 0.
template <class Model>
Model with_first_values(Model model) {
  double k = 0;
  for (const Parameter& p : parameters(model)) {
    const bool gain = p.name.find("norm") != std::string::npos && p.name.ends_with("weight");
    *p.tensor = variable(formula(p.tensor->shape(), ++k, gain ? 1 : 0));
  }
  return model;
}

}  // namespace ebb::testing
