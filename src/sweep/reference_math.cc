// SPDX-License-Identifier: MIT
#include "sweep/reference_math.h"

#include <math.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "core/format_error.h"

namespace ebb {
namespace {

Number real(double x) { return {x, 0}; }
Number truth(bool x) { return {static_cast<double>(x), x}; }

// zeta(s, x) = Σ (x + k)^−s: fifty terms, then Euler-Maclaurin with four corrections, in long double.
long double hurwitz_zeta(int s, long double x) {
  long double sum = 0;
  for (int k = 0; k < 50; ++k) sum += powl(x + k, -s);
  const long double a = x + 50, p = powl(a, -s);
  sum += p * a / (s - 1) + p / 2;
  sum += p / a * s / 12;
  sum -= p / (a * a * a) * s * (s + 1.0L) * (s + 2) / 720;
  sum += p / powl(a, 5) * s * (s + 1.0L) * (s + 2) * (s + 3) * (s + 4) / 30240;
  return sum;
}

// ψ(x) = ψ(x + n) − Σ 1/(x + k); from x >= 50 four terms of the asymptotic series are exact in double. Far below zero
// ψ(x) = ψ(1 − x) − π / tan(πx), with the fractional part of x, which is exact.
double digamma(double at) {
  long double x = at, shift = 0;
  if (x == std::floor(x) && x <= 0) return x == 0 ? std::copysign(INFINITY, -at) : NAN;
  if (x < -50) {
    const long double pi = std::numbers::pi_v<long double>;
    shift = pi / tanl(pi * (x - std::floor(x)));
    x = 1 - x;
  }
  while (x < 50) {
    shift += 1 / x;
    x += 1;
  }
  const long double z = 1 / (x * x);
  return static_cast<double>(logl(x) - 0.5L / x - z * (1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z / 240))) -
                             shift);
}

// ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹·n!·ζ(n+1, x), shifted to positive x term by term; ζ is infinite at the poles.
double polygamma(double order, double at) {
  const int n = static_cast<int>(order);
  const double sign = n % 2 ? 1 : -1;
  if (n == 0) return digamma(at);
  if (std::isnan(at) || at == -INFINITY) return NAN;
  if (at == INFINITY) return sign * 0.0;
  if (at <= 0 && at == std::floor(at)) return sign * INFINITY;
  long double x = at, sum = 0;
  while (x < 1) {
    sum += powl(x, -(n + 1));
    x += 1;
  }
  sum += hurwitz_zeta(n + 1, x);
  return static_cast<double>(sign * tgammal(n + 1.0L) * sum);
}

// e^(x²)·erfc x, far out by its asymptotic series, in long double.
double scaled_erfc(double at) {
  const long double x = at;
  if (!(x > 25)) return static_cast<double>(expl(x * x) * erfcl(x));
  const long double h = 1 / (2 * x * x);
  long double series = 1;
  for (int k = 15; k > 0; k -= 2) series = 1 - k * h * series;
  return static_cast<double>(std::numbers::inv_sqrtpi_v<long double> / x * series);
}

double log_gamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

// With the sign of b.
template <class T>
T floor_remainder(T a, T b) {
  const T r = std::fmod(a, b);
  if (r != 0) return (r < 0) != (b < 0) ? r + b : r;
  return std::copysign(T(0), b);
}

// a − remainder is a multiple of b up to rounding; the quotient is the integer nearest to it. (Not ⌊a/b⌋, which is off
// by one where a/b rounds up to an integer.)
template <class T>
T floor_quotient(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b), least = (a - rest) / b,
          whole = rest != 0 && (rest < 0) != (b < 0) ? least - 1 : least;
  if (whole == 0) return std::copysign(T(0), a / b);
  const T down = std::floor(whole);
  return whole - down > T(0.5) ? down + 1 : down;
}

std::int64_t wrapped(std::uint64_t x, int bits) {
  if (bits == 1) return x != 0;
  return bits == 32 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(x)) : static_cast<std::int64_t>(x);
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  std::uint64_t result = 1;
  for (auto power = static_cast<std::uint64_t>(base); exponent > 0; exponent /= 2, power *= power) {
    if (exponent % 2) result *= power;
  }
  return static_cast<std::int64_t>(result);
}

