// SPDX-License-Identifier: MIT
#pragma once
#include "autograd/engine.h"
#include "ebb/ops/create.h"
#include "graph/history.h"

namespace ebb {

// One level of differentiation: its inputs carry the level's bit while it is open.
class GradientLevel {
 public:
  GradientLevel() : depth_(open_transform()) {}
  ~GradientLevel() { close_transform(); }
  GradientLevel(const GradientLevel&) = delete;
  std::uint32_t bit() const { return 1u << depth_; }

  Tensor track(const Tensor& x) const {
    Tensor t = make_node(Op::track, x.dtype(), x.shape(), {x});
    t.node()->history = x.node()->history | bit();
    return t;
  }

  // May an outer level or a variable need what is computed from t?
  bool is_differentiated(const Tensor& t) const { return (t.node()->history & active_history() & ~bit()) != 0; }

  // Cotangents of tracked inputs, undefined where y does not depend on one. Their graph is itself tracked only if an
  // outer level or a variable may need it.
  std::vector<Tensor> cotangents(const Tensor& y, const Tensor& g, const std::vector<Tensor>& inputs,
                                 bool track_result = false) const {
    const bool outer = track_result || is_differentiated(y) || is_differentiated(g);
    NoHistory off(!outer);
    ReversePass pass;
    pass.outputs = {y};
    pass.cotangents = {g};
    pass.targets = inputs;
    pass.bits = bit();
    return reverse(pass);
  }

  // The same, with zeros where y does not depend on an input.
  std::vector<Tensor> pull(const Tensor& y, const Tensor& g, const std::vector<Tensor>& inputs,
                           bool track_result = false) const {
    std::vector<Tensor> out = cotangents(y, g, inputs, track_result);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = beside(out[i].defined() ? out[i] : zeros_like(inputs[i]), inputs[i]);
    }
    return out;
  }

 private:
  int depth_;
};

}  // namespace ebb
