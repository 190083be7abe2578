// SPDX-License-Identifier: MIT
#include "ebb/losses/robust.h"

#include <cmath>
#include <numbers>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "losses/describe.h"
#include "losses/difference.h"
#include "losses/gradients.h"
#include "losses/one_pass.h"

namespace ebb {
// Pinball, or quantile loss.    d < 0: −q·d,   d >= 0: (1 − q)·d,   with gradient 0 at d = 0
Tensor pinball_loss(const Tensor& input, const Tensor& target, const PinballOptions& o) {
  const char* op = "pinball_loss";
  require(o.quantile >= 0 && o.quantile <= 1, "{}: quantile must be in [0, 1], got {}", op, o.quantile);
  auto slope = [q = o.quantile](const Tensor& d) { return where(d < 0, -q * ones({}, d.dtype()), 1 - q); };
  return of_difference(op, input, target, {}, o.reduction, [&](const Tensor& difference) {
    return custom_function([slope](const std::vector<Tensor>& v) { return slope(v[0]) * v[0]; },
                           [slope](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
                             return std::vector<Tensor>{where(v[0] == 0, 0, slope(v[0]) * grad)};
                           },
                           {difference});
  });
}
LossGradients pinball_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                    const PinballOptions& o) {
  return gradients("pinball_loss", pinball_loss, grad, input, target, o);
}

namespace {

// −|tanh d| from m = e^(−2|d|) − 1, which the logarithm needs anyway: m/(2 + m).    (tanh d)' = 1 − tanh² d
Tensor minus_tanh_of_size(const Tensor& m) { return m / (2 + m); }
Tensor m_of(const Tensor& d) { return expm1(-2 * abs(d)); }

}  // namespace

// log cosh d = −log(1 − tanh² d)/2, which keeps its digits near 0, = |d| + log(1 + e^(−2|d|)) − log 2, which does not
// overflow. Its derivative is tanh d.
Tensor log_cosh_loss(const Tensor& input, const Tensor& target, const LogCoshOptions& o) {
  return of_difference("log_cosh_loss", input, target, {}, o.reduction, [](const Tensor& difference) {
    using Tensors = std::vector<Tensor>;
    return custom_function(
        [](const Tensors& v) {
          const Tensor size = abs(v[0]), near = size < 1, m = m_of(v[0]);
          const Tensor logarithm = log1p(where(near, -square(minus_tanh_of_size(m)), 1 + m));
          return where(near, -0.5 * logarithm, (size - std::numbers::ln2) + logarithm);
        },
        [](const Tensor& grad, const Tensor&, const Tensors& v) {
          return Tensors{differentiated_as(
              [](const Tensors& g) { return g[0] * tanh(g[1]); },
              [](const Tensors& g) { return where(g[1] < 0, g[0], -g[0]) * minus_tanh_of_size(m_of(g[1])); },
              {grad, v[0]})};
        },
        {difference});
  });
}
LossGradients log_cosh_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                     const LogCoshOptions& o) {
  return gradients("log_cosh_loss", log_cosh_loss, grad, input, target, o);
}

// Wing (Feng et al., 2018).    |d| < w: w·log(1 + |d|/ε),  else |d| − c.    derivative sign d·w/(ε + |d|), sign d
Tensor wing_loss(const Tensor& input, const Tensor& target, const WingOptions& o) {
  const char* op = "wing_loss";
  require(o.width > 0, "{}: width must be positive, got {}", op, o.width);
  require(o.curvature > 0, "{}: curvature must be positive, got {}", op, o.curvature);
  const double offset = o.width - o.width * std::log1p(o.width / o.curvature);
  return of_difference(op, input, target, {}, o.reduction, [&](const Tensor& difference) {
    return custom_function(
        [w = o.width, e = o.curvature, offset](const std::vector<Tensor>& v) {
          const Tensor a = abs(v[0]);
          return where(a < w, w * log1p(a * (1 / e)), a - offset);
        },
        [w = o.width, e = o.curvature](const Tensor& grad, const Tensor&, const std::vector<Tensor>& v) {
          const Tensor a = abs(v[0]);
          return std::vector<Tensor>{(grad * sign(v[0])) * where(a < w, w / (a + e), 1)};
        },
        {difference});
  });
}
LossGradients wing_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const WingOptions& o) {
  return gradients("wing_loss", wing_loss, grad, input, target, o);
}

// ---- for the registry -----------------------------------------------------------------------------------------------

template <class V>
void each_option(V& v, PinballOptions& o) {
  v("quantile", o.quantile, "the share of targets that should lie below the prediction");
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, LogCoshOptions& o) {
  v("reduction", o.reduction);
}

template <class V>
void each_option(V& v, WingOptions& o) {
  v("width", o.width, "where the logarithm becomes a line");
  v("curvature", o.curvature, "how sharply the logarithm bends");
  v("reduction", o.reduction);
}

std::vector<LossInfo> robust_entries() {
  return {
      describe("pinball_loss", "robust", "max(q·(t − x), (q − 1)·(t − x))", {{"input"}, {"target"}}, pinball_loss),
      describe("log_cosh_loss", "robust", "log cosh(x − t)", {{"input"}, {"target"}}, log_cosh_loss),
      describe("wing_loss", "robust", "|d| < w: w·log(1 + |d|/c), else |d| − w + w·log(1 + w/c);  d = x − t",
               {{"input"}, {"target"}}, wing_loss),
  };
}

}  // namespace ebb
