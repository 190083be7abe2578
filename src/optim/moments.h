#pragma once
#include <cmath>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ebb/optim/optimizer.h"

// Pieces that several optimisers share.
namespace ebb {

// beta·average + (1 − beta)·x, where an average that does not exist yet is zero.
inline Tensor running_average(const Tensor& average, const Tensor& x, double beta) {
  return average.defined() ? beta * average + (1 - beta) * x : (1 - beta) * x;
}

// 1 − betaᵗ: what a running average that began at zero has seen so far.
inline double bias_correction(double beta, std::int64_t t) { return 1 - std::pow(beta, static_cast<double>(t)); }

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
// Of optimisers with Adam's moments.
template <class Options>
void check_moments(const char* op, const Options& o) {
  require_rate(op, "beta1", o.beta1);
  require_rate(op, "beta2", o.beta2);
  require_not_negative(op, "eps", o.eps);
  require_not_negative(op, "weight_decay", o.weight_decay);
}

// m̂/(√v̂ + ε)
template <class Options>
Tensor adam_direction(const Tensor& m, const Tensor& v, const Options& o, std::int64_t step) {
  const double c1 = bias_correction(o.beta1, step), c2 = bias_correction(o.beta2, step);
  return (m * (1 / c1)) / (sqrt(v * (1 / c2)) + o.eps);
}

}  // namespace ebb
