#pragma once
#include "ebb/optim/optimizer.h"

// Optimisers for large batches: each tensor's step is scaled by the ratio of the norms of its weights and its update.
// Where either is 0 the ratio is 1. The norms are over a whole tensor, so one larger than 16,384 elements takes a sweep
// for the norms (and the moments) and one for the step.
namespace ebb {

// You, Gitman and Ginsburg, 2017: λ = trust_coefficient·‖p‖ / (‖g‖ + weight_decay·‖p‖ + eps),
// b ← momentum·b + lr·λ·(g + weight_decay·p),  p ← p − b.
struct LarsOptions {
  double lr = 1e-1;
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 1e-3;
  double eps = 0;
  DecayFilter decays = {};
};
class Lars : public Optimizer {
 public:
  explicit Lars(const LarsOptions& options = {});

 private:
  Tensor update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const override;
  LarsOptions o_;
};

// You et al., 2020: u = m̂/(√v̂ + eps) + weight_decay·p with Adam's m̂ and v̂,  p ← p − lr·(‖p‖/‖u‖)·u.
struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 1e-2;
  DecayFilter decays = {};
};
class Lamb : public Optimizer {
 public:
  explicit Lamb(const LambOptions& options = {});

 private:
  Tensor update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const override;
  LambOptions o_;
};

}  // namespace ebb
