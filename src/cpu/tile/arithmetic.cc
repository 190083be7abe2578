// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/arithmetic.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <cmath>

#include "cpu/tile/loops-inl.h"
#include "cpu/tile/parts-inl.h"
#include "cpu/tile/scalar-inl.h"

// f32 and f64: arithmetic, rounding, comparison, selection.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

struct Copy {
  template <class D, class V>
  static HWY_INLINE V call(D, V a) {
    return a;
  }
};
struct Neg {
  template <class D, class V>
  static HWY_INLINE V call(D, V a) {
    return hn::Neg(a);
  }
};
struct Reciprocal {
  template <class D, class V>
  static HWY_INLINE V call(D d, V a) {
    return hn::Div(hn::Set(d, hn::TFromD<D>(1)), a);
  }
};
struct Square {
  template <class D, class V>
  static HWY_INLINE V call(D, V a) {
    return hn::Mul(a, a);
  }
};
struct Abs {
  template <class D, class V>
  static HWY_INLINE V call(D, V a) {
    return hn::Abs(a);
  }
};
// 0 and NaN are their own signs.
struct Sign {
  template <class D, class V>
  static HWY_INLINE V call(D d, V a) {
    const V one = hn::Set(d, hn::TFromD<D>(1)), zero = hn::Zero(d);
    return hn::IfThenElse(hn::Gt(hn::Abs(a), zero), hn::CopySign(one, a), a);
  }
};
struct Sqrt {
  template <class D, class V>
  static HWY_INLINE V call(D, V a) {
    return hn::Sqrt(a);
  }
};
// y = 1 / sqrt a, rounded twice, and a step of Newton's: y (1 + (1 - a y²) / 2), a y as the sum of two numbers. The
// step turns 0 and infinity into NaN.
struct Rsqrt {
  template <class D, class V>
  static HWY_INLINE V call(D d, V a) {
    using T = hn::TFromD<D>;
    const V one = hn::Set(d, T(1)), y = hn::Div(one, hn::Sqrt(a)), ay = hn::Mul(a, y);
    const V error = hn::MulAdd(hn::NegMulAdd(a, y, ay), y, hn::NegMulAdd(ay, y, one));
    const V better = hn::MulAdd(hn::Mul(y, hn::Set(d, T(0.5))), error, y);
    return hn::IfThenElse(hn::Eq(better, better), better, y);
  }
};
// Highway's scalar fallback loses the sign of a zero.
template <class V>
HWY_INLINE V keep_sign(V rounded, V a) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::CopySign(rounded, a);
#else
  (void)a;
  return rounded;
#endif
}
struct Floor {
  template <class D, class V>
  static HWY_INLINE V call(D, V a) {
    return keep_sign(hn::Floor(a), a);
  }
};
struct Ceil {
  template <class D, class V>
  static HWY_INLINE V call(D, V a) {
    return keep_sign(hn::Ceil(a), a);
  }
};
struct Round {
  template <class D, class V>
  static HWY_INLINE V call(D, V a) {
    return keep_sign(hn::Round(a), a);
  }
};
struct Trunc {
  template <class D, class V>
  static HWY_INLINE V call(D, V a) {
    return keep_sign(hn::Trunc(a), a);
  }
};

struct Add {
  template <class D, class V>
  static HWY_INLINE V call(D, V a, V b) {
    return hn::Add(a, b);
  }
};
struct Sub {
  template <class D, class V>
  static HWY_INLINE V call(D, V a, V b) {
    return hn::Sub(a, b);
  }
};
struct Mul {
  template <class D, class V>
  static HWY_INLINE V call(D, V a, V b) {
    return hn::Mul(a, b);
  }
};
struct Div {
  template <class D, class V>
  static HWY_INLINE V call(D, V a, V b) {
    return hn::Div(a, b);
  }
};
struct Maximum {
  template <class D, class V>
  static HWY_INLINE V call(D, V a, V b) {
    return larger(a, b);
  }
};
struct Minimum {
  template <class D, class V>
  static HWY_INLINE V call(D, V a, V b) {
    return smaller(a, b);
  }
};
struct Fma {
  template <class D, class V>
  static HWY_INLINE V call(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
    (void)d;
    return hn::MulAdd(a, b, c);
#else
    using T = hn::TFromD<D>;
    T lane[3][kLanes<D>];
    hn::StoreU(a, d, lane[0]), hn::StoreU(b, d, lane[1]), hn::StoreU(c, d, lane[2]);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) lane[0][i] = std::fma(lane[0][i], lane[1][i], lane[2][i]);
    return hn::LoadU(d, lane[0]);
#endif
  }
};
struct Where {
  template <class D, class V>
  static HWY_INLINE V call(D, V mask, V a, V b) {
    return hn::IfThenElse(hn::MaskFromVec(mask), a, b);
  }
};

