// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/optim/optimizer.h"

namespace ebb {
inline namespace optim {

// g ← g + weight_decay·p,  b ← momentum·b + (1 − dampening)·g (the first b is g),  p ← p − lr·b, or with Nesterov's
// momentum p ← p − lr·(g + momentum·b).
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  DecayFilter decays = {};
};
class Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options = {});
  void set_momentum(double momentum);  // for one-cycle schedules
  bool elementwise() const override { return true; }

 private:
  Tensor update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const override;
  SgdOptions o_;
};

// The sign of an interpolated momentum (Chen et al., 2023): p ← p − lr·(sign(β₁·m + (1 − β₁)·g) + weight_decay·p),
// m ← β₂·m + (1 − β₂)·g.
struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  DecayFilter decays = {};
};
class Lion : public Optimizer {
 public:
  explicit Lion(const LionOptions& options = {});
  bool elementwise() const override { return true; }

 private:
  Tensor update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const override;
  LionOptions o_;
};

}  // namespace optim
}  // namespace ebb
