#pragma once
#include <math.h>

#include <algorithm>
#include <cmath>

#include "cases/cases.h"
#include "ops/build.h"
#include "sweep/reference_math.h"

namespace ebb::table {

// The derivatives of log Γ as plain sums: ψ(x) from x + 200 down, and ψ'(x) likewise.
inline double digamma_by_sum(double x) {
  double shift = 0;
  for (int k = 0; k < 200; ++k) shift += 1 / (x + k);
  const double a = x + 200;
  return std::log(a) - 1 / (2 * a) - 1 / (12 * a * a) + 1 / (120 * a * a * a * a) - shift;
}
inline double trigamma_by_sum(double x) {
  double sum = 0;
  for (int k = 0; k < 200; ++k) sum += 1 / ((x + k) * (x + k));
  const double a = x + 200;
  return sum + 1 / a + 1 / (2 * a * a) + 1 / (6 * a * a * a) - 1 / (30 * a * a * a * a * a);
}

#define EBB_UNARY(NAME, FORMULA, ...)                                                                            \
  unary(                                                                                                         \
      Op::NAME, #NAME, [](const Tensor& t) { return ebb::NAME(t); }, [](double x) -> double { return FORMULA; }, \
      Domain{__VA_ARGS__})
#define EBB_BINARY(NAME, FORMULA, A, B)                                                  \
  binary(                                                                                \
      Op::NAME, #NAME, [](const Tensor& s, const Tensor& t) { return ebb::NAME(s, t); }, \
      [](double a, double b) -> double { return FORMULA; }, Domain EBB_BRACES A, Domain EBB_BRACES B)
#define EBB_BRACES(...) __VA_ARGS__

inline std::vector<Case> elementwise_cases() {
  const Domain all{{-2, 2}}, off_zero{{-2, -0.3}, {0.3, 2}}, positive{{0.3, 3}};
  std::vector<Case> cases{
      on_integers(EBB_UNARY(neg, -x, {-2, 2})),
      EBB_UNARY(reciprocal, 1 / x, {-2, -0.4}, {0.4, 2}),
      on_integers(EBB_UNARY(square, x * x, {-2, 2})),
      on_integers(EBB_UNARY(abs, std::fabs(x), {-2, -0.1}, {0.1, 2})),
      on_integers(EBB_UNARY(sign, (x > 0) - (x < 0), {-2, -0.1}, {0.1, 2})),
      EBB_UNARY(exp, std::exp(x), {-3, 3}),
      EBB_UNARY(exp2, std::exp2(x), {-3, 3}),
      EBB_UNARY(expm1, std::expm1(x), {-2, 2}),
      EBB_UNARY(log, std::log(x), {0.2, 5}),
      EBB_UNARY(log2, std::log2(x), {0.2, 5}),
      EBB_UNARY(log10, std::log10(x), {0.2, 5}),
      EBB_UNARY(log1p, std::log1p(x), {-0.7, 3}),
      EBB_UNARY(sqrt, std::sqrt(x), {0.2, 4}),
      EBB_UNARY(rsqrt, 1 / std::sqrt(x), {0.3, 4}),
      EBB_UNARY(cbrt, std::cbrt(x), {-3, -0.3}, {0.3, 3}),
      EBB_UNARY(sin, std::sin(x), {-4, 4}),
      EBB_UNARY(cos, std::cos(x), {-4, 4}),
      EBB_UNARY(tan, std::tan(x), {-1.1, 1.1}),
      EBB_UNARY(asin, std::asin(x), {-0.8, 0.8}),
      EBB_UNARY(acos, std::acos(x), {-0.8, 0.8}),
      EBB_UNARY(atan, std::atan(x), {-3, 3}),
      EBB_UNARY(sinh, std::sinh(x), {-2, 2}),
      EBB_UNARY(cosh, std::cosh(x), {-2, 2}),
      EBB_UNARY(tanh, std::tanh(x), {-2, 2}),
      EBB_UNARY(asinh, std::asinh(x), {-3, 3}),
      EBB_UNARY(acosh, std::acosh(x), {1.3, 4}),
      EBB_UNARY(atanh, std::atanh(x), {-0.8, 0.8}),
      EBB_UNARY(erf, std::erf(x), {-2, 2}),
      EBB_UNARY(erfc, std::erfc(x), {-2, 2}),
      EBB_UNARY(erfcx, reference_real(Op::erfcx, {x, 0}, {}, {}).real, {-2, 2}, {6, 40}),
      // Beside their roots these are differences of terms several times as large, and the C library's lgamma errs
      // itself.
      looser(20, EBB_UNARY(lgamma, std::lgamma(x), {0.4, 0.9}, {1.2, 1.8}, {2.2, 5})),
      looser(20, EBB_UNARY(digamma, digamma_by_sum(x), {0.4, 1.2}, {1.7, 5})),
      EBB_UNARY(floor, std::floor(x), {-2.8, -2.2}, {-0.9, -0.1}, {1.1, 1.9}),
      EBB_UNARY(ceil, std::ceil(x), {-2.8, -2.2}, {-0.9, -0.1}, {1.1, 1.9}),
      EBB_UNARY(round, std::nearbyint(x), {-2.4, -1.7}, {-0.4, 0.4}, {1.6, 2.4}),
      EBB_UNARY(trunc, std::trunc(x), {-2.8, -2.2}, {-0.9, -0.1}, {1.1, 1.9}),
      EBB_UNARY(isnan, std::isnan(x), {-2, 2}),
      EBB_UNARY(isinf, std::isinf(x), {-2, 2}),
      EBB_UNARY(isfinite, std::isfinite(x), {-2, 2}),
      on_integers(EBB_UNARY(logical_not, x == 0, {-2, 2})),
      on_integers(EBB_BINARY(add, a + b, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(sub, a - b, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(mul, a * b, ({{-2, 2}}), ({{-2, 2}}))),
      EBB_BINARY(div, a / b, ({{-2, 2}}), ({{-2, -0.5}, {0.5, 2}})),
      on_integers(EBB_BINARY(floor_divide, std::floor(a / b), ({{0.1, 0.45}, {1.3, 1.7}}), ({{0.7, 0.8}})), true),
      on_integers(EBB_BINARY(remainder, a - b * std::floor(a / b), ({{0.1, 0.5}, {1.2, 1.9}}), ({{1, 1.1}})), true),
      on_integers(EBB_BINARY(maximum, std::max(a, b), ({{-2, 0.4}}), ({{0.6, 2}, {-4, -2.2}}))),
      on_integers(EBB_BINARY(minimum, std::min(a, b), ({{-2, 0.4}}), ({{0.6, 2}, {-4, -2.2}}))),
      EBB_BINARY(atan2, std::atan2(a, b), ({{0.3, 2}}), ({{-2, -0.3}, {0.3, 2}})),
      EBB_BINARY(hypot, std::hypot(a, b), ({{-2, -0.3}, {0.3, 2}}), ({{-2, 2}})),
      on_integers(EBB_BINARY(eq, a == b, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(ne, a != b, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(lt, a < b, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(le, a <= b, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(gt, a > b, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(ge, a >= b, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(logical_and, a != 0 && b != 0, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(logical_or, a != 0 || b != 0, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(logical_xor, (a != 0) != (b != 0), ({{-2, 2}}), ({{-2, 2}}))),
      EBB_BINARY(xlogy, a * std::log(b), ({{-2, -0.3}, {0.3, 2}}), ({{0.3, 3}})),
      looser(20, unary(
                     Op::polygamma, "polygamma", [](const Tensor& t) { return polygamma(1, t); },
                     [](double x) { return trigamma_by_sum(x); }, {{0.5, 5}})),
      binary(
          Op::pow, "pow_tensor", [](const Tensor& a, const Tensor& b) { return pow(a, b); },
          [](double a, double b) { return std::pow(a, b); }, {{0.4, 2}}, {{-1.5, 1.5}}),
      unary(
          Op::pow, "pow_scalar", [](const Tensor& a) { return pow(a, 3.0); }, [](double a) { return a * a * a; },
          off_zero),
      binary(
          Op::check, "check", [](const Tensor& a, const Tensor& b) { return check(a + 0 * b, a < 100, "the test"); },
          [](double a, double) { return a; }, all, all),
      unary(
          Op::clamp, "clamp", [](const Tensor& t) { return clamp(t, -1, 1); },
          [](double x) { return std::min(std::max(x, -1.0), 1.0); }, {{-2, -1.1}, {-0.9, 0.9}, {1.1, 2}}),
      unary(
          Op::clamp, "clamp_below", [](const Tensor& t) { return clamp(t, 0.5); },
          [](double x) { return std::max(x, 0.5); }, {{-2, 0.4}, {0.6, 2}}),
      unary(
          Op::copy, "copy", [](const Tensor& t) { return make_node(Op::copy, t.dtype(), t.shape(), {t}); },
          [](double x) { return x; }, all),
      unary(
          Op::cast, "cast", [](const Tensor& t) { return cast(t, DType::f64); }, [](double x) { return x; }, all),
  };
  cases.push_back(on_integers(unary(
      Op::clamp, "clamp_integers", [](const Tensor& t) { return clamp(t, 2, 5); },
      [](double x) { return std::min(std::max(x, 2.0), 5.0); }, {{-2, 1.8}, {2.2, 4.8}})));

  Case fused;
  fused.op = Op::fma;
  fused.name = "fma";
  fused.inputs = {{all}, {all}, {all}};
  fused.shapes = elementwise_shapes(3);
  fused.large = {{70001, 3}, {70001, 3}, {70001, 3}};
  fused.call = [](const Tensors& x) { return fma(x[0], x[1], x[2]); };
  fused.reference = [](const Arrays& x) {
    return elementwise(x, [](const double* v) { return std::fma(v[0], v[1], v[2]); });
  };
  cases.push_back(fused);

  Case chosen;
  chosen.op = Op::where;
  chosen.name = "where";
  chosen.inputs = {{all, Input::Kind::mask}, {all}, {all}};
  chosen.shapes = elementwise_shapes(3);
  chosen.large = {{70001, 3}, {70001, 3}, {70001, 3}};
  chosen.call = [](const Tensors& x) { return where(x[0], x[1], x[2]); };
  chosen.reference = [](const Arrays& x) {
    return elementwise(x, [](const double* v) { return v[0] != 0 ? v[1] : v[2]; });
  };
  chosen.integers = true;
  cases.push_back(chosen);
  return cases;
}

inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
inline double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

inline std::vector<Case> activation_cases() {
  const Domain off_zero{{-2, -0.1}, {0.1, 2}};
  std::vector<Case> cases{
      EBB_UNARY(sigmoid, sigmoid_of(x), {-4, 4}),
      EBB_UNARY(log_sigmoid, std::log(sigmoid_of(x)), {-4, 4}),
      EBB_UNARY(softplus, std::log(1 + std::exp(x)), {-4, 4}),
      unary(
          Op::softplus, "softplus_beta", [](const Tensor& t) { return softplus(t, 2.5); },
          [](double x) { return std::log(1 + std::exp(2.5 * x)) / 2.5; }, {{-3, 3}}),
      EBB_UNARY(logit, std::log(x / (1 - x)), {0.1, 0.4}, {0.6, 0.9}),
      on_integers(EBB_UNARY(relu, std::max(x, 0.0), {-2, -0.1}, {0.1, 2})),
      EBB_UNARY(leaky_relu, x > 0 ? x : 0.01 * x, {-2, -0.1}, {0.1, 2}),
      EBB_UNARY(relu6, std::min(std::max(x, 0.0), 6.0), {-2, -0.1}, {0.1, 5.5}, {6.5, 8}),
      EBB_UNARY(elu, x > 0 ? x : std::expm1(x), {-2, -0.1}, {0.1, 2}),
      EBB_UNARY(selu, 1.0507009873554804934193349852946 * (x > 0 ? x : 1.6732632423543772848 * std::expm1(x)),
                {-2, -0.1}, {0.1, 2}),
      unary(
          Op::celu, "celu", [](const Tensor& t) { return celu(t, 1.5); },
          [](double x) { return x > 0 ? x : 1.5 * std::expm1(x / 1.5); }, off_zero),
      EBB_UNARY(gelu, x * normal_cdf(x), {-3, 3}),
      unary(
          Op::gelu, "gelu_tanh", [](const Tensor& t) { return gelu(t, GeluForm::tanh); },
          [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); },
          {{-3, 3}}),
      EBB_UNARY(silu, x * sigmoid_of(x), {-3, 3}),
      EBB_UNARY(mish, x * std::tanh(std::log1p(std::exp(x))), {-3, 3}),
      EBB_UNARY(softsign, x / (1 + std::fabs(x)), {-2, -0.1}, {0.1, 2}),
      EBB_UNARY(hardtanh, std::min(std::max(x, -1.0), 1.0), {-2, -1.1}, {-0.9, 0.9}, {1.1, 2}),
      EBB_UNARY(hardsigmoid, std::min(std::max(x + 3, 0.0), 6.0) / 6, {-4, -3.1}, {-2.9, 2.9}, {3.1, 4}),
      EBB_UNARY(hardswish, x * std::min(std::max(x + 3, 0.0), 6.0) / 6, {-4, -3.1}, {-2.9, 2.9}, {3.1, 4}),
      EBB_UNARY(hardshrink, std::fabs(x) <= 0.5 ? 0 : x, {-2, -0.6}, {-0.4, 0.4}, {0.6, 2}),
      EBB_UNARY(softshrink,
                x > 0.5    ? x - 0.5
                : x < -0.5 ? x + 0.5
                           : 0,
                {-2, -0.6}, {-0.4, 0.4}, {0.6, 2}),
      looser(3, EBB_UNARY(tanhshrink, x - std::tanh(x), {-3, -0.5}, {0.5, 3})),
      unary(
          Op::threshold, "threshold", [](const Tensor& t) { return threshold(t, 0.2, -3); },
          [](double x) { return x > 0.2 ? x : -3; }, {{-2, 0.1}, {0.3, 2}}),
  };
  // Slopes by channel (axis 1) and one slope for all.
  for (bool one : {false, true}) {
    Case c;
    c.op = Op::prelu;
    c.name = one ? "prelu_one" : "prelu_channels";
    c.inputs = {{off_zero}, {{{0.1, 0.5}}}};
    c.shapes = {{{2, 3}, {one ? 1 : 3}}, {{2, 3, 33}, {one ? 1 : 3}}, {{0, 3}, {one ? 1 : 3}}, {{4, 1, 7}, {1}}};
    c.large = {{7001, 30}, {one ? 1 : 30}};
    c.call = [](const Tensors& x) { return prelu(x[0], x[1]); };
    c.reference = [](const Arrays& x) {
      Array out(x[0].shape);
      std::size_t k = 0;
      each_index(out.shape, [&](const Index& i) {
        const double v = x[0].at(i),
                     w = x[1].values.size() == 1 ? x[1].values[0] : x[1].values[static_cast<std::size_t>(i[1])];
        out.values[k++] = v > 0 ? v : w * v;
      });
      return out;
    };
    cases.push_back(c);
  }
  return cases;
}

#undef EBB_UNARY
#undef EBB_BINARY
#undef EBB_BRACES

}  // namespace ebb::table
