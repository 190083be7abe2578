// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/optim/optimizer.h"

// Optimisers whose step of an element depends on its whole tensor, so one larger than 16,384 elements takes a sweep for
// the norms (and the moments) and one for the step. Lars and Lamb, for large batches, scale each tensor's step by the
// ratio of the sizes of its weights and its update; where either is 0 the ratio is 1.
namespace ebb {
inline namespace optim {

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

// Momentum made orthogonal (Jordan et al., 2024), for matrices: with b ← momentum·b + (1 − momentum)·g and
// u = (1 − momentum)·g + momentum·b with Nesterov's momentum, else b, all singular values of u become about 1 by
// `iterations` steps of Newton and Schulz:  x = u/‖u‖,  x ← 3.4445·x − 4.775·(x·xᵀ)·x + 2.0315·(x·xᵀ)²·x. The step is
// p ← p − lr·(weight_decay·p + 0.2·√max(rows, columns)·x): as large as one of AdamW (Liu et al., 2025), so one rate
// serves both. Kernels of convolutions count as matrices with a row for each output; parameters with fewer than two
// axes take a step of AdamW with beta1, beta2 and eps.
struct MuonOptions {
  double lr = 1e-3;
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t iterations = 5;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  DecayFilter decays = {};
};
class Muon : public Optimizer {
 public:
  explicit Muon(const MuonOptions& options = {});

 private:
  Tensor update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const override;
  MuonOptions o_;
};

}  // namespace optim
}  // namespace ebb
