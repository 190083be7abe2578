// SPDX-License-Identifier: MIT
#include "ebb/optim/adaptive.h"

#include "optim/describe.h"
#include "optim/moments.h"

namespace ebb::optim {

Adam::Adam(const AdamOptions& o) : Adam("Adam", o, false) {}
Adam::Adam(const char* name, const AdamOptions& o, bool decoupled)
    : Optimizer(name, o.lr, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}), o_(o), decoupled_(decoupled) {
  check_moments(name, o);
}
AdamW::AdamW(const AdamWOptions& o)
    : Adam("AdamW", {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.amsgrad, o.decays}, true) {}

Tensor Adam::update(const std::string& name, const Tensor& parameter, const Tensor& gradient, Slots& slots) const {
  const double decay = decay_of(o_, name, parameter);
  const Tensor g = decoupled_ ? gradient : with_decay(gradient, parameter, decay);
  const Tensor p = decoupled_ && decay != 0 ? parameter * (1 - lr() * decay) : parameter;
  Tensor &m = slots.tensors[0], &v = slots.tensors[1], &largest = slots.tensors[2];
  m = running_average(m, g, o_.beta1);
  v = running_average(v, square(g), o_.beta2);
  if (o_.amsgrad) largest = largest.defined() ? maximum(largest, v) : v;
  // Both corrections are numbers: m̂/(√v̂ + ε) = m/c₁ / (√v/√c₂ + ε).
  const StepNumber c1 = bias_correction(o_.beta1, slots), c2 = bias_correction(o_.beta2, slots);
  return p - (lr() / c1) * (m / (sqrt(o_.amsgrad ? largest : v) * (1.0 / sqrt(c2)) + o_.eps));
}

RAdam::RAdam(const RAdamOptions& o) : Optimizer("RAdam", o.lr, {"exp_avg", "exp_avg_sq"}), o_(o) {
  check_moments(name_, o);
}

Tensor RAdam::update(const std::string& name, const Tensor& parameter, const Tensor& gradient, Slots& slots) const {
  const double decay = decay_of(o_, name, parameter);
  const bool beside = o_.decoupled_weight_decay;
  const Tensor g = beside ? gradient : with_decay(gradient, parameter, decay);
  const Tensor p = beside && decay != 0 ? parameter * (1 - lr() * decay) : parameter;
  Tensor &m = slots.tensors[0], &v = slots.tensors[1];
  m = running_average(m, g, o_.beta1);
  v = running_average(v, square(g), o_.beta2);
  const StepNumber t = StepNumber::of(slots);
  const StepNumber c1 = bias_correction(o_.beta1, slots), c2 = bias_correction(o_.beta2, slots);
  const double end = 2 / (1 - o_.beta2) - 1;
  const StepNumber rho = end - 2.0 * t * pow(o_.beta2, t) / c2;
  if (rho.known() && rho.value() <= 5) return p - (lr() / c1) * m;
  const StepNumber rectified = sqrt((rho - 4.0) * (rho - 2.0) * end / ((end - 4) * (end - 2) * rho));
  const Tensor stepped = p - (lr() / c1 * rectified * sqrt(c2)) * (m / (sqrt(v) + o_.eps));
  return rho.known() ? stepped : where(rho.there() <= 5.0, p - (lr() / c1) * m, stepped);
}

RMSprop::RMSprop(const RMSpropOptions& o)
    : Optimizer("RMSprop", o.lr, {"square_avg", "grad_avg", "momentum_buffer"}), o_(o) {
  require_rate(name_, "alpha", o.alpha);
  require_not_negative(name_, "eps", o.eps);
  require_not_negative(name_, "weight_decay", o.weight_decay);
  require_not_negative(name_, "momentum", o.momentum);
}

Tensor RMSprop::update(const std::string& name, const Tensor& p, const Tensor& gradient, Slots& slots) const {
  const Tensor g = with_decay(gradient, p, decay_of(o_, name, p));
  Tensor &v = slots.tensors[0], &mean = slots.tensors[1], &b = slots.tensors[2];
  v = running_average(v, square(g), o_.alpha);
  Tensor variance = v;
  if (o_.centered) {
    mean = running_average(mean, g, o_.alpha);
    variance = v - square(mean);
  }
  Tensor direction = g / (sqrt(variance) + o_.eps);
  if (o_.momentum > 0) {
    b = b.defined() ? o_.momentum * b + direction : direction;
    direction = b;
  }
  return p - lr() * direction;
}

