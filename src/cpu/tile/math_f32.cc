// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/math_f32.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "cpu/tile/math_functions-inl.h"
#include "cpu/tile/math_gamma-inl.h"
#include "cpu/tile/scalar-inl.h"

// Transcendental functions on f32 tiles: the common ones in f32, the others in f64 where they need no special care.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

struct Pow {
  template <class D, class V>
  static HWY_INLINE V call(D d, V x, V y) {
    return pow_short(d, x, y);
  }
  template <class D, class V>
  static HWY_INLINE hn::Mask<D> plain(D d, V x, V y) {
    return pow_is_plain(d, x, y);
  }
  template <class D, class V>
  static HWY_INLINE V call_plain(D d, V x, V y) {
    return pow_short_plain(d, x, y);
  }
};
// x^(kHalves/2) by products and a root: several times faster than through logarithms, and rounded once as well.
template <int kHalves>
struct PowOfHalves {
  template <class D, class V>
  static HWY_INLINE V call(D d, V x) {
    return pow_specials(d, x, constant(d, 0.5 * kHalves), magnitude(hn::Abs(x)));
  }
  template <class D, class V>
  static HWY_INLINE hn::Mask<D> plain(D d, V x, V) {
    return pow_is_plain(d, x, constant(d, 1));
  }
  template <class D, class V>
  static HWY_INLINE V call_plain(D, V x, V) {
    return magnitude(x);
  }
  template <class V>
  static HWY_INLINE V magnitude(V x) {
    if constexpr (kHalves == 1) return hn::Sqrt(x);
    const V square = hn::Mul(x, x);
    if constexpr (kHalves == 3) return hn::Mul(x, hn::Sqrt(x));
    if constexpr (kHalves == 5) return hn::Mul(square, hn::Sqrt(x));
    if constexpr (kHalves == 6) return hn::Mul(square, x);
    if constexpr (kHalves == 8) return hn::Mul(square, square);
  }
};
// The same exponent for all.
void pow_by_number(void* out, const void* x, const void* exponent, const void*, std::size_t n) {
  const float y = *static_cast<const float*>(exponent);
  if (y == 0.5f) return costly_loop<PowOfHalves<1>, InDouble, 1, 4>(out, x, nullptr, n, 0);
  if (y == 1.5f) return costly_loop<PowOfHalves<3>, InDouble, 1, 4>(out, x, nullptr, n, 0);
  if (y == 2.5f) return costly_loop<PowOfHalves<5>, InDouble, 1, 4>(out, x, nullptr, n, 0);
  if (y == 3.0f) return costly_loop<PowOfHalves<6>, InDouble, 1, 4>(out, x, nullptr, n, 0);
  if (y == 4.0f) return costly_loop<PowOfHalves<8>, InDouble, 1, 4>(out, x, nullptr, n, 0);
  costly_loop<Pow, InDouble, 2, 4>(out, x, exponent, n, 2);
}
struct Atan2 {
  template <class D, class V>
  static HWY_INLINE V call(D d, V y, V x) {
    return HWY_NAMESPACE::atan2(d, y, x);
  }
};
// Squares of f32 neither overflow nor underflow in f64.
struct Hypot {
  template <class D, class V>
  static HWY_INLINE V call(D d, V x, V y) {
    const V inf = hn::Inf(d), r = hn::Sqrt(hn::MulAdd(x, x, hn::Mul(y, y)));
    return hn::IfThenElse(hn::Or(hn::Eq(hn::Abs(x), inf), hn::Eq(hn::Abs(y), inf)), inf, r);
  }
};

// The same order for all: trigamma, which is the derivative of digamma, has a vector form.
void polygamma_by_order(void* out, const void* order, const void* x, const void*, std::size_t n) {
  if (*static_cast<const float*>(order) == 1.0f) return costly_loop<Trigamma, InDouble, 1, 2>(out, x, nullptr, n, 0);
  special_kernel(Op::polygamma, RegType::f32, 1)(out, order, x, nullptr, n);
}

}  // namespace

ElementwiseFn math_kernel_f32(Op op, unsigned mask) {
  switch (op) {
#define EBB_CASE(name, OfF32, Access, ...) \
  case Op::name:                           \
    return costly_unary<OfF32, Access>(mask);
    EBB_MATH_UNARY(EBB_CASE)
#undef EBB_CASE
    case Op::lgamma:
      return costly_unary<Lgamma, InDouble, 2>(mask);
    case Op::digamma:
      return costly_unary<Digamma, InDouble, 2>(mask);
    case Op::polygamma:
      return mask == 1 ? &polygamma_by_order : nullptr;
    case Op::pow:
      return mask == 2 ? &pow_by_number : costly_binary<Pow, InDouble>(mask);
    case Op::atan2:
      return costly_binary<Atan2, InDouble, 2>(mask);
    case Op::hypot:
      return costly_binary<Hypot, InDouble>(mask);
    default:
      return nullptr;
  }
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
