// SPDX-License-Identifier: MIT
#include "ebb/optim/layerwise.h"

#include "optim/describe.h"
#include "optim/moments.h"

namespace ebb::optim {
namespace {

// weights/update where both are positive, 1 elsewhere.
Tensor trust_ratio(const Tensor& weights, const Tensor& update) {
  return where(logical_and(weights > 0.0, update > 0.0), weights / update, 1.0);
}

}  // namespace

Lars::Lars(const LarsOptions& o) : Optimizer("Lars", o.lr, {"momentum_buffer"}), o_(o) {
  require_not_negative(name_, "momentum", o.momentum);
  require_not_negative(name_, "weight_decay", o.weight_decay);
  require_not_negative(name_, "trust_coefficient", o.trust_coefficient);
}

Tensor Lars::update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const {
  const double decay = decay_of(o_, name, p);
  const Tensor weights = norm(p), gradients = norm(g);
  const Tensor local = where(logical_and(weights > 0.0, gradients > 0.0),
                             o_.trust_coefficient * weights / (gradients + decay * weights + o_.eps), 1.0);
  const Tensor now = (lr() * local) * with_decay(g, p, decay);
  Tensor& b = slots.tensors[0];
  b = b.defined() ? o_.momentum * b + now : now;
  return p - b;
}

Lamb::Lamb(const LambOptions& o) : Optimizer("Lamb", o.lr, {"exp_avg", "exp_avg_sq"}), o_(o) {
  check_moments(name_, o);
}

Tensor Lamb::update(const std::string& name, const Tensor& p, const Tensor& g, Slots& slots) const {
  Tensor &m = slots.tensors[0], &v = slots.tensors[1];
  m = running_average(m, g, o_.beta1);
  v = running_average(v, square(g), o_.beta2);
  const Tensor u = with_decay(adam_direction(m, v, o_, slots), p, decay_of(o_, name, p));
  return p - (lr() * trust_ratio(norm(p), norm(u))) * u;
}

namespace {

// A matrix with the singular vectors of u, and singular values between 0.7 and 1.2. The smaller side is multiplied.
Tensor orthogonalized(const Tensor& u, std::int64_t iterations) {
  const bool tall = u.size(0) > u.size(1);
  Tensor x = tall ? t(u) : u;
  x = x / (norm(x) + 1e-7);
  for (std::int64_t k = 0; k < iterations; ++k) {
    const Tensor a = matmul(x, t(x));
    x = 3.4445 * x + matmul(2.0315 * matmul(a, a) - 4.775 * a, x);
  }
  return tall ? t(x) : x;
}

}  // namespace

Muon::Muon(const MuonOptions& o) : Optimizer("Muon", o.lr, {"momentum_buffer", "exp_avg", "exp_avg_sq"}), o_(o) {
  require_rate(name_, "momentum", o.momentum);
  require(o.iterations >= 1, "{}: iterations must be at least 1, got {}", name_, o.iterations);
  check_moments(name_, o);
}

Tensor Muon::update(const std::string& name, const Tensor& parameter, const Tensor& g, Slots& slots) const {
  const double decay = decay_of(o_, name, parameter);
  Tensor p = decay != 0 ? parameter * (1 - lr() * decay) : parameter;
  Tensor &b = slots.tensors[0], &m = slots.tensors[1], &v = slots.tensors[2];
  if (p.rank() < 2) {
    m = running_average(m, g, o_.beta1);
    v = running_average(v, square(g), o_.beta2);
    return p - lr() * adam_direction(m, v, o_, slots);
  }
  b = running_average(b, g, o_.momentum);
  const Tensor u = o_.nesterov ? running_average(b, g, o_.momentum) : b;
  const std::int64_t rows = p.size(0), columns = p.numel() / std::max<std::int64_t>(rows, 1);
  if (p.numel() == 0) return p;
  const Tensor x = reshape(orthogonalized(reshape(u, {rows, columns}), o_.iterations), Sizes(p.shape()));
  return p - (lr() * 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)))) * x;
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, LarsOptions& o) {
  v("lr", o.lr, kRate);
  v("momentum", o.momentum, kMomentum);
  v("weight_decay", o.weight_decay, kDecay);
  v("trust_coefficient", o.trust_coefficient, "how far a tensor may move for its size");
  v("eps", o.eps, kEps);
  v.only_in_cpp(o.decays);
}

template <class V>
void each_option(V& v, LambOptions& o) {
  v("lr", o.lr, kRate);
  v("beta1", o.beta1, kBeta1);
  v("beta2", o.beta2, kBeta2);
  v("eps", o.eps, kEps);
  v("weight_decay", o.weight_decay, kDecay);
  v.only_in_cpp(o.decays);
}

template <class V>
void each_option(V& v, MuonOptions& o) {
  v("lr", o.lr, kRate);
  v("momentum", o.momentum, kMomentum);
  v("nesterov", o.nesterov, "steps from where the momentum would lead");
  v("iterations", o.iterations, "steps of Newton and Schulz");
  v("weight_decay", o.weight_decay, kDecay);
  v("beta1", o.beta1, "of AdamW, for parameters with fewer than two axes");
  v("beta2", o.beta2, "of AdamW, for parameters with fewer than two axes");
  v("eps", o.eps, "of AdamW, for parameters with fewer than two axes");
  v.only_in_cpp(o.decays);
}

std::vector<OptimizerInfo> layerwise_entries() {
  return {
      describe<Lars, LarsOptions>("lars", "Lars", "Sgd with momentum, scaled by ‖p‖/‖g‖"),
      describe<Lamb, LambOptions>("lamb", "Lamb", "Adam, scaled by ‖p‖/‖u‖"),
      describe<Muon, MuonOptions>("muon", "Muon",
                                  "p ← p − lr·(weight_decay·p + 0.2·√max(rows, columns)·orthogonal(b))"),
  };
}

}  // namespace ebb::optim
