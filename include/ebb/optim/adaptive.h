// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/optim/optimizer.h"

// Optimisers that divide by a running magnitude of the gradient. Formulas and defaults are those of torch.optim.
namespace ebb {
inline namespace optim {

// m ← β₁·m + (1 − β₁)·g,  v ← β₂·v + (1 − β₂)·g²,  p ← p − lr·m̂ / (√v̂ + eps), where m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ).
// Adam adds weight_decay·p to g. amsgrad divides by the largest v so far.
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  DecayFilter decays = {};
};
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
  bool elementwise() const override { return true; }

 protected:
  Adam(const char* name, const AdamOptions& options, bool decoupled);

 private:
  Tensor update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const override;
  AdamOptions o_;
  bool decoupled_;
};

// Adam with weight decay decoupled from the gradient (Loshchilov and Hutter, 2019): first p ← p − lr·weight_decay·p.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  DecayFilter decays = {};
};
class AdamW : public Adam {
 public:
  explicit AdamW(const AdamWOptions& options = {});
};

// Adam with its variance rectified (Liu et al., 2020): with ρ∞ = 2/(1 − β₂) − 1 and ρ = ρ∞ − 2t·β₂ᵗ/(1 − β₂ᵗ), steps
// are plain lr·m̂ while ρ ≤ 5, and rectified by √((ρ−4)(ρ−2)ρ∞ / ((ρ∞−4)(ρ∞−2)ρ)) afterwards.
struct RAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  DecayFilter decays = {};
};
class RAdam : public Optimizer {
 public:
  explicit RAdam(const RAdamOptions& options = {});
  bool elementwise() const override { return true; }

 private:
  Tensor update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const override;
  RAdamOptions o_;
};

// v ← α·v + (1 − α)·g²,  p ← p − lr·g/(√v + eps); centered subtracts the square of a running mean of g from v, momentum
// b ← momentum·b + g/(√v + eps), p ← p − lr·b.
struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  DecayFilter decays = {};
};
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(const RMSpropOptions& options = {});
  bool elementwise() const override { return true; }

 private:
  Tensor update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const override;
  RMSpropOptions o_;
};

// s ← s + g²,  p ← p − lr/(1 + (t − 1)·lr_decay)·g/(√s + eps).
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  DecayFilter decays = {};
};
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const AdagradOptions& options = {});
  bool elementwise() const override { return true; }

 private:
  Tensor update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const override;
  AdagradOptions o_;
};

}  // namespace optim
}  // namespace ebb
