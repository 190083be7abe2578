// SPDX-License-Identifier: MIT
#include "cpu/tile/special.h"

#include <math.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace ebb::cpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// B(2k) / (2k)!, k = 1.., for Euler-Maclaurin.
constexpr double kBernoulliOverFactorial[] = {0.08333333333333333,    -0.001388888888888889,   3.306878306878307e-05,
                                              -8.267195767195768e-07, 2.08767569878681e-08,    -5.284190138687493e-10,
                                              1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15,
                                              -2.174868698558062e-16};

// psi(x + 1) = psi(x) + 1/x until x is large, there psi(x) = log x - 1/(2x) - sum B(2k) / (2k x^2k).
template <class T>
T digamma_positive(T x, T large) {
  T shift = 0;
  for (; x < large; x += 1) shift += 1 / x;
  const T z = 1 / (x * x), one = 1;
  const T series =
      z * (one / 12 - z * (one / 120 - z * (one / 252 - z * (one / 240 - z * (one / 132 - z * (one * 691 / 32760))))));
  return std::log(x) - one / 2 / x - series - shift;
}

// Close to the positive root the parts above cancel; the Taylor series around the root does not.
double digamma_near_root(double x) {
  constexpr double kRootHigh = 1.4616321449683622, kRootLow = 9.549995429965697e-17;
  const double d = (x - kRootHigh) - kRootLow;
  return d * (0.96767224544762117 + d * (-0.44276316898359211 + d * (0.25849976095565101 - d * 0.16394270544240653)));
}

// psi(1 - x) - psi(x) = pi / tan(pi x).
template <class T>
T digamma_negative(T x, T large) {
  const T fraction = x - std::round(x);  // tan has period 1 here; the fraction is exact
  return digamma_positive(1 - x, large) - std::numbers::pi_v<T> / std::tan(std::numbers::pi_v<T> * fraction);
}

// Hurwitz zeta(s, x) = sum over k >= 0 of (x + k)^-s for integer s >= 2 and x > 0, by Euler-Maclaurin from x + k >= 12.
double hurwitz_zeta(double s, double x) {
  double sum = 0;
  for (; x < 12; x += 1) {
    const double term = std::pow(x, -s);
    sum += term;
    if (term < sum * 1e-18) return sum;
  }
  const double power = std::pow(x, -s);
  double tail = power * x / (s - 1) + power / 2, factor = s * power / x;
  for (int k = 0; k < 10; ++k) {
    tail += kBernoulliOverFactorial[k] * factor;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / (x * x);
  }
  return sum + tail;
}

}  // namespace

// Reentrant: the plain function writes a global.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

// A pole at 0, -1, -2, ...: minus infinity's side at 0, NaN at the others. There is a root between any two of them,
// where the parts cancel: for a float within 1e-9 of one, double leaves 23 bits.
double digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  if (x > 0) return std::abs(x - 1.4616321449683622) < 1e-3 ? digamma_near_root(x) : digamma_positive(x, 12.0);
  if (x == -kInf || x == std::floor(x)) return kNaN;
  if (x != x) return x;
  const double quick = digamma_negative(x, 12.0);
  return std::abs(quick) < 1e-4 ? static_cast<double>(digamma_negative<long double>(x, 50)) : quick;
}

// polygamma(n, x) = (-1)^(n+1) n! zeta(n+1, x). For x < 0 the sum over all integers, which depends only on the fraction
// of x, less the half of it that zeta leaves out: zeta(s, x) = zeta(s, f) + (-1)^s (zeta(s, 1 - f) - zeta(s, 1 - x)).
double polygamma(double n, double x) {
  if (!(n >= 0) || n != std::floor(n) || n > 1e6) return kNaN;
  if (n == 0) return digamma(x);
  if (x != x) return x;
  const bool odd = std::fmod(n, 2) == 1;
  const double sign = odd ? 1 : -1, s = n + 1;
  if (x == kInf) return sign * 0.0;
  if (x == -kInf) return kNaN;
  double zeta;
  if (x > 0) {
    zeta = hurwitz_zeta(s, x);
  } else if (x == std::floor(x)) {
    zeta = kInf;
  } else {
    const double f = x - std::floor(x), side = odd ? 1 : -1;
    zeta = hurwitz_zeta(s, f) + side * (hurwitz_zeta(s, 1 - f) - hurwitz_zeta(s, 1 - x));
  }
  return sign * std::tgamma(s) * zeta;
}

namespace {

template <class T, double (*kFunction)(double)>
void unary_loop(void* out, const void* a, const void*, const void*, std::size_t n) {
  T* o = static_cast<T*>(out);
  const T* x = static_cast<const T*>(a);
  for (std::size_t i = 0; i < n; ++i) o[i] = static_cast<T>(kFunction(static_cast<double>(x[i])));
}

template <class T, unsigned kScalar>
void polygamma_loop(void* out, const void* a, const void* b, const void*, std::size_t n) {
  T* o = static_cast<T*>(out);
  const T *order = static_cast<const T*>(a), *x = static_cast<const T*>(b);
  for (std::size_t i = 0; i < n; ++i)
    o[i] = static_cast<T>(
        polygamma(static_cast<double>(order[kScalar & 1 ? 0 : i]), static_cast<double>(x[kScalar & 2 ? 0 : i])));
}

template <class T>
ElementwiseFn kernel(Op op, unsigned mask) {
  switch (op) {
    case Op::lgamma:
      return mask == 0 ? &unary_loop<T, log_gamma> : nullptr;
    case Op::digamma:
      return mask == 0 ? &unary_loop<T, digamma> : nullptr;
    case Op::polygamma:
      return mask == 0 ? &polygamma_loop<T, 0> : mask == 1 ? &polygamma_loop<T, 1> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

ElementwiseFn special_kernel(Op op, RegType type, unsigned scalar_mask) {
  return type == RegType::f32 ? kernel<float>(op, scalar_mask) : kernel<double>(op, scalar_mask);
}

}  // namespace ebb::cpu
