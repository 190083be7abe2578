// SPDX-License-Identifier: MIT
#include "ebb/ops/activation.h"

#include <cmath>
#include <numbers>

#include "core/format_error.h"
#include "ebb/ops/create.h"
#include "ebb/ops/reduce.h"
#include "ebb/ops/shape.h"
#include "ops/formula.h"

// Values of the activations. Their gradient rules are in autograd/rules_activation.cc: nothing here is differentiated,
// so a formula may branch or share subexpressions freely.
namespace ebb {

// ---- sigmoid and its logarithms, all in terms of e = e^−|x|, which never overflows. Written uniformly, so that a loss
// and its gradient share one exponential; simplify treats |−x| as |x|.

//   x >= 0: 1 / (1 + e^−x)          x < 0: e^x / (1 + e^x)
Tensor sigmoid(const Tensor& x) {
  return formula(Op::sigmoid, as_real(x), [](const Tensor& v) {
    const Tensor e = exp(-abs(v));
    return where(v >= 0, 1, e) / (1 + e);
  });
}

//   log(1 + e^x) = max(x, 0) + log(1 + e^−|x|)
Tensor softplus(const Tensor& x, double beta) {
  require(beta > 0, "softplus: beta must be positive, got {}", beta);
  static constexpr auto plain = [](const Tensor& z) { return maximum(z, 0) + log1p_unit(exp(-abs(z))); };
  if (beta == 1) return formula(Op::softplus, as_real(x), plain);
  return formula(Op::softplus, as_real(x), [](const Tensor& v, FormulaNumbers p) { return plain(v * p[0]) / p[0]; },
                 {beta});
}

//   −log(1 + e^−x) = min(x, 0) − log(1 + e^−|x|)
Tensor log_sigmoid(const Tensor& x) {
  return formula(Op::log_sigmoid, as_real(x), [](const Tensor& v) { return minimum(v, 0) - log1p_unit(exp(-abs(v))); });
}

Tensor logit(const Tensor& x, std::optional<double> eps) {
  static constexpr auto log_odds = [](const Tensor& p) { return log(p / (1 - p)); };
  if (!eps) return formula(Op::logit, as_real(x), log_odds);
  require(*eps >= 0 && *eps <= 0.5, "logit: eps must be in [0, 0.5], got {}", *eps);
  return formula(Op::logit, as_real(x),
                 [](const Tensor& v, FormulaNumbers p) { return log_odds(clamp(v, p[0], 1 - p[0])); }, {*eps});
}

// ---- piecewise linear -----------------------------------------------------------------------------------------------

Tensor relu(const Tensor& x) {
  return formula(Op::relu, x, [](const Tensor& v) { return maximum(v, 0); });
}

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return formula(Op::leaky_relu, as_real(x),
                 [](const Tensor& v, FormulaNumbers p) { return where(v > 0, v, p[0] * v); }, {negative_slope});
}

Tensor slopes_along_channels(const Tensor& x, const Tensor& weight) {
  if (weight.numel() == 1) return reshape(weight, {});
  const std::int64_t channels = x.rank() > 1 ? x.size(1) : 1;
  require(weight.rank() == 1 && weight.numel() == channels,
          "prelu: weight of shape {} must be one number or one for each of the {} channels (axis 1) of x, shape {}",
          weight.shape(), channels, x.shape());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank() - 1), 1);  // [C, 1, ...] lines up with axis 1
  sizes[0] = channels;
  return reshape(weight, sizes);
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  require(is_floating(x.dtype()) && is_floating(weight.dtype()), Error::Kind::type,
          "prelu: x and weight must be floating, got {} and {}", name(x.dtype()), name(weight.dtype()));
  const DType dtype = promote(x.dtype(), weight.dtype());
  const Tensor in = cast(x, dtype), slope = cast(slopes_along_channels(x, weight), dtype);
  Tensor value;
  {
    NoHistory scope;
    const auto [v, s] = widened(in, slope);
    value = cast(where(v > 0, v, s * v), dtype);
  }
  return make_formula(Op::prelu, value, {in, slope});
}

Tensor relu6(const Tensor& x) {
  return formula(Op::relu6, x, [](const Tensor& v) { return minimum(maximum(v, 0), 6); });
}

