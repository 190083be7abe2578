// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/regression.h"
#include "losses/reduction.h"

namespace ebb {

// LOSS_backward for a loss of input and target, with or without a weight among its options.
template <class Options>
LossGradients gradients(const char* op, Tensor (*loss)(const Tensor&, const Tensor&, const Options&),
                        const Tensor& grad, const Tensor& input, const Tensor& target, const Options& o) {
  if constexpr (requires { o.weight; }) {
    const auto g = pull_back(op, grad, {input, target, o.weight}, [&](const std::vector<Tensor>& v) {
      Options with = o;
      with.weight = v[2];
      return loss(v[0], v[1], with);
    });
    return {g[0], g[1], g[2]};
  } else {
    const auto g =
        pull_back(op, grad, {input, target}, [&](const std::vector<Tensor>& v) { return loss(v[0], v[1], o); });
    return {g[0], g[1], {}};
  }
}

}  // namespace ebb
