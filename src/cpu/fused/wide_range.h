// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

// Probabilities of alignments: sums of products of thousands of factors e^x with any x. Logarithms would need an exp
// and a log per addition and lose digits; a double underflows. So a number is m·2^(512·k), m in [2^−256, 2^256) or 0,
// and k an integer stored as a double: additions and products take a few instructions that vectorise, and m keeps all
// its digits.
//
// d is the derivative of m in some direction, on the scale of the same k: |d|/m is at most the largest sum of tangents
// along a path, so it needs no scale of its own.

// The loops' inputs and outputs are identical or disjoint.
#if defined(__GNUC__) && !defined(__clang__)
#define EBB_WIDE_LOOP _Pragma("GCC ivdep")
#else
#define EBB_WIDE_LOOP
#endif

namespace ebb::cpu {

inline constexpr double kScaleUp = 0x1p512, kScaleDown = 0x1p-512;
inline constexpr double kWideLow = 0x1p-256, kWideHigh = 0x1p256;
inline constexpr double kLogScale = 354.89135644669197;  // 512·ln 2
inline constexpr double kZeroScale = -1e9;               // k of zero: below every other
inline constexpr double kForbidden = -1e300;             // added to k: below zero's

// Arrays of such numbers; d may be null.
struct WideArray {
  double* m;
  double* k;
  double* d;
  WideArray at(std::int64_t i) const { return {m + i, k + i, d ? d + i : nullptr}; }
};

// Weight of a number of scale k relative to the largest scale.
// (Sums of choices, not chains of them: those become branches.)
inline double beside(double k, double most) {
  const double same = k == most ? 1.0 : 0.0, next = k == most - 1 ? kScaleDown : 0.0;
  return same + next;
}
// Brings a product back into range: returns a factor, and the change of k.
inline double range_factor(double p) {
  const double up = p < kWideLow ? kScaleUp : 0.0, down = p >= kWideHigh ? kScaleDown : 0.0;
  const double low = p >= kWideLow ? 1.0 : 0.0, high = p < kWideHigh ? 1.0 : 0.0;
  return up + down + low * high;
}
inline double range_step(double p) {
  const double up = p >= kWideHigh ? 1.0 : 0.0, down = p < kWideLow ? -1.0 : 0.0;
  return up + down;
}

// A sum may leave the range of m by a factor of three; a product brings it back.
template <bool kDual>
void wide_add(const WideArray& out, const WideArray& a, const WideArray& b, std::int64_t n) {
  EBB_WIDE_LOOP
  for (std::int64_t i = 0; i < n; ++i) {
    const double ka = a.k[i], kb = b.k[i], most = ka > kb ? ka : kb;
    const double fa = beside(ka, most), fb = beside(kb, most);
    const double m = a.m[i] * fa + b.m[i] * fb;
    if constexpr (kDual) out.d[i] = a.d[i] * fa + b.d[i] * fb;
    out.m[i] = m;
    out.k[i] = most;
  }
}

// a + b + c where allow is 0, a + b where it is kForbidden.
template <bool kDual>
void wide_add(const WideArray& out, const WideArray& a, const WideArray& b, const WideArray& c, const double* allow,
              std::int64_t n) {
  EBB_WIDE_LOOP
  for (std::int64_t i = 0; i < n; ++i) {
    const double ka = a.k[i], kb = b.k[i], kc = c.k[i] + allow[i];
    const double most_ab = ka > kb ? ka : kb, most = most_ab > kc ? most_ab : kc;
    const double fa = beside(ka, most), fb = beside(kb, most), fc = beside(kc, most);
    const double m = a.m[i] * fa + b.m[i] * fb + c.m[i] * fc;
    if constexpr (kDual) out.d[i] = a.d[i] * fa + b.d[i] * fb + c.d[i] * fc;
    out.m[i] = m;
    out.k[i] = most;
  }
}

// out = a·y, where y.d is the derivative of log y.
template <bool kDual>
void wide_multiply(const WideArray& out, const WideArray& a, const WideArray& y, std::int64_t n) {
  EBB_WIDE_LOOP
  for (std::int64_t i = 0; i < n; ++i) {
    const double p = a.m[i] * y.m[i];
    const double factor = range_factor(p);
    const double m = p * factor;
    if constexpr (kDual) out.d[i] = a.d[i] * y.m[i] * factor + m * y.d[i];
    out.m[i] = m;
    const double k = a.k[i] + y.k[i] + range_step(p);
    out.k[i] = p == 0 ? kZeroScale : k;
  }
}

// One such number.
struct Wide {
  double m = 0, k = kZeroScale, d = 0;