Tensor hardtanh(const Tensor& x, double min_val, double max_val) {
  require(min_val <= max_val, "hardtanh: min_val {} must not be greater than max_val {}", min_val, max_val);
  return formula(Op::hardtanh, as_real(x),
                 [](const Tensor& v, FormulaNumbers p) { return minimum(maximum(v, p[0]), p[1]); }, {min_val, max_val});
}

Tensor hardsigmoid(const Tensor& x) {
  return formula(Op::hardsigmoid, as_real(x), [](const Tensor& v) { return minimum(maximum(v + 3, 0), 6) / 6; });
}

// Written so that −inf gives −0 and not −inf·0.
Tensor hardswish(const Tensor& x) {
  return formula(Op::hardswish, as_real(x),
                 [](const Tensor& v) { return maximum(v, -3) * (minimum(maximum(v + 3, 0), 6) / 6); });
}

Tensor hardshrink(const Tensor& x, double lambd) {
  return formula(Op::hardshrink, as_real(x),
                 [](const Tensor& v, FormulaNumbers p) { return where(abs(v) <= p[0], 0, v); }, {lambd});
}

Tensor softshrink(const Tensor& x, double lambd) {
  require(lambd >= 0, "softshrink: lambd must not be negative, got {}", lambd);
  return formula(Op::softshrink, as_real(x),
                 [](const Tensor& v, FormulaNumbers p) { return v - minimum(maximum(v, -p[0]), p[0]); }, {lambd});
}

Tensor threshold(const Tensor& x, double threshold, double value) {
  return formula(Op::threshold, as_real(x), [](const Tensor& v, FormulaNumbers p) { return where(v <= p[0], p[1], v); },
                 {threshold, value});
}

// ---- smooth ---------------------------------------------------------------------------------------------------------

Tensor elu(const Tensor& x, double alpha) {
  return formula(Op::elu, as_real(x),
                 [](const Tensor& v, FormulaNumbers p) { return where(v > 0, v, p[0] * expm1(v)); }, {alpha});
}

Tensor selu(const Tensor& x) {
  return formula(Op::selu, as_real(x),
                 [](const Tensor& v) { return where(v > 0, kSeluScale * v, (kSeluScale * kSeluAlpha) * expm1(v)); });
}

Tensor celu(const Tensor& x, double alpha) {
  require(alpha != 0, "celu: alpha must not be 0");
  return formula(Op::celu, as_real(x),
                 [](const Tensor& v, FormulaNumbers p) { return where(v > 0, v, p[0] * expm1(v / p[0])); }, {alpha});
}

// Beyond a million the gate is 0 or 1 whatever x is; clamped there, no power of x overflows, in no derivative.
Tensor bounded_for_gelu(const Tensor& x) { return clamp(x, -1e6, 1e6); }

// ½·(1 + tanh u) = sigmoid(2u): keeps its digits where 1 + tanh cancels.
Tensor gelu_tanh_gate(const Tensor& x) {
  const double c = 2 * std::sqrt(2 / std::numbers::pi);
  const Tensor v = bounded_for_gelu(x);
  return sigmoid(v * fma(square(v), c * kGeluCubic, c));
}

// Exact: Φ(x) = ½·erfc(−x/√2), which keeps its digits far into the negative tail where 1 + erf cancels.
Tensor gelu(const Tensor& x, GeluForm form) {
  Attrs attrs;
  attrs.i[0] = form == GeluForm::tanh;
  return formula(
      Op::gelu, as_real(x),
      [](const Tensor& v, const Attrs& with) {
        return with.i[0] != 0 ? v * gelu_tanh_gate(v) : 0.5 * v * erfc(v * (-1 / std::numbers::sqrt2));
      },
      {}, attrs);
}

Tensor silu(const Tensor& x) {
  return formula(Op::silu, as_real(x), [](const Tensor& v) { return v * sigmoid(v); });
}

// With s = sigmoid(x) and q = 1 − s, e^softplus(x) = 1/q, so tanh(softplus(x)) = (1 − q²)/(1 + q²) = s·(1 + q)/(1 +
// q²): one exponential, and no cancellation where x is very negative.
Tensor mish(const Tensor& x) {
  return formula(Op::mish, as_real(x), [](const Tensor& v) {
    const Tensor s = sigmoid(v), q = 1 - s;
    return v * (s * (1 + q) / (1 + square(q)));
  });
}

Tensor softsign(const Tensor& x) {
  return formula(Op::softsign, as_real(x), [](const Tensor& v) { return v / (1 + abs(v)); });
}

