// SPDX-License-Identifier: MIT
#include <math.h>

#include <algorithm>
#include <cmath>

#include "cases/cases.h"
#include "ops/build.h"
#include "sweep/reference_math.h"

namespace ebb::table {

namespace {

// The result of an operation of the table, by the oracle.
double reference_of(Op op, double a, double b = 0) {
  if (info(op).domain == OpDomain::bits) {
    const auto whole = [](double x) { return Number{0, static_cast<std::int64_t>(x)}; };
    return static_cast<double>(reference_integer(op, 64, whole(a), whole(b), {}).integer);
  }
  if (info(op).domain == OpDomain::truth)
    return static_cast<double>(reference_integer(op, 1, {0, a != 0}, {0, b != 0}, {}).integer);
  return reference_real(op, {a, 0}, {b, 0}, {}).real;
}

}  // namespace

#define EBB_UNARY(NAME, ...)                                         \
  unary(                                                             \
      Op::NAME, #NAME, [](const Tensor& t) { return ebb::NAME(t); }, \
      [](double x) { return reference_of(Op::NAME, x); }, Domain{__VA_ARGS__})
// The oracle has no formulas with rules of their own.
#define EBB_FORMULA(NAME, FORMULA, ...)                                                                          \
  unary(                                                                                                         \
      Op::NAME, #NAME, [](const Tensor& t) { return ebb::NAME(t); }, [](double x) -> double { return FORMULA; }, \
      Domain{__VA_ARGS__})
#define EBB_BINARY(NAME, A, B)                                                           \
  binary(                                                                                \
      Op::NAME, #NAME, [](const Tensor& s, const Tensor& t) { return ebb::NAME(s, t); }, \
      [](double a, double b) { return reference_of(Op::NAME, a, b); }, Domain EBB_BRACES A, Domain EBB_BRACES B)
#define EBB_BRACES(...) __VA_ARGS__

// Numbers without their fractions, so that operations on bits are included in tests over floats.
Tensor whole(const Tensor& x) { return is_integer(x.dtype()) ? x : cast(x, DType::i64); }
Tensor places(const Tensor& x) { return remainder(whole(x), 6); }
double places(double x) { return std::fmod(std::fmod(std::trunc(x), 6.0) + 6.0, 6.0); }
#define EBB_BITS(NAME)                                                                                 \
  on_integers(binary(                                                                                  \
      Op::NAME, #NAME, [](const Tensor& s, const Tensor& t) { return ebb::NAME(whole(s), whole(t)); }, \
      [](double a, double b) { return reference_of(Op::NAME, a, b); }, {{-99, 99}}, {{-99, 99}}))
#define EBB_SHIFT(NAME)                                                                                 \
  on_integers(binary(                                                                                   \
      Op::NAME, #NAME, [](const Tensor& s, const Tensor& t) { return ebb::NAME(whole(s), places(t)); }, \
      [](double a, double b) { return reference_of(Op::NAME, a, places(b)); }, {{-99, 99}}, {{-99, 99}}))

std::vector<Case> elementwise_cases() {
  const Domain all{{-2, 2}}, off_zero{{-2, -0.3}, {0.3, 2}}, positive{{0.3, 3}};
  std::vector<Case> cases{
      on_integers(EBB_UNARY(neg, {-2, 2})),
      EBB_UNARY(reciprocal, {-2, -0.4}, {0.4, 2}),
      on_integers(EBB_UNARY(square, {-2, 2})),
      on_integers(EBB_UNARY(abs, {-2, -0.1}, {0.1, 2})),
      on_integers(EBB_UNARY(sign, {-2, -0.1}, {0.1, 2})),
      EBB_UNARY(exp, {-3, 3}),
      EBB_UNARY(exp2, {-3, 3}),
      EBB_UNARY(expm1, {-2, 2}),
      EBB_UNARY(log, {0.2, 5}),
      EBB_UNARY(log2, {0.2, 5}),
      EBB_UNARY(log10, {0.2, 5}),
      EBB_UNARY(log1p, {-0.7, 3}),
      EBB_UNARY(log1p_unit, {0.01, 0.99}),
      EBB_UNARY(sqrt, {0.2, 4}),
      EBB_UNARY(rsqrt, {0.3, 4}),
      EBB_UNARY(cbrt, {-3, -0.3}, {0.3, 3}),
      EBB_UNARY(sin, {-4, 4}),
      EBB_UNARY(cos, {-4, 4}),
      EBB_UNARY(tan, {-1.1, 1.1}),
      EBB_UNARY(asin, {-0.8, 0.8}),
      EBB_UNARY(acos, {-0.8, 0.8}),
      EBB_UNARY(atan, {-3, 3}),
      EBB_UNARY(sinh, {-2, 2}),
      EBB_UNARY(cosh, {-2, 2}),
      EBB_UNARY(tanh, {-2, 2}),
      EBB_UNARY(asinh, {-3, 3}),
      EBB_UNARY(acosh, {1.3, 4}),
      EBB_UNARY(atanh, {-0.8, 0.8}),
      EBB_UNARY(erf, {-2, 2}),
      EBB_UNARY(erfc, {-2, 2}),
      EBB_UNARY(erfcx, {-2, 2}, {6, 40}),
      // Near their roots these are differences of terms several times as large, and the C library's lgamma errs
      // itself.
      // Sums of terms of about 1 that cancel towards the zeros at 1 and 2, at 1.46 for digamma.
      looser(20, EBB_UNARY(lgamma, {0.4, 0.9}, {1.2, 1.8}, {2.2, 5})),
      looser(20, EBB_UNARY(digamma, {0.4, 1.2}, {1.7, 5})),
      EBB_UNARY(floor, {-2.8, -2.2}, {-0.9, -0.1}, {1.1, 1.9}),
      EBB_UNARY(ceil, {-2.8, -2.2}, {-0.9, -0.1}, {1.1, 1.9}),
      EBB_UNARY(round, {-2.4, -1.7}, {-0.4, 0.4}, {1.6, 2.4}),
      EBB_UNARY(trunc, {-2.8, -2.2}, {-0.9, -0.1}, {1.1, 1.9}),
      EBB_UNARY(isnan, {-2, 2}),
      EBB_UNARY(isinf, {-2, 2}),
      EBB_UNARY(isfinite, {-2, 2}),
      on_integers(EBB_UNARY(logical_not, {-2, 2})),
      on_integers(EBB_BINARY(add, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(sub, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(mul, ({{-2, 2}}), ({{-2, 2}}))),
      EBB_BINARY(div, ({{-2, 2}}), ({{-2, -0.5}, {0.5, 2}})),
      on_integers(EBB_BINARY(floor_divide, ({{0.1, 0.45}, {1.3, 1.7}}), ({{0.7, 0.8}})), true),
      on_integers(EBB_BINARY(remainder, ({{0.1, 0.5}, {1.2, 1.9}}), ({{1, 1.1}})), true),
      on_integers(EBB_BINARY(maximum, ({{-2, 0.4}}), ({{0.6, 2}, {-4, -2.2}}))),
      on_integers(EBB_BINARY(minimum, ({{-2, 0.4}}), ({{0.6, 2}, {-4, -2.2}}))),
      EBB_BINARY(atan2, ({{0.3, 2}}), ({{-2, -0.3}, {0.3, 2}})),
      EBB_BINARY(hypot, ({{-2, -0.3}, {0.3, 2}}), ({{-2, 2}})),
      on_integers(EBB_BINARY(eq, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(ne, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(lt, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(le, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(gt, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(ge, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(logical_and, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(logical_or, ({{-2, 2}}), ({{-2, 2}}))),
      on_integers(EBB_BINARY(logical_xor, ({{-2, 2}}), ({{-2, 2}}))),
      EBB_BITS(bitwise_and),
      EBB_BITS(bitwise_or),
      EBB_BITS(bitwise_xor),
      EBB_SHIFT(bitwise_left_shift),
      EBB_SHIFT(bitwise_right_shift),
      binary(
          Op::xlogy, "xlogy", [](const Tensor& a, const Tensor& b) { return xlogy(a, b); },
          [](double a, double b) { return a * std::log(b); }, {{-2, -0.3}, {0.3, 2}}, {{0.3, 3}}),
      looser(20, unary(  // one rounding per term of a sum of a dozen powers
                     Op::polygamma, "polygamma", [](const Tensor& t) { return polygamma(1, t); },
                     [](double x) { return reference_of(Op::polygamma, 1, x); }, {{0.5, 5}})),
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

namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

std::vector<Case> activation_cases() {
  const Domain off_zero{{-2, -0.1}, {0.1, 2}};
  std::vector<Case> cases{
      EBB_FORMULA(sigmoid, sigmoid_of(x), {-4, 4}),
      EBB_FORMULA(log_sigmoid, std::log(sigmoid_of(x)), {-4, 4}),
      EBB_FORMULA(softplus, std::log(1 + std::exp(x)), {-4, 4}),
      unary(
          Op::softplus, "softplus_beta", [](const Tensor& t) { return softplus(t, 2.5); },
          [](double x) { return std::log(1 + std::exp(2.5 * x)) / 2.5; }, {{-3, 3}}),
      EBB_FORMULA(logit, std::log(x / (1 - x)), {0.1, 0.4}, {0.6, 0.9}),
      on_integers(EBB_FORMULA(relu, std::max(x, 0.0), {-2, -0.1}, {0.1, 2})),
      EBB_FORMULA(leaky_relu, x > 0 ? x : 0.01 * x, {-2, -0.1}, {0.1, 2}),
      EBB_FORMULA(relu6, std::min(std::max(x, 0.0), 6.0), {-2, -0.1}, {0.1, 5.5}, {6.5, 8}),
      EBB_FORMULA(elu, x > 0 ? x : std::expm1(x), {-2, -0.1}, {0.1, 2}),
      EBB_FORMULA(selu, 1.0507009873554804934193349852946 * (x > 0 ? x : 1.6732632423543772848 * std::expm1(x)),
                  {-2, -0.1}, {0.1, 2}),
      unary(
          Op::celu, "celu", [](const Tensor& t) { return celu(t, 1.5); },
          [](double x) { return x > 0 ? x : 1.5 * std::expm1(x / 1.5); }, off_zero),
      EBB_FORMULA(gelu, x * normal_cdf(x), {-3, 3}),
      unary(
          Op::gelu, "gelu_tanh", [](const Tensor& t) { return gelu(t, GeluForm::tanh); },
          [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); },
          {{-3, 3}}),
      EBB_FORMULA(silu, x * sigmoid_of(x), {-3, 3}),
      EBB_FORMULA(mish, x * std::tanh(std::log1p(std::exp(x))), {-3, 3}),
      EBB_FORMULA(softsign, x / (1 + std::fabs(x)), {-2, -0.1}, {0.1, 2}),
      EBB_FORMULA(hardtanh, std::min(std::max(x, -1.0), 1.0), {-2, -1.1}, {-0.9, 0.9}, {1.1, 2}),
      EBB_FORMULA(hardsigmoid, std::min(std::max(x + 3, 0.0), 6.0) / 6, {-4, -3.1}, {-2.9, 2.9}, {3.1, 4}),
      EBB_FORMULA(hardswish, x * std::min(std::max(x + 3, 0.0), 6.0) / 6, {-4, -3.1}, {-2.9, 2.9}, {3.1, 4}),
      EBB_FORMULA(hardshrink, std::fabs(x) <= 0.5 ? 0 : x, {-2, -0.6}, {-0.4, 0.4}, {0.6, 2}),
      EBB_FORMULA(softshrink,
                  x > 0.5    ? x - 0.5
                  : x < -0.5 ? x + 0.5
                             : 0,
                  {-2, -0.6}, {-0.4, 0.4}, {0.6, 2}),
      looser(3, EBB_FORMULA(tanhshrink, x - std::tanh(x), {-3, -0.5}, {0.5, 3})),  // at ±0.5 it cancels to 1/13
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

}  // namespace ebb::table