  static Wide one() { return {1, 0, 0}; }
  static Wide load(const WideArray& a, std::int64_t i) { return {a.m[i], a.k[i], a.d ? a.d[i] : 0}; }
  void store(const WideArray& a, std::int64_t i) const {
    a.m[i] = m;
    a.k[i] = k;
    if (a.d) a.d[i] = d;
  }
  bool is_zero() const { return m == 0; }
  double log() const { return std::log(m) + k * kLogScale; }
  double log_derivative() const { return d / m; }
};

// e^x = e^rest · 2^(512·k): returns rest, for an exponential that the caller computes, and k. −inf gives e^rest = 0.
// Beyond 1e17 x has no digits left for the rest: any value will do.
inline double split_exponent(double x, double* k) {
  if (!std::isfinite(x)) {
    *k = x < 0 ? kZeroScale : 0;
    return x;
  }
  *k = std::floor(x / kLogScale + 0.5);
  const double rest = x - *k * kLogScale;
  return std::fabs(rest) <= 256 ? rest : 0;
}
// The same for an array, in place. No work within ±177.
inline void split_exponents(double* x, double* k, std::int64_t n) {
  double outside = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    k[i] = 0;
    outside += std::fabs(x[i]) <= 177.0 ? 0.0 : 1.0;
  }
  if (outside == 0) return;
  for (std::int64_t i = 0; i < n; ++i) x[i] = split_exponent(x[i], &k[i]);
}
inline Wide wide_exp(double x, double tangent) {
  Wide y;
  y.m = std::exp(split_exponent(x, &y.k));
  y.d = tangent;  // of the logarithm, as wide_multiply takes it
  return y;
}

inline Wide operator+(const Wide& a, const Wide& b) {
  const double most = a.k > b.k ? a.k : b.k, fa = beside(a.k, most), fb = beside(b.k, most);
  return {a.m * fa + b.m * fb, most, a.d * fa + b.d * fb};
}
// y.d is the derivative of log y.
inline Wide times(const Wide& a, const Wide& y) {
  const double p = a.m * y.m;
  const double factor = range_factor(p);
  const double m = p * factor;
  return {m, p == 0 ? kZeroScale : a.k + y.k + range_step(p), a.d * y.m * factor + m * y.d};
}

// Divides by a total: the share a·b/total of the paths through a place, and its derivative.
class Share {
 public:
  explicit Share(const Wide& total) : k_(total.k), inverse_(1 / total.m), slope_(total.d / total.m) {}
  double of(const Wide& a, const Wide& b) const { return a.m * b.m * inverse_ * scale(a.k + b.k - k_); }
  double derivative(const Wide& a, const Wide& b) const {
    return (a.d * b.m + a.m * b.d) * inverse_ * scale(a.k + b.k - k_) - of(a, b) * slope_;
  }

  // The sum of the shares, or of their derivatives, of n places.
  template <bool kDual>
  double sum(const WideArray& a, const WideArray& b, double* share, std::int64_t n) const {
    EBB_WIDE_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      const double s = scale(a.k[i] + b.k[i] - k_) * inverse_, m = a.m[i] * b.m[i] * s;
      if constexpr (kDual) {
        share[i] = (a.d[i] * b.m[i] + a.m[i] * b.d[i]) * s - m * slope_;
      } else {
        share[i] = m;
      }
    }
    double total = 0;
    for (std::int64_t i = 0; i < n; ++i) total += share[i];
    return total;
  }

 private:
  // A share is at most one, so no larger k occurs; a smaller one is negligible.
  static double scale(double k) {
    const double same = k == 0 ? 1.0 : 0.0, less = k == -1 ? kScaleDown : 0.0, more = k == 1 ? kScaleUp : 0.0;
    return same + less + more;
  }
  double k_, inverse_, slope_;
};

}  // namespace ebb::cpu