#define EBB_COMPARISON(Name, hn_name)               \
  struct Name {                                     \
    template <class D, class V>                     \
    static HWY_INLINE V call(D d, V a, V b) {       \
      return hn::VecFromMask(d, hn::hn_name(a, b)); \
    }                                               \
  };
EBB_COMPARISON(Eq, Eq)
EBB_COMPARISON(Lt, Lt)
EBB_COMPARISON(Le, Le)
EBB_COMPARISON(Gt, Gt)
EBB_COMPARISON(Ge, Ge)
#undef EBB_COMPARISON

struct Ne {
  template <class D, class V>
  static HWY_INLINE V call(D d, V a, V b) {
    return hn::VecFromMask(d, not_equal(a, b));
  }
};
struct IsNaN {
  template <class D, class V>
  static HWY_INLINE V call(D d, V a) {
    return hn::VecFromMask(d, not_equal(a, a));
  }
};
struct IsInf {
  template <class D, class V>
  static HWY_INLINE V call(D d, V a) {
    return hn::VecFromMask(d, hn::Eq(hn::Abs(a), hn::Inf(d)));
  }
};
struct IsFinite {
  template <class D, class V>
  static HWY_INLINE V call(D d, V a) {
    return hn::VecFromMask(d, hn::Lt(hn::Abs(a), hn::Inf(d)));
  }
};