Adagrad::Adagrad(const AdagradOptions& o) : Optimizer("Adagrad", o.lr, {"sum"}), o_(o) {
  require_not_negative(name_, "lr_decay", o.lr_decay);
  require_not_negative(name_, "eps", o.eps);
  require_not_negative(name_, "weight_decay", o.weight_decay);
  require_not_negative(name_, "initial_accumulator_value", o.initial_accumulator_value);
}

Tensor Adagrad::update(const std::string& name, const Tensor& p, const Tensor& gradient, Slots& slots) const {
  const Tensor g = with_decay(gradient, p, decay_of(o_, name, p));
  Tensor& s = slots.tensors[0];
  s = (s.defined() ? s : full_like(p, o_.initial_accumulator_value)) + square(g);
  const StepNumber rate = lr() / (1.0 + (StepNumber::of(slots) - 1.0) * o_.lr_decay);
  return p - rate * (g / (sqrt(s) + o_.eps));
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, AdamOptions& o) {
  v("lr", o.lr, kRate);
  v("beta1", o.beta1, kBeta1);
  v("beta2", o.beta2, kBeta2);
  v("eps", o.eps, kEps);
  v("weight_decay", o.weight_decay, kDecay);
  v("amsgrad", o.amsgrad, "divides by the largest average of squares so far");
  v.only_in_cpp(o.decays);
}

template <class V>
void each_option(V& v, AdamWOptions& o) {
  v("lr", o.lr, kRate);
  v("beta1", o.beta1, kBeta1);
  v("beta2", o.beta2, kBeta2);
  v("eps", o.eps, kEps);
  v("weight_decay", o.weight_decay, kDecay);
  v("amsgrad", o.amsgrad, "divides by the largest average of squares so far");
  v.only_in_cpp(o.decays);
}

template <class V>
void each_option(V& v, RAdamOptions& o) {
  v("lr", o.lr, kRate);
  v("beta1", o.beta1, kBeta1);
  v("beta2", o.beta2, kBeta2);
  v("eps", o.eps, kEps);
  v("weight_decay", o.weight_decay, kDecay);
  v("decoupled_weight_decay", o.decoupled_weight_decay, "the decay is beside the gradient, as in AdamW");
  v.only_in_cpp(o.decays);
}

template <class V>
void each_option(V& v, RMSpropOptions& o) {
  v("lr", o.lr, kRate);
  v("alpha", o.alpha, "how much of the average squared gradient stays at each step");
  v("eps", o.eps, kEps);
  v("weight_decay", o.weight_decay, kDecay);
  v("momentum", o.momentum, kMomentum);
  v("centered", o.centered, "divides by the standard deviation instead of the size");
  v.only_in_cpp(o.decays);
}

template <class V>
void each_option(V& v, AdagradOptions& o) {
  v("lr", o.lr, kRate);
  v("lr_decay", o.lr_decay, "how fast the rate falls with the steps");
  v("weight_decay", o.weight_decay, kDecay);
  v("initial_accumulator_value", o.initial_accumulator_value, "what the sum of squares starts from");
  v("eps", o.eps, kEps);
  v.only_in_cpp(o.decays);
}

std::vector<OptimizerInfo> adaptive_entries() {
  return {
      describe<AdamW, AdamWOptions>("adamw", "AdamW", "p ← p − lr·weight_decay·p − lr·m̂/(√v̂ + ε)"),
      describe<Adam, AdamOptions>("adam", "Adam", "p ← p − lr·m̂/(√v̂ + ε), with weight_decay·p in g"),
      describe<RAdam, RAdamOptions>("radam", "RAdam", "Adam, rectified while v̂ is known badly"),
      describe<RMSprop, RMSpropOptions>("rmsprop", "RMSprop", "p ← p − lr·g/(√v + ε), with momentum"),
      describe<Adagrad, AdagradOptions>("adagrad", "Adagrad", "p ← p − lr·g/(√Σg² + ε)"),
  };
}

}  // namespace ebb::optim
