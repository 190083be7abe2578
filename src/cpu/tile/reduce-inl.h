// SPDX-License-Identifier: MIT
// Building blocks of float reductions: the operations, numbers of memory as vectors, sums in double.
#if defined(EBB_CPU_TILE_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_TILE_REDUCE_INL_H_
#undef EBB_CPU_TILE_REDUCE_INL_H_
#else
#define EBB_CPU_TILE_REDUCE_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/tile/half-inl.h"
#include "cpu/tile/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {

// A reduction so far, in vectors. A compiler-generated constructor would be for a different target than the vectors' on
// ARM.
template <class F, class D>
struct Running {
  using V = hn::Vec<D>;
  V value;
  HWY_INLINE Running() {}
  HWY_INLINE void start(D d) { value = hn::Set(d, static_cast<hn::TFromD<D>>(F::kIdentity)); }
  HWY_INLINE void add(D, V x) { value = F::many(value, x); }
  HWY_INLINE V result(D) const { return value; }
};
// IEEE 754's maximum (minimum) of f32 in four instructions where the target has none: comparisons alone lose NaN and
// the sign of zero, so both are tracked separately. Doubled bits order by magnitude, NaN above infinity; a maximum that
// is zero is -0 if all signs were negative, a minimum if one was.
template <bool kLargest, class D>
struct RunningExtreme {
  using V = hn::Vec<D>;
  using Bits = hn::Rebind<std::uint32_t, D>;
  V value, signs;
  hn::Vec<Bits> magnitude;
  HWY_INLINE RunningExtreme() {}
  HWY_INLINE void start(D d) {
    constexpr float inf = std::numeric_limits<float>::infinity();
    value = hn::Set(d, kLargest ? -inf : inf);
    signs = kLargest ? hn::SignBit(d) : hn::Zero(d);
    magnitude = hn::Zero(Bits());
  }
  HWY_INLINE void add(D, V x) {
    value = kLargest ? hn::Max(value, x) : hn::Min(value, x);
    signs = kLargest ? hn::And(signs, x) : hn::Or(signs, x);
    const auto bits = hn::BitCast(Bits(), x);
    magnitude = hn::Max(magnitude, hn::Add(bits, bits));
  }
  HWY_INLINE V result(D d) const {
    const auto nan = hn::Gt(hn::ShiftRight<1>(magnitude), hn::Set(Bits(), 0x7f800000u));
    const V zero = hn::And(signs, hn::SignBit(d));
    const V number = hn::IfThenElse(hn::Eq(value, hn::Zero(d)), zero, value);
    return hn::IfThenElse(hn::RebindMask(d, nan), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), number);
  }
};

struct Sum {
  static constexpr bool kAnyOrder = false;
  static constexpr double kIdentity = 0;
  template <class T>
  static T one(T a, T b) {
    return a + b;
  }
  template <class V>
  static HWY_INLINE V many(V a, V b) {
    return hn::Add(a, b);
  }
};
struct Prod {
  static constexpr bool kAnyOrder = false;
  static constexpr double kIdentity = 1;
  template <class T>
  static T one(T a, T b) {
    return a * b;
  }
  template <class V>
  static HWY_INLINE V many(V a, V b) {
    return hn::Mul(a, b);
  }
};
struct Max {
  static constexpr bool kAnyOrder = true;
  static constexpr double kIdentity = -std::numeric_limits<double>::infinity();
  template <class T>
  static T one(T a, T b) {
    if (a != a || b != b) return a + b;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
  template <class V>
  static HWY_INLINE V many(V a, V b) {
    return larger(a, b);
  }
};
struct Min {
  static constexpr bool kAnyOrder = true;
  static constexpr double kIdentity = std::numeric_limits<double>::infinity();
  template <class T>
  static T one(T a, T b) {
    if (a != a || b != b) return a + b;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
  template <class V>
  static HWY_INLINE V many(V a, V b) {
    return smaller(a, b);
  }
};

#if HWY_TARGET == HWY_NEON
template <class F, class D>
using State = Running<F, D>;
#else
template <class F, class D>
using State = std::conditional_t<F::kAnyOrder && std::is_same_v<hn::TFromD<D>, float>,
                                 RunningExtreme<std::is_same_v<F, Max>, D>, Running<F, D>>;
#endif

// Loads elements of memory as a vector of numbers: f16 and bf16 become f32.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_memory(D d, const T* p) {
  if constexpr (sizeof(T) > 2) {
    return hn::LoadU(d, p);
  } else {
    const hn::Rebind<std::uint16_t, D> narrow;
    const hn::Rebind<std::uint32_t, D> wide;
    const auto bits = hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(p)));
    if constexpr (std::is_same_v<T, BFloat16>) return hn::BitCast(d, hn::ShiftLeft<16>(bits));
    // f16_value (half-inl.h).
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(wide, 0x7fffu)));
    const auto scaled = hn::BitCast(wide, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
    const auto special = hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(wide, 0x0f7fffffu)), hn::Set(wide, 0x7f800000u));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(wide, 0x8000u)));
    return hn::BitCast(d, hn::Or(sign, hn::Or(scaled, special)));
  }
}
template <class T>
HWY_INLINE T element(T x) {
  return x;
}
HWY_INLINE float element(BFloat16 x) { return bf16_value(x.bits); }
HWY_INLINE float element(Half x) { return f16_value(x.bits); }

// Widens a vector to double: to two vectors where it fills the registers.
template <class D>
struct Doubles {
  static constexpr bool kSplit = kLanes<D> > kLanes<hn::ScalableTag<double>>;
  static constexpr std::size_t kParts = kSplit ? 2 : 1, kSize = kLanes<D> / kParts;
  using Part = hn::CappedTag<double, kSize>;
  using V = hn::Vec<Part>;
  static HWY_INLINE void convert(hn::Vec<D> v, V* to) {
    if constexpr (std::is_same_v<hn::TFromD<D>, double>) {
      to[0] = v;
    } else if constexpr (!kSplit) {
      to[0] = hn::PromoteTo(Part(), v);
    }
#if HWY_TARGET != HWY_SCALAR
    else {
      const hn::Half<D> half;
      to[0] = hn::PromoteTo(Part(), hn::LowerHalf(half, v));
      to[1] = hn::PromoteTo(Part(), hn::UpperHalf(half, v));
    }
#endif
  }
  // And back, rounded once.
  static HWY_INLINE hn::Vec<D> narrow(const V* from) {
    if constexpr (std::is_same_v<hn::TFromD<D>, double>) {
      return from[0];
    } else if constexpr (!kSplit) {
      return rounded_to_floats(D(), from[0]);
    }
#if HWY_TARGET != HWY_SCALAR
    else {
      const hn::Half<D> half;
      return hn::Combine(D(), rounded_to_floats(half, from[1]), rounded_to_floats(half, from[0]));
    }
#endif
  }
};

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
