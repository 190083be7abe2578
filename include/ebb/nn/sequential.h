// SPDX-License-Identifier: MIT
#pragma once
#include <tuple>
#include <utility>

#include "ebb/nn/parameters.h"

namespace ebb::nn {

// One layer after the other: Sequential net{Linear(784, 256), Relu{}, Linear(256, 10)}. Anything that can be called
// with a tensor is a layer, including a lambda. Parameters are named by position, "0.weight", as in PyTorch.
template <class... Layers>
struct Sequential {
  std::tuple<Layers...> layers;

  Sequential(Layers... all) : layers(std::move(all)...) {}

  Tensor operator()(const Tensor& x) const requires(std::is_invocable_v<const Layers&, const Tensor&>&&...) {
    return run(layers, x);
  }
  // Layers that keep statistics change when they are called.
  Tensor operator()(const Tensor& x) { return run(layers, x); }

  template <class V>
  void visit(V&& v) {
    visit_each(v, std::index_sequence_for<Layers...>{});
  }
  template <std::size_t k>
  auto& get() {
    return std::get<k>(layers);
  }

 private:
  template <class Tuple>
  static Tensor run(Tuple& layers, const Tensor& x) {
    Tensor h = x;
    std::apply([&](auto&... layer) { ((h = layer(h)), ...); }, layers);
    return h;
  }
  template <class V, std::size_t... k>
  void visit_each(V& v, std::index_sequence<k...>) {
    (v(std::to_string(k).c_str(), std::get<k>(layers)), ...);
  }
};

}  // namespace ebb::nn
