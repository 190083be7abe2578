#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/math_f32.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "cpu/tile/math_functions-inl.h"

// Transcendental functions on f32 tiles: the common ones in f32, the others in f64 where they need no care.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

EBB_UNARY(Erf, erf)
EBB_UNARY(Erfc, erfc_short)

template <Trig kFunction>
struct Circular {
  template <class D, class V>
  static HWY_INLINE V call(D d, V x) {
    return trig<kFunction, true>(d, x);
  }
  template <class D, class V>
  static HWY_INLINE hn::Mask<D> plain(D d, V x, V) {
    return trig_in_range<true>(d, x);
  }
  template <class D, class V>
  static HWY_INLINE V call_plain(D d, V x, V) {
    return trig_ordinary<kFunction, true>(d, x);
  }
};

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
// One exponent for all.
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

}  // namespace

ElementwiseFn math_kernel_f32(Op op, unsigned mask) {
  using F32 = SameType<float>;
  switch (op) {
    case Op::exp:
      return costly_unary<Exp, F32>(mask);
    case Op::exp2:
      return costly_unary<Exp2, F32>(mask);
    case Op::expm1:
      return costly_unary<Expm1, F32>(mask);
    case Op::log:
      return costly_unary<Log, F32>(mask);
    case Op::log2:
      return costly_unary<Log2, F32>(mask);
    case Op::log10:
      return costly_unary<Log10, F32>(mask);
    case Op::log1p:
      return costly_unary<Log1p, F32>(mask);
    case Op::tanh:
      return costly_unary<Tanh, F32>(mask);
    case Op::erf:
      return costly_unary<Erf, F32>(mask);
    case Op::sinh:
      return costly_unary<Sinh, F32>(mask);
    case Op::cosh:
      return costly_unary<Cosh, F32>(mask);
    case Op::erfc:
      return costly_unary<Erfc, InDouble>(mask);
    case Op::asinh:
      return costly_unary<Asinh, InDouble>(mask);
    case Op::acosh:
      return costly_unary<Acosh, InDouble>(mask);
    case Op::atanh:
      return costly_unary<Atanh, InDouble>(mask);
    case Op::asin:
      return costly_unary<Asin, InDouble>(mask);
    case Op::acos:
      return costly_unary<Acos, InDouble>(mask);
    case Op::atan:
      return costly_unary<Atan, InDouble>(mask);
    case Op::cbrt:
      return costly_unary<Cbrt, InDouble>(mask);
    case Op::sin:
      return costly_unary<Circular<Trig::sin>, InDouble>(mask);
    case Op::cos:
      return costly_unary<Circular<Trig::cos>, InDouble>(mask);
    case Op::tan:
      return costly_unary<Circular<Trig::tan>, InDouble>(mask);
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