Tensor tanhshrink(const Tensor& x) {
  return formula(Op::tanhshrink, as_real(x), [](const Tensor& v) { return v - tanh(v); });
}

// ---- over an axis ---------------------------------------------------------------------------------------------------

namespace {

int axis_of_rows(const char* op, const Tensor& x, int axis) { return normalize_axis(op, axis, x.rank()); }

Attrs axis_attrs(int axis) {
  Attrs attrs;
  attrs.i[0] = axis;
  return attrs;
}

}  // namespace

// s = e^(x − m) / Σ e^(x − m), m = max x. A scalar has one element, and no axis: treat it as [x]. Nothing along the
// axis: nothing to compute.
Tensor softmax(const Tensor& x, int axis) {
  if (x.rank() == 0) return reshape(softmax(reshape(x, {1}), axis), {});
  const int a = axis_of_rows("softmax", x, axis);
  return formula(
      Op::softmax, as_real(x),
      [](const Tensor& v, const Attrs& attrs) {
        if (v.numel() == 0) return v;
        const std::int64_t a = attrs.i[0];
        const Tensor e = exp(v - max(v, a, true));
        return e / sum(e, a, true);
      },
      {}, axis_attrs(a));
}

Tensor log_softmax(const Tensor& x, int axis) {
  if (x.rank() == 0) return reshape(log_softmax(reshape(x, {1}), axis), {});
  const int a = axis_of_rows("log_softmax", x, axis);
  return formula(
      Op::log_softmax, as_real(x),
      [](const Tensor& v, const Attrs& attrs) {
        if (v.numel() == 0) return v;
        const std::int64_t a = attrs.i[0];
        const Tensor z = v - max(v, a, true);
        return z - log(sum(exp(z), a, true));
      },
      {}, axis_attrs(a));
}

// −log(−log u) is Gumbel noise. u = 0 gives −inf, a class that is not chosen; u < 1 always, so +inf does not occur.
Tensor gumbel_softmax(const Tensor& logits, const GumbelOptions& o) {
  require(o.tau > 0, "gumbel_softmax: tau must be positive, got {}", o.tau);
  const Tensor x = as_real(logits);
  const int axis = axis_of_rows("gumbel_softmax", x, o.axis);
  const Tensor noise = -log(-log(rand(x.shape(), compute_dtype(x.dtype()))));
  Tensor soft = cast(softmax((widen(x) + noise) / o.tau, axis), x.dtype());
  if (!o.hard) return soft;
  // The value of the one-hot sample with the gradient of the soft one.
  Shape along;
  for (int k = 0; k < x.rank(); ++k) along = along.inserted(k, k == axis ? x.size(axis) : 1);
  const Tensor chosen = reshape(arange(x.size(axis)), along) == argmax(soft, axis, true);
  const Tensor correction = cast(chosen, x.dtype()) - soft;
  return soft + make_node(Op::stop_gradient, x.dtype(), x.shape(), {correction});
}

namespace {

// a·gate(b), rounded once: in halves the gate's value stays in f32.
template <class Gate>
Tensor gated(const char* op, const Tensor& x, int axis, Gate gate) {
  const int a = axis_of_rows(op, x, axis);
  const std::int64_t n = x.size(a);
  require(n % 2 == 0, "{}: axis {} of shape {} must have an even size, to be split into halves", op, a, x.shape());
  const Tensor wide = widen(x);
  return cast(narrow(wide, a, 0, n / 2) * gate(narrow(wide, a, n / 2, n / 2)), x.dtype());
}

}  // namespace

Tensor glu(const Tensor& x, int axis) { return gated("glu", as_real(x), axis, sigmoid); }
Tensor swiglu(const Tensor& x, int axis) { return gated("swiglu", as_real(x), axis, silu); }
Tensor geglu(const Tensor& x, int axis) {
  return gated("geglu", as_real(x), axis, [](const Tensor& b) { return gelu(b); });
}
Tensor reglu(const Tensor& x, int axis) { return gated("reglu", x, axis, relu); }

Tensor dropout(const Tensor& x, double p, bool training) {
  require(p >= 0 && p <= 1, "dropout: p must be a probability in [0, 1], got {}", p);
  if (!training || p == 0) return x;
  const Tensor v = as_real(x);
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  return where(rand(v.shape()) >= p, v * scale, 0);
}

}  // namespace ebb
