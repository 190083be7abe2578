// SPDX-License-Identifier: MIT
#include "ebb/optim/gradients.h"

#include <cmath>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"
#include "ops/piece_norms.h"

namespace ebb::optim {
namespace {

template <class F>
Gradients each_gradient(const Gradients& gradients, F f) {
  std::vector<std::pair<Tensor, Tensor>> out;
  out.reserve(gradients.all().size());
  for (const auto& [v, g] : gradients.all()) out.emplace_back(v, f(g));
  return Gradients(std::move(out));
}

}  // namespace

Gradients scale_gradients(const Gradients& gradients, double factor) {
  return each_gradient(gradients, [&](const Tensor& g) { return g * factor; });
}

Tensor global_norm(const Gradients& gradients, double p) {
  std::vector<Tensor> norms;
  for (const auto& [v, g] : gradients.all()) norms.push_back(piece_norms(widen(g), p));
  if (norms.empty()) return zeros({});
  DType dtype = norms[0].dtype();
  for (const Tensor& n : norms) dtype = promote(dtype, n.dtype());
  for (Tensor& n : norms) n = cast(n, dtype);
  return norm(cat(norms), p);
}

ClippedGradients clip_by_norm(const Gradients& gradients, double max_norm, double p) {
  require(max_norm > 0, "clip_by_norm: max_norm must be positive, got {}", max_norm);
  const Tensor total = global_norm(gradients, p);
  const Tensor factor = clamp(max_norm / (total + 1e-6), {}, 1.0);
  return {each_gradient(gradients, [&](const Tensor& g) { return cast(widen(g) * factor, g.dtype()); }), total};
}

Gradients clip_by_value(const Gradients& gradients, double limit) {
  require(limit > 0, "clip_by_value: the limit must be positive, got {}", limit);
  return each_gradient(gradients, [&](const Tensor& g) { return clamp(g, -limit, limit); });
}

void GradientAccumulator::add(const Gradients& gradients) {
  std::vector<Tensor> now;
  for (const auto& [v, g] : gradients.all()) {
    auto s = sums_.begin();
    while (s != sums_.end() && s->first.node() != v.node()) ++s;
    if (s == sums_.end()) {
      sums_.emplace_back(v, widen(g));
      now.push_back(sums_.back().second);
    } else {
      s->second = s->second + widen(g);
      now.push_back(s->second);
    }
  }
  eval(now);
  ++count_;
}

Gradients GradientAccumulator::take_sum() {
  require(count_ > 0, "GradientAccumulator: nothing was added since the last time the gradients were taken");
  count_ = 0;
  return Gradients(std::exchange(sums_, {}));
}

Gradients GradientAccumulator::take_mean() {
  const double n = count_;
  return scale_gradients(take_sum(), 1 / n);
}

WeightEma::WeightEma(double decay) : decay_(decay) {
  require(decay >= 0 && decay < 1, "WeightEma: decay must be in [0, 1), got {}", decay);
}

void WeightEma::update_all(const Parameters& parameters) {
  NoHistory scope;
  std::vector<Tensor> now;
  for (const Parameter& p : parameters) {
    Tensor& average = average_[p.name];
    const Tensor value = widen(stop_gradient(*p.tensor));
    average = average.defined() ? decay_ * average + (1 - decay_) * value : value;
    now.push_back(average);
  }
  eval(now);
}

void WeightEma::assign(const Parameters& parameters) const {
  for (const Parameter& p : parameters) {
    const auto found = average_.find(p.name);
    require(found != average_.end(), "WeightEma: there is no average of {}; call update(model) first", p.name);
    *p.tensor = variable(cast(found->second, p.tensor->dtype()));
  }
}

}  // namespace ebb::optim
