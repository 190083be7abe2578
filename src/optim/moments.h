// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ebb/optim/optimizer.h"

// Pieces that several optimisers share.
namespace ebb::optim {

// beta·average + (1 − beta)·x, where an undefined average counts as zero.
inline Tensor running_average(const Tensor& average, const Tensor& x, double beta) {
  return average.defined() ? beta * average + (1 - beta) * x : (1 - beta) * x;
}

// A number that changes with the step. The host knows it, unless only the device knows how many steps were taken: then
// it is one number there, in f64, and multiplies tensors in their own dtype.
class StepNumber {
 public:
  StepNumber(double x) : known_(x) {}
  explicit StepNumber(Tensor x) : there_(std::move(x)) {}
  // Number of a parameter's step, from 1.
  template <class Slots>
  static StepNumber of(const Slots& slots) {
    return slots.count.defined() ? StepNumber(slots.count) : StepNumber(static_cast<double>(slots.step));
  }
  bool known() const { return !there_.defined(); }
  double value() const { return known_; }
  const Tensor& there() const { return there_; }

  friend StepNumber operator+(const StepNumber& a, const StepNumber& b) {
    return made(a, b, [](const auto& x, const auto& y) { return x + y; });
  }
  friend StepNumber operator-(const StepNumber& a, const StepNumber& b) {
    return made(a, b, [](const auto& x, const auto& y) { return x - y; });
  }
  friend StepNumber operator*(const StepNumber& a, const StepNumber& b) {
    return made(a, b, [](const auto& x, const auto& y) { return x * y; });
  }
  friend StepNumber operator/(const StepNumber& a, const StepNumber& b) {
    return made(a, b, [](const auto& x, const auto& y) { return x / y; });
  }
  friend StepNumber pow(double base, const StepNumber& e) {
    return e.known() ? StepNumber(std::pow(base, e.known_)) : StepNumber(ebb::pow(base, e.there_));
  }
  friend StepNumber sqrt(const StepNumber& x) {
    return x.known() ? StepNumber(std::sqrt(x.known_)) : StepNumber(ebb::sqrt(x.there_));
  }
  friend Tensor operator*(const StepNumber& a, const Tensor& x) {
    return a.known() ? a.known_ * x : cast(a.there_, x.dtype()) * x;
  }
  friend Tensor operator*(const Tensor& x, const StepNumber& a) {
    return a.known() ? x * a.known_ : x * cast(a.there_, x.dtype());
  }

 private:
  template <class F>
  static StepNumber made(const StepNumber& a, const StepNumber& b, F f) {
    if (a.known() && b.known()) return StepNumber(f(a.known_, b.known_));
    if (a.known()) return StepNumber(f(a.known_, b.there_));
    return b.known() ? StepNumber(f(a.there_, b.known_)) : StepNumber(f(a.there_, b.there_));
  }
  double known_ = 0;
  Tensor there_;
};

// 1 − betaᵗ: total weight so far of a running average that began at zero.
template <class Slots>
StepNumber bias_correction(double beta, const Slots& slots) {
  return 1.0 - pow(beta, StepNumber::of(slots));
}

// The weight decay of this parameter.
template <class Options>
double decay_of(const Options& o, const std::string& name, const Tensor& p) {
  return !o.decays || o.decays(name, p) ? o.weight_decay : 0;
}
inline Tensor with_decay(const Tensor& g, const Tensor& p, double decay) { return decay == 0 ? g : g + decay * p; }

inline void require_rate(const char* op, const char* what, double value) {
  require(value >= 0 && value < 1, "{}: {} must be in [0, 1), got {}", op, what, value);
}
inline void require_not_negative(const char* op, const char* what, double value) {
  require(value >= 0, "{}: {} must not be negative, got {}", op, what, value);
}
// For optimisers with Adam's moments.
template <class Options>
void check_moments(const char* op, const Options& o) {
  require_rate(op, "beta1", o.beta1);
  require_rate(op, "beta2", o.beta2);
  require_not_negative(op, "eps", o.eps);
  require_not_negative(op, "weight_decay", o.weight_decay);
}

// m̂/(√v̂ + ε)
template <class Options, class Slots>
Tensor adam_direction(const Tensor& m, const Tensor& v, const Options& o, const Slots& slots) {
  const StepNumber c1 = bias_correction(o.beta1, slots), c2 = bias_correction(o.beta2, slots);
  return (m * (1.0 / c1)) / (sqrt(v * (1.0 / c2)) + o.eps);
}

}  // namespace ebb::optim
