// SPDX-License-Identifier: MIT
#include "ebb/optim/sgd.h"

#include "optim/describe.h"
#include "optim/moments.h"

namespace ebb::optim {

Sgd::Sgd(const SgdOptions& o) : Optimizer("Sgd", o.lr, {"momentum_buffer"}), o_(o) {
  require_not_negative(name_, "momentum", o.momentum);
  require_not_negative(name_, "weight_decay", o.weight_decay);
  require(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
          "Sgd: Nesterov's momentum needs a momentum above 0 and no dampening, got {} and {}", o.momentum, o.dampening);
}

void Sgd::set_momentum(double momentum) {
  require_not_negative(name_, "momentum", momentum);
  o_.momentum = momentum;
}

Tensor Sgd::update(const std::string& name, const Tensor& p, const Tensor& gradient, Slots& slots) const {
  const Tensor g = with_decay(gradient, p, decay_of(o_, name, p));
  if (o_.momentum == 0) return p - lr() * g;
  Tensor& b = slots.tensors[0];
  b = b.defined() ? o_.momentum * b + (1 - o_.dampening) * g : g;
  return p - lr() * (o_.nesterov ? g + o_.momentum * b : b);
}

Lion::Lion(const LionOptions& o) : Optimizer("Lion", o.lr, {"exp_avg"}), o_(o) {
  require_rate(name_, "beta1", o.beta1);
  require_rate(name_, "beta2", o.beta2);
  require_not_negative(name_, "weight_decay", o.weight_decay);
}

Tensor Lion::update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const {
  Tensor& m = slots.tensors[0];
  const Tensor direction = with_decay(sign(running_average(m, g, o_.beta1)), p, decay_of(o_, name, p));
  m = running_average(m, g, o_.beta2);
  return p - lr() * direction;
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, SgdOptions& o) {
  v("lr", o.lr, kRate);
  v("momentum", o.momentum, kMomentum);
  v("dampening", o.dampening, "how much of a gradient the momentum leaves out");
  v("weight_decay", o.weight_decay, kDecay);
  v("nesterov", o.nesterov, "steps from where the momentum would lead");
  v.only_in_cpp(o.decays);
}

template <class V>
void each_option(V& v, LionOptions& o) {
  v("lr", o.lr, kRate);
  v("beta1", o.beta1, "how much of the momentum is in the direction");
  v("beta2", o.beta2, "how much of the momentum stays at each step");
  v("weight_decay", o.weight_decay, kDecay);
  v.only_in_cpp(o.decays);
}

std::vector<OptimizerInfo> sgd_entries() {
  return {
      describe<Sgd, SgdOptions>("sgd", "Sgd", "p ← p − lr·b,  b ← momentum·b + g"),
      describe<Lion, LionOptions>("lion", "Lion", "p ← p − lr·(sign(β₁·m + (1 − β₁)·g) + weight_decay·p)"),
  };
}

}  // namespace ebb::optim