// Rounds towards minus infinity; a divisor of 0 gives 0 and leaves everything to the remainder.
std::int64_t integer_quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<std::int64_t>(-static_cast<std::uint64_t>(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

}  // namespace

template <class T>
std::optional<T> reference_step(Op op, T a, T b, T c) {
  switch (op) {
    case Op::copy:
    case Op::check:
      return a;
    case Op::neg:
      return -a;
    case Op::reciprocal:
      return 1 / a;
    case Op::square:
      return a * a;
    case Op::abs:
      return std::fabs(a);
    case Op::sign:
      return a > 0 ? T(1) : a < 0 ? T(-1) : a;
    case Op::sqrt:
      return std::sqrt(a);
    case Op::floor:
      return std::floor(a);
    case Op::ceil:
      return std::ceil(a);
    case Op::round:
      return std::nearbyint(a);
    case Op::trunc:
      return std::trunc(a);
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::div:
      return a / b;
    case Op::floor_divide:
      return floor_quotient(a, b);
    case Op::remainder:
      return floor_remainder(a, b);
    case Op::maximum:  // −0 is below +0
      return std::isnan(a) || std::isnan(b) ? T(NAN) : a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
    case Op::minimum:
      return std::isnan(a) || std::isnan(b) ? T(NAN) : a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
    case Op::fma:
      return std::fma(a, b, c);
    default:
      return std::nullopt;
  }
}
template std::optional<float> reference_step(Op, float, float, float);
template std::optional<double> reference_step(Op, double, double, double);

Number reference_real(Op op, Number na, Number nb, Number nc) {
  const double a = na.real, b = nb.real, c = nc.real;
  if (const std::optional<double> step = reference_step(op, a, b, c)) return real(*step);
  switch (op) {
    case Op::exp:
      return real(std::exp(a));
    case Op::exp2:
      return real(std::exp2(a));
    case Op::expm1:
      return real(std::expm1(a));
    case Op::log:
      return real(std::log(a));
    case Op::log2:
      return real(std::log2(a));
    case Op::log10:
      return real(std::log10(a));
    case Op::log1p:
      return real(std::log1p(a));
    case Op::log1p_unit:
      return real(std::log1p(std::clamp<decltype(a)>(a, 0, 1)));
    case Op::rsqrt:
      return real(1 / std::sqrt(a));
    case Op::cbrt:
      return real(std::cbrt(a));
    case Op::sin:
      return real(std::sin(a));
    case Op::cos:
      return real(std::cos(a));
    case Op::tan:
      return real(std::tan(a));
    case Op::asin:
      return real(std::asin(a));
    case Op::acos:
      return real(std::acos(a));
    case Op::atan:
      return real(std::atan(a));
    case Op::sinh:
      return real(std::sinh(a));
    case Op::cosh:
      return real(std::cosh(a));
    case Op::tanh:
      return real(std::tanh(a));
    case Op::asinh:
      return real(std::asinh(a));
    case Op::acosh:
      return real(std::acosh(a));
    case Op::atanh:
      return real(std::atanh(a));
    case Op::erf:
      return real(std::erf(a));
    case Op::erfc:
      return real(std::erfc(a));
    case Op::erfcx:
      return real(scaled_erfc(a));
    case Op::lgamma:
      return real(log_gamma(a));
    case Op::digamma:
      return real(digamma(a));
    case Op::isnan:
      return truth(std::isnan(a));
    case Op::isinf:
      return truth(std::isinf(a));
    case Op::isfinite:
      return truth(std::isfinite(a));
    case Op::pow:
      return real(std::pow(a, b));
    case Op::atan2:
      return real(std::atan2(a, b));
    case Op::hypot:
      return real(std::hypot(a, b));
    case Op::polygamma:
      return real(polygamma(a, b));
    case Op::eq:
      return truth(a == b);
    case Op::ne:
      return truth(a != b);
    case Op::lt:
      return truth(a < b);
    case Op::le:
      return truth(a <= b);
    case Op::gt:
      return truth(a > b);
    case Op::ge:
      return truth(a >= b);
    case Op::where:
      return real(na.integer ? b : c);
    default:
      fail(Error::Kind::value, "internal: {} has no meaning on floats in a sweep", info(op).name);
  }
}

Number reference_integer(Op op, int bits, Number na, Number nb, Number nc) {
  const std::int64_t a = na.integer, b = nb.integer, c = nc.integer;
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b), uc = static_cast<std::uint64_t>(c);
  auto number = [bits](std::uint64_t x) { return Number{0, wrapped(x, bits)}; };
  switch (op) {
    case Op::copy:
    case Op::check:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
      return na;
    case Op::neg:
      return number(0 - ua);
    case Op::square:
      return number(ua * ua);
    case Op::abs:
      return number(a < 0 ? 0 - ua : ua);
    case Op::sign:
      return {0, (a > 0) - (a < 0)};
    case Op::add:
      return number(ua + ub);
    case Op::sub:
      return number(ua - ub);
    case Op::mul:
      return number(ua * ub);
    case Op::fma:
      return number(ua * ub + uc);
    case Op::floor_divide:
      return number(static_cast<std::uint64_t>(integer_quotient(a, b)));
    case Op::remainder:
      return number(ua - ub * static_cast<std::uint64_t>(integer_quotient(a, b)));
    case Op::pow:
      return number(static_cast<std::uint64_t>(integer_power(a, b)));
    case Op::maximum:
      return {0, std::max(a, b)};
    case Op::minimum:
      return {0, std::min(a, b)};
    case Op::eq:
      return truth(a == b);
    case Op::ne:
      return truth(a != b);
    case Op::lt:
      return truth(a < b);
    case Op::le:
      return truth(a <= b);
    case Op::gt:
      return truth(a > b);
    case Op::ge:
      return truth(a >= b);
    case Op::bitwise_and:
      return number(ua & ub);
    case Op::bitwise_or:
      return number(ua | ub);
    case Op::bitwise_xor:
      return number(ua ^ ub);
    case Op::bitwise_left_shift:
      return number(b >= 0 && b < bits ? ua << b : 0);
    case Op::bitwise_right_shift:
      return {0, a >> (b >= 0 && b < bits ? b : 63)};
    case Op::logical_not:
      return truth(!a);
    case Op::logical_and:
      return truth(a && b);
    case Op::logical_or:
      return truth(a || b);
    case Op::logical_xor:
      return truth(!a != !b);
    case Op::where:
      return a ? nb : nc;
    default:
      fail(Error::Kind::value, "internal: {} has no meaning on integers in a sweep", info(op).name);
  }
}

}  // namespace ebb