// Python's a % b: fmod adjusted to the sign of b. Exact except for that one addition.
template <class T>
T python_remainder(T a, T b) {
  T r = std::fmod(a, b);
  if (r == 0) return std::copysign(r, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
// floor(a / b) consistent with the remainder: (a - a % b) / b is an integer up to rounding. b = 0 gives a / b.
template <class T>
T python_floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T mod = std::fmod(a, b);
  T quotient = (a - mod) / b;
  if (mod != 0 && (mod < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  const T down = std::floor(quotient);
  return quotient - down > T(0.5) ? down + 1 : down;
}
struct Remainder {
  template <class D, class V>
  static HWY_INLINE V call(D d, V a, V b) {
    return by_lane(d, a, b, [](auto x, auto y) { return python_remainder(x, y); });
  }
};
struct FloorDivide {
  template <class D, class V>
  static HWY_INLINE V call(D d, V a, V b) {
    return by_lane(d, a, b, [](auto x, auto y) { return python_floor_divide(x, y); });
  }
};

// The same for f32, in f64 if the quotient is below 2^22: one that is not an integer is further from integers than the
// rounding of f64, so its integer part is exact, and so are the product of that with b and the remainder.
template <bool kQuotient>
struct DivisionOfF32 {
  template <class D, class V>
  static HWY_INLINE hn::Mask<D> plain(D d, V a, V b) {
    const V size = hn::Abs(b);
    return hn::And(hn::Lt(hn::Abs(a), hn::Mul(size, hn::Set(d, 0x1p22))), hn::Lt(size, hn::Inf(d)));
  }
  template <class D, class V>
  static HWY_INLINE V call_plain(D d, V a, V b) {
    const V zero = hn::Zero(d), ratio = hn::Div(a, b), whole = hn::Trunc(ratio), rest = hn::NegMulAdd(whole, b, a);
    const auto none = hn::Eq(rest, zero);
    const auto other_sign = hn::AndNot(none, hn::Xor(hn::Lt(rest, zero), hn::Lt(b, zero)));
    if constexpr (kQuotient) {
      const V down = hn::IfThenElse(other_sign, hn::Sub(whole, hn::Set(d, 1.0)), whole);
      return hn::IfThenElse(hn::Eq(down, zero), hn::CopySign(zero, ratio), down);
    } else {
      const V moved = hn::IfThenElse(other_sign, hn::Add(rest, b), rest);
      return hn::IfThenElse(none, hn::CopySign(zero, b), moved);
    }
  }
  template <class D, class V>
  static HWY_INLINE V call(D d, V a, V b) {
    const auto easy = plain(d, a, b);
    const V found = call_plain(d, hn::IfThenElseZero(easy, a), hn::IfThenElse(easy, b, hn::Set(d, 1.0)));
    if (hn::AllTrue(d, easy)) return found;
    return hn::IfThenElse(easy, found, by_lane(d, a, b, [](double x, double y) {
                            const auto p = static_cast<float>(x), q = static_cast<float>(y);
                            return static_cast<double>(kQuotient ? python_floor_divide(p, q) : python_remainder(p, q));
                          }));
  }
};

template <class T>
ElementwiseFn kernel(Op op, unsigned mask) {
  switch (op) {
    case Op::copy:
      return cheap_unary<Copy, T>(mask);
    case Op::neg:
      return cheap_unary<Neg, T>(mask);
    case Op::reciprocal:
      return cheap_unary<Reciprocal, T>(mask);
    case Op::square:
      return cheap_unary<Square, T>(mask);
    case Op::abs:
      return cheap_unary<Abs, T>(mask);
    case Op::sign:
      return cheap_unary<Sign, T>(mask);
    case Op::sqrt:
      return cheap_unary<Sqrt, T>(mask);
    case Op::rsqrt:
      return cheap_unary<Rsqrt, T>(mask);
    case Op::floor:
      return cheap_unary<Floor, T>(mask);
    case Op::ceil:
      return cheap_unary<Ceil, T>(mask);
    case Op::round:
      return cheap_unary<Round, T>(mask);
    case Op::trunc:
      return cheap_unary<Trunc, T>(mask);
    case Op::isnan:
      return cheap_unary<IsNaN, T>(mask);
    case Op::isinf:
      return cheap_unary<IsInf, T>(mask);
    case Op::isfinite:
      return cheap_unary<IsFinite, T>(mask);
    case Op::add:
      return cheap_binary<Add, T>(mask);
    case Op::sub:
      return cheap_binary<Sub, T>(mask);
    case Op::mul:
      return cheap_binary<Mul, T>(mask);
    case Op::div:
      return cheap_binary<Div, T>(mask);
    case Op::maximum:
      return cheap_binary<Maximum, T>(mask);
    case Op::minimum:
      return cheap_binary<Minimum, T>(mask);
    case Op::eq:
      return cheap_binary<Eq, T>(mask);
    case Op::ne:
      return cheap_binary<Ne, T>(mask);
    case Op::lt:
      return cheap_binary<Lt, T>(mask);
    case Op::le:
      return cheap_binary<Le, T>(mask);
    case Op::gt:
      return cheap_binary<Gt, T>(mask);
    case Op::ge:
      return cheap_binary<Ge, T>(mask);
    case Op::check:
      return cheap_unary<Copy, T>(mask & ~2u);  // the interpreter does the checking
    case Op::where:
      return cheap_ternary<Where, T>(mask);
    case Op::fma:
      return cheap_ternary<Fma, T>(mask);
    case Op::remainder:
      if constexpr (std::is_same_v<T, float>) return costly_binary<DivisionOfF32<false>, InDouble>(mask);
      return costly_binary<Remainder, SameType<T>>(mask);
    case Op::floor_divide:
      if constexpr (std::is_same_v<T, float>) return costly_binary<DivisionOfF32<true>, InDouble>(mask);
      return costly_binary<FloorDivide, SameType<T>>(mask);
    default:
      return nullptr;
  }
}

}  // namespace

ElementwiseFn float_kernel(Op op, RegType type, unsigned scalar_mask) {
  return type == RegType::f32 ? kernel<float>(op, scalar_mask) : kernel<double>(op, scalar_mask);
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
