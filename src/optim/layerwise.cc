#include "ebb/optim/layerwise.h"

#include "optim/describe.h"
#include "optim/moments.h"

namespace ebb {
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
  const Tensor u = with_decay(adam_direction(m, v, o_, slots.step), p, decay_of(o_, name, p));
  return p - (lr() * trust_ratio(norm(p), norm(u))) * u;
}

// ---- as the registry has them ---------------------------------------------------------------------------------------

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

std::vector<OptimizerInfo> layerwise_entries() {
  return {
      describe<Lars, LarsOptions>("lars", "Lars", "Sgd with momentum, scaled by ‖p‖/‖g‖"),
      describe<Lamb, LambOptions>("lamb", "Lamb", "Adam, scaled by ‖p‖/‖u‖"),
  };
}

}  // namespace ebb
