// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <numbers>

#include "autograd/one_input.h"
#include "autograd/rules.h"
#include "core/format_error.h"
#include "ebb/backward/activation.h"
#include "ebb/ops/reduce.h"
#include "ebb/ops/shape.h"
#include "ops/build.h"

// Gradient rules of the activations. g is the cotangent of the result y = f(x).
namespace ebb {
namespace {

using Cotangents = std::vector<Tensor>;

// 0 where x is on a flat piece, else the cotangent.
Tensor pieces(const char* op, const Tensor& grad, const Tensor& x, const Tensor& flat) {
  require_cotangent(op, grad, x.shape());
  return cotangent(where(flat, 0, grad), x);
}

// x where it is not positive, 0 elsewhere: its exponentials do not overflow where they are not selected. A minimum
// would halve the derivative at 0.
Tensor nonpositive(const Tensor& x) { return where(x > 0, 0, x); }

}  // namespace

// ---- sigmoid and its logarithms -------------------------------------------------------------------------------------

// σ' = σ·(1 − σ)      log σ(x)' = σ(−x)      softplus' = σ(β·x)
Tensor sigmoid_backward(const Tensor& grad, const Tensor& y) {
  return one("sigmoid_backward", grad, y, [](auto& g, auto& y) { return g * (y * (1 - y)); });
}
Tensor log_sigmoid_backward(const Tensor& grad, const Tensor& x) {
  return one("log_sigmoid_backward", grad, x, [](auto& g, auto& x) { return g * sigmoid(-x); });
}
Tensor softplus_backward(const Tensor& grad, const Tensor& x, TensorOrScalar beta) {
  const bool plain = !beta.is_tensor() && beta.scalar().real() == 1;
  return one("softplus_backward", grad, x, [&](auto& g, auto& x) { return g * sigmoid(plain ? x : x * beta); });
}

// log(x/(1 − x))' = 1/x + 1/(1 − x); a constant outside [eps, 1 − eps] when clamped there
Tensor logit_backward(const Tensor& grad, const Tensor& x, TensorOrScalar eps) {
  return one("logit_backward", grad, x, [&](auto& g, auto& x) {
    const bool clamped = eps.given();
    const Tensor least = operand("logit_backward", clamped ? eps : 0.0, promote_real(x.dtype()), Shape{});
    const Tensor inside = logical_and(x >= least, x <= 1 - least);
    const Tensor p = where(inside, x, 0.5);
    return where(inside, g / p + g / (1 - p), clamped ? 0.0 : std::numeric_limits<double>::quiet_NaN());
  });
}

// ---- piecewise linear: g times the slope of the piece. NaN counts as the last piece
// -----------------------------------

// x <= 0: 0, else 1
Tensor relu_backward(const Tensor& grad, const Tensor& x) { return pieces("relu_backward", grad, x, x <= 0); }

// x > 0: 1, else the slope, also at 0
Tensor leaky_relu_backward(const Tensor& grad, const Tensor& x, TensorOrScalar negative_slope) {
  return one("leaky_relu_backward", grad, x, [&](auto& g, auto& x) { return where(x > 0, g, g * negative_slope); });
}

// dx as above; dw = g·x where x <= 0, summed to the shape of w
namespace {
Tensor prelu_dx(const Tensor& grad, const Tensor& x, const Tensor& weight) {
  const auto [g, w] = widened(grad, weight);
  return cotangent(where(x > 0, g, g * w), x);
}
Tensor prelu_dw(const Tensor& grad, const Tensor& x, const Tensor& weight) {
  const auto [g, v] = widened(grad, x);
  Tensor terms = where(v > 0, 0, g * v);
  // One row per sample and channel first: channels alone are too few for a GPU.
  std::vector<std::int64_t> behind;
  for (int d = 2; d < x.rank(); ++d) behind.push_back(d);
  if (weight.numel() > 1 && !behind.empty()) terms = sum(terms, behind, true);
  return cotangent(terms, weight);
}
}  // namespace
TensorPair prelu_backward(const Tensor& grad, const Tensor& x, const Tensor& weight) {
  require_cotangent("prelu_backward", grad, x.shape());
  const Tensor w = slopes_along_channels(x, weight);
  return {prelu_dx(grad, x, w), reshape(prelu_dw(grad, x, w), weight.shape())};
}

// 1 strictly between the bounds, 0 at and beyond them
Tensor hardtanh_backward(const Tensor& grad, const Tensor& x, TensorOrScalar min_val, TensorOrScalar max_val) {
  const Tensor v = widen(x);  // the bounds have the precision of the formula
  return pieces("hardtanh_backward", grad, x, logical_or(v <= min_val, v >= max_val));
}
Tensor relu6_backward(const Tensor& grad, const Tensor& x) { return hardtanh_backward(grad, x, 0, 6); }

// 1/6 strictly between −3 and 3
Tensor hardsigmoid_backward(const Tensor& grad, const Tensor& x) {
  return one("hardsigmoid_backward", grad, x,
             [](auto& g, auto& x) { return where(logical_or(x <= -3, x >= 3), 0, g * (1.0 / 6)); });
}

// x·(x + 3)/6 between −3 and 3: x/3 + 1/2; 0 below, 1 above
Tensor hardswish_backward(const Tensor& grad, const Tensor& x) {
  return one("hardswish_backward", grad, x, [](auto& g, auto& x) {
    const Tensor middle = where(abs(x) < 3, x, 0);
    return where(x <= -3, 0, where(x >= 3, g, g * (middle * (1.0 / 3) + 0.5)));
  });
}

// 0 where |x| <= λ, else 1
Tensor hardshrink_backward(const Tensor& grad, const Tensor& x, TensorOrScalar lambd) {
  return pieces("hardshrink_backward", grad, x, abs(widen(x)) <= lambd);
}
Tensor softshrink_backward(const Tensor& grad, const Tensor& x, TensorOrScalar lambd) {
  return hardshrink_backward(grad, x, lambd);
}

// 0 where x <= threshold, else 1
Tensor threshold_backward(const Tensor& grad, const Tensor& x, TensorOrScalar threshold) {
  return pieces("threshold_backward", grad, x, widen(x) <= threshold);
}

// ---- smooth ---------------------------------------------------------------------------------------------------------

// x > 0: 1, else α·e^x; scaled for selu; e^(x/α) for celu
Tensor elu_backward(const Tensor& grad, const Tensor& x, TensorOrScalar alpha) {
  return one("elu_backward", grad, x,
             [&](auto& g, auto& x) { return where(x > 0, g, g * (alpha * exp(nonpositive(x)))); });
}
Tensor selu_backward(const Tensor& grad, const Tensor& x) {
  return one("selu_backward", grad, x, [](auto& g, auto& x) {
    return where(x > 0, g * kSeluScale, g * ((kSeluScale * kSeluAlpha) * exp(nonpositive(x))));
  });
}
Tensor celu_backward(const Tensor& grad, const Tensor& x, TensorOrScalar alpha) {
  return one("celu_backward", grad, x,
             [&](auto& g, auto& x) { return where(x > 0, g, g * exp(nonpositive(x) / alpha)); });
}

// exact: Φ(x) + x·φ(x),   φ(x) = e^(−x²/2)/√(2π)
// tanh:  y = x·s, s = σ(u), u = c·(x + 0.044715·x³), c = 2·√(2/π):   s + x·s·(1 − s)·u'
Tensor gelu_backward(const Tensor& grad, const Tensor& x, GeluForm form) {
  return one("gelu_backward", grad, x, [form](auto& g, auto& x) {
    if (form == GeluForm::exact) {
      const Tensor cdf = 0.5 * erfc(x * (-1 / std::numbers::sqrt2));
      const Tensor pdf = (std::numbers::inv_sqrtpi / std::numbers::sqrt2) * exp(-0.5 * square(x));
      return g * (cdf + x * pdf);
    }
    const double c = 2 * std::sqrt(2 / std::numbers::pi);
    const Tensor s = gelu_tanh_gate(x);
    const Tensor slope = fma(square(bounded_for_gelu(x)), 3 * c * kGeluCubic, c);
    return g * (s + x * (s * (1 - s)) * slope);
  });
}

// y = x·σ(x):   σ + x·σ·(1 − σ) = σ·(1 + x·(1 − σ))
Tensor silu_backward(const Tensor& grad, const Tensor& x) {
  return one("silu_backward", grad, x, [](auto& g, auto& x) {
    const Tensor s = sigmoid(x);
    return g * (s * (1 + x * (1 - s)));
  });
}

// y = x·t, t = tanh(softplus(x)):   t + x·(1 − t²)·σ(x).   t as in the operation: s·(1 + q)/(1 + q²), q = 1 − s = σ(−x)
Tensor mish_backward(const Tensor& grad, const Tensor& x) {
  return one("mish_backward", grad, x, [](auto& g, auto& x) {
    const Tensor s = sigmoid(x), q = 1 - s;
    const Tensor t = s * (1 + q) / (1 + square(q));
    return g * (t + x * ((1 - square(t)) * s));
  });
}

// y = x/(1 + |x|):   1/(1 + |x|)²
Tensor softsign_backward(const Tensor& grad, const Tensor& x) {
  return one("softsign_backward", grad, x, [](auto& g, auto& x) { return g / square(1 + abs(x)); });
}

// y = x − tanh x:   tanh² x
Tensor tanhshrink_backward(const Tensor& grad, const Tensor& x) {
  return one("tanhshrink_backward", grad, x, [](auto& g, auto& x) { return g * square(tanh(x)); });
}

// ---- over an axis ---------------------------------------------------------------------------------------------------

// s·(g − Σ g·s)
Tensor softmax_backward(const Tensor& grad, const Tensor& y, int axis) {
  if (y.rank() == 0) return grad * 0;
  return one("softmax_backward", grad, y, [axis](auto& g, auto& s) { return s * (g - sum(g * s, axis, true)); });
}

// g − s·Σ g,   s = e^y
Tensor log_softmax_backward(const Tensor& grad, const Tensor& y, int axis) {
  if (y.rank() == 0) return grad * 0;
  return one("log_softmax_backward", grad, y, [axis](auto& g, auto& y) { return g - exp(y) * sum(g, axis, true); });
}

// softmax((x + noise)/τ): the softmax rule over τ. A hard sample has the gradient of the soft one.
Tensor gumbel_softmax_backward(const Tensor& grad, const Tensor& y, const GumbelOptions& options) {
  return one("gumbel_softmax_backward", grad, y,
             [&](auto& g, auto& s) { return softmax_backward(g, s, options.axis) / options.tau; });
}

namespace {

// y = a·f(b):   da = g·f(b),   db = f's rule for the cotangent g·a
template <class Gate, class GateBackward>
Tensor gated_backward(const char* op, const Tensor& grad, const Tensor& x, int axis, Gate gate, GateBackward rule) {
  const int k = normalize_axis(op, axis, x.rank());
  const std::int64_t half = x.size(k) / 2;
  require(x.size(k) == 2 * half, "{}: axis {} of shape {} must have an even size", op, k, x.shape());
  require_cotangent(op, grad, x.shape().with(k, half));
  const auto [g, v] = widened(grad, x);
  const Tensor a = narrow(v, k, 0, half), b = narrow(v, k, half, half);
  return cotangent(cat({g * gate(b), rule(g * a, b)}, k), x);
}

}  // namespace

Tensor glu_backward(const Tensor& grad, const Tensor& x, int axis) {
  auto rule = [](const Tensor& g, const Tensor& b) { return sigmoid_backward(g, sigmoid(b)); };
  return gated_backward("glu_backward", grad, x, axis, sigmoid, rule);
}
Tensor swiglu_backward(const Tensor& grad, const Tensor& x, int axis) {
  return gated_backward("swiglu_backward", grad, x, axis, silu, silu_backward);
}
Tensor geglu_backward(const Tensor& grad, const Tensor& x, int axis) {
  auto gate = [](const Tensor& b) { return gelu(b); };
  auto rule = [](const Tensor& g, const Tensor& b) { return gelu_backward(g, b); };
  return gated_backward("geglu_backward", grad, x, axis, gate, rule);
}
Tensor reglu_backward(const Tensor& grad, const Tensor& x, int axis) {
  return gated_backward("reglu_backward", grad, x, axis, relu, relu_backward);
}

// g/(1 − p) where the element was kept
Tensor dropout_backward(const Tensor& grad, const Tensor& mask, double p) {
  require(p >= 0 && p <= 1, "dropout_backward: p must be a probability in [0, 1], got {}", p);
  require_cotangent("dropout_backward", grad, mask.shape());
  return where(mask, grad * (p < 1 ? 1 / (1 - p) : 0.0), 0);
}

namespace {

// ---- the table: operands are x, then the parameters as constants
// ------------------------------------------------------

// relu(x) ≤ 0 where x ≤ 0, including NaN: the result serves as well as the input, and the next layer keeps it anyway.
Cotangents relu_rule(const RuleContext& c) { return {relu_backward(c.grad, c.output)}; }
Cotangents softplus_rule(const RuleContext& c) {
  if (c.inputs.size() == 1) return {softplus_backward(c.grad, c.inputs[0])};  // beta = 1
  return {softplus_backward(c.grad, c.inputs[0], c.inputs[1]), {}};
}
Cotangents logit_rule(const RuleContext& c) {
  if (c.inputs.size() == 1) return {logit_backward(c.grad, c.inputs[0])};
  return {logit_backward(c.grad, c.inputs[0], c.inputs[1]), {}};
}
Cotangents prelu_rule(const RuleContext& c) {
  const Tensor &x = c.inputs[0], &w = c.inputs[1];
  return {c.needs[0] ? prelu_dx(c.grad, x, w) : Tensor(), c.needs[1] ? prelu_dw(c.grad, x, w) : Tensor()};
}
Cotangents hardtanh_rule(const RuleContext& c) {
  return {hardtanh_backward(c.grad, c.inputs[0], c.inputs[1], c.inputs[2]), {}, {}};
}
Cotangents gelu_rule(const RuleContext& c) {
  return {gelu_backward(c.grad, c.inputs[0], c.attrs.i[0] ? GeluForm::tanh : GeluForm::exact)};
}

constexpr RuleRow kActivationRules[] = {
    {Op::sigmoid, of_output<sigmoid_backward>},
    {Op::log_sigmoid, of_input<log_sigmoid_backward>},
    {Op::softplus, softplus_rule},
    {Op::logit, logit_rule},
    {Op::relu, relu_rule},
    {Op::leaky_relu, of_input<leaky_relu_backward>},
    {Op::prelu, prelu_rule},
    {Op::relu6, of_input<relu6_backward>},
    {Op::hardtanh, hardtanh_rule},
    {Op::hardsigmoid, of_input<hardsigmoid_backward>},
    {Op::hardswish, of_input<hardswish_backward>},
    {Op::hardshrink, of_input<hardshrink_backward>},
    {Op::softshrink, of_input<softshrink_backward>},
    {Op::threshold, of_input<threshold_backward>},
    {Op::elu, of_input<elu_backward>},
    {Op::selu, of_input<selu_backward>},
    {Op::celu, of_input<celu_backward>},
    {Op::gelu, gelu_rule},
    {Op::silu, of_input<silu_backward>},
    {Op::mish, of_input<mish_backward>},
    {Op::softsign, of_input<softsign_backward>},
    {Op::tanhshrink, of_input<tanhshrink_backward>},
    {Op::softmax, of_output<softmax_backward>},
    {Op::log_softmax, of_output<log_softmax_backward>},
};

}  // namespace

std::span<const RuleRow> activation_rules() { return kActivationRules; }

}  // namespace ebb
