// SPDX-License-Identifier: MIT
// The loops of all elementwise kernels. An operation is a struct with a static call(d, a[, b[, c]]) on
// vectors.
#if defined(EBB_CPU_TILE_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_TILE_LOOPS_INL_H_
#undef EBB_CPU_TILE_LOOPS_INL_H_
#else
#define EBB_CPU_TILE_LOOPS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "cpu/tile/kernels.h"

// Wraps functions of one vector for costly_loop; one with a faster form for vectors in which every lane is
// plain.
#undef EBB_UNARY
#undef EBB_UNARY_WITH_PLAIN
#define EBB_UNARY(Name, function)           \
  struct Name {                             \
    template <class D, class V>             \
    static HWY_INLINE V call(D d, V x) {    \
      return HWY_NAMESPACE::function(d, x); \
    }                                       \
  };
#define EBB_UNARY_WITH_PLAIN(Name, function, is_plain, plain_function) \
  struct Name {                                                        \
    template <class D, class V>                                        \
    static HWY_INLINE V call(D d, V x) {                               \
      return HWY_NAMESPACE::function(d, x);                            \
    }                                                                  \
    template <class D, class V>                                        \
    static HWY_INLINE hn::Mask<D> plain(D d, V x, V) {                 \
      return HWY_NAMESPACE::is_plain(d, x);                            \
    }                                                                  \
    template <class D, class V>                                        \
    static HWY_INLINE V call_plain(D d, V x, V) {                      \
      return HWY_NAMESPACE::plain_function(d, x);                      \
    }                                                                  \
  };

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Size of a stack array that holds one vector.
template <class D>
inline constexpr std::size_t kLanes = hn::MaxLanes(D());

// a != b, true where one is not a number. (Highway 1.0.3's Ne on AVX-512 is the ordered comparison, false there.)
template <class V>
HWY_INLINE auto not_equal(V a, V b) {
  return hn::Not(hn::Eq(a, b));
}

// IEEE 754's maximum and minimum: NaN if either is NaN, and -0 below +0. NEON has them (Highway's Max and Min ignore
// NaN); elsewhere both orders are tried, and of zeros with different signs the bits are combined.
#if HWY_TARGET == HWY_NEON
HWY_INLINE hn::Vec128<float> larger(hn::Vec128<float> a, hn::Vec128<float> b) {
  return hn::Vec128<float>(vmaxq_f32(a.raw, b.raw));
}
HWY_INLINE hn::Vec128<double> larger(hn::Vec128<double> a, hn::Vec128<double> b) {
  return hn::Vec128<double>(vmaxq_f64(a.raw, b.raw));
}
HWY_INLINE hn::Vec128<float> smaller(hn::Vec128<float> a, hn::Vec128<float> b) {
  return hn::Vec128<float>(vminq_f32(a.raw, b.raw));
}
HWY_INLINE hn::Vec128<double> smaller(hn::Vec128<double> a, hn::Vec128<double> b) {
  return hn::Vec128<double>(vminq_f64(a.raw, b.raw));
}
// Parts of a vector.
template <std::size_t kSize>
requires(kSize < 4) HWY_INLINE hn::Vec128<float, kSize> larger(hn::Vec128<float, kSize> a, hn::Vec128<float, kSize> b) {
  return hn::Vec128<float, kSize>(vmax_f32(a.raw, b.raw));
}
template <std::size_t kSize>
requires(kSize < 4) HWY_INLINE hn::Vec128<float, kSize> smaller(hn::Vec128<float, kSize> a,
                                                                hn::Vec128<float, kSize> b) {
  return hn::Vec128<float, kSize>(vmin_f32(a.raw, b.raw));
}
HWY_INLINE hn::Vec128<double, 1> larger(hn::Vec128<double, 1> a, hn::Vec128<double, 1> b) {
  return hn::Vec128<double, 1>(vmax_f64(a.raw, b.raw));
}
HWY_INLINE hn::Vec128<double, 1> smaller(hn::Vec128<double, 1> a, hn::Vec128<double, 1> b) {
  return hn::Vec128<double, 1>(vmin_f64(a.raw, b.raw));
}
#else
template <class V>
HWY_INLINE V larger(V a, V b) {
  const V ab = hn::IfThenElse(hn::Gt(a, b), a, b), ba = hn::IfThenElse(hn::Gt(b, a), b, a);
  return hn::IfThenElse(hn::Eq(ab, ba), hn::And(ab, ba), hn::Add(a, b));  // unequal only where one is NaN
}
template <class V>
HWY_INLINE V smaller(V a, V b) {
  const V ab = hn::IfThenElse(hn::Lt(a, b), a, b), ba = hn::IfThenElse(hn::Lt(b, a), b, a);
  return hn::IfThenElse(hn::Eq(ab, ba), hn::Or(ab, ba), hn::Add(a, b));
}
#endif

template <class F, int kArity, class D, class V>
HWY_INLINE V call(D d, V a, V b, V c) {
  if constexpr (kArity == 1) return F::call(d, a);
  if constexpr (kArity == 2) return F::call(d, a, b);
  if constexpr (kArity == 3) return F::call(d, a, b, c);
}

// Cheap operations: scalar operands stay in a register, four vectors per iteration, a copy of the body for the tail.
template <class F, class T, int kArity, unsigned kScalar>
void cheap_loop(void* out, const void* a, const void* b, const void* c, std::size_t n) {
  if (n == 0) return;
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  T* o = static_cast<T*>(out);
  const T* in[3] = {static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const T*>(c)};

  const V zero = hn::Zero(d);
  const V sa = kScalar & 1 ? hn::Set(d, *in[0]) : zero;
  const V sb = kScalar & 2 ? hn::Set(d, *in[1]) : zero;
  const V sc = kScalar & 4 ? hn::Set(d, *in[2]) : zero;
  const auto step = [&](T* po, const T* const* p, std::size_t at) HWY_ATTR {
    V va = sa, vb = sb, vc = sc;
    if constexpr (!(kScalar & 1)) va = hn::LoadU(d, p[0] + at);
    if constexpr (kArity > 1 && !(kScalar & 2)) vb = hn::LoadU(d, p[1] + at);
    if constexpr (kArity > 2 && !(kScalar & 4)) vc = hn::LoadU(d, p[2] + at);
    hn::StoreU(call<F, kArity>(d, va, vb, vc), d, po + at);
  };

  std::size_t i = 0;
  // All loads before all stores: the compiler must assume that a store changes later loads, and could not pair them
  // otherwise.
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    V va[4], vb[4], vc[4];
    for (std::size_t k = 0; k < 4; ++k) {
      va[k] = kScalar & 1 ? sa : hn::LoadU(d, in[0] + i + k * lanes);
      vb[k] = kArity < 2 || (kScalar & 2) ? sb : hn::LoadU(d, in[1] + i + k * lanes);
      vc[k] = kArity < 3 || (kScalar & 4) ? sc : hn::LoadU(d, in[2] + i + k * lanes);
    }
    for (std::size_t k = 0; k < 4; ++k) va[k] = call<F, kArity>(d, va[k], vb[k], vc[k]);
    for (std::size_t k = 0; k < 4; ++k) hn::StoreU(va[k], d, o + i + k * lanes);
  }
  for (; i + lanes <= n; i += lanes) step(o, in, i);
  if (i < n) {
    T tail[4][kLanes<decltype(d)>] = {};
    const std::size_t bytes = (n - i) * sizeof(T);
    for (int k = 0; k < kArity; ++k)
      if (!(kScalar >> k & 1)) std::memcpy(tail[k], in[k] + i, bytes);
    const T* const padded[3] = {tail[0], tail[1], tail[2]};
    step(tail[3], padded, 0);
    std::memcpy(o + i, tail[3], bytes);
  }
}

// Memory and vectors of one type.
template <class T>
struct SameType {
  using D = hn::ScalableTag<T>;
  using Memory = T;
  static HWY_INLINE hn::Vec<D> load(D d, const T* p) { return hn::LoadU(d, p); }
  static HWY_INLINE void store(D d, hn::Vec<D> v, T* p) { hn::StoreU(v, d, p); }
};

// f64 as as many f32, each rounded once. Highway's fallback turns an infinity into the largest float.
template <class D>
HWY_INLINE hn::Vec<D> rounded_to_floats(D d, hn::Vec<hn::Rebind<double, D>> v) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  double wide[kLanes<D>];
  float lanes[kLanes<D>];
  hn::StoreU(v, hn::Rebind<double, D>(), wide);
  for (std::size_t i = 0; i < kLanes<D>; ++i) lanes[i] = static_cast<float>(wide[i]);
  return hn::LoadU(d, lanes);
#else
  return hn::DemoteTo(d, v);
#endif
}

// f32 in memory, computed in f64: for functions where the doubled precision saves more than the doubled width costs.
struct InDouble {
  using D = hn::ScalableTag<double>;
  using Memory = float;
  using Narrow = hn::Rebind<float, D>;
  static HWY_INLINE hn::Vec<D> load(D d, const float* p) { return hn::PromoteTo(d, hn::LoadU(Narrow(), p)); }
  static HWY_INLINE void store(D, hn::Vec<D> v, float* p) { hn::StoreU(rounded_to_floats(Narrow(), v), Narrow(), p); }
};

// Expensive operations: one copy of the body. A tail is computed in a padded copy; a scalar operand is a short repeated
// tile whose pointer does not move. An operation may have a call_plain, faster and the same to the bit, for vectors
// where plain holds for every lane; several vectors are taken together so that their chains of operations overlap.
template <class F, class Access, int kArity, std::size_t kUnroll>
HWY_NOINLINE void costly_loop(void* out, const void* a, const void* b, std::size_t n, unsigned scalar_mask) {
  using D = typename Access::D;
  using T = typename Access::Memory;
  using V = hn::Vec<D>;
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  T* o = static_cast<T*>(out);
  const T* in[2] = {static_cast<const T*>(a), static_cast<const T*>(b)};
  T repeated[2][kLanes<D>], tail[3][kLanes<D>] = {};
  std::size_t move[2] = {1, 1};
  for (int k = 0; k < kArity && n > 0; ++k)
    if (scalar_mask >> k & 1) {
      for (std::size_t i = 0; i < lanes; ++i) repeated[k][i] = *in[k];
      in[k] = repeated[k];
      move[k] = 0;
    }
  std::size_t i = 0;
  const std::size_t group = kUnroll * lanes;
  if constexpr (requires(V v) { F::plain(d, v, v); }) {
    while (i + group <= n) {
      // Only plain vectors here, so that the constants stay in registers.
      for (; i + group <= n; i += group) {
        V va[kUnroll], vb[kUnroll];
        for (std::size_t k = 0; k < kUnroll; ++k) {
          va[k] = Access::load(d, in[0] + (i + k * lanes) * move[0]);
          if constexpr (kArity > 1) vb[k] = Access::load(d, in[1] + (i + k * lanes) * move[1]);
        }
        auto plain = F::plain(d, va[0], vb[0]);
        for (std::size_t k = 1; k < kUnroll; ++k) plain = hn::And(plain, F::plain(d, va[k], vb[k]));
        if (HWY_UNLIKELY(!hn::AllTrue(d, plain))) break;
        for (std::size_t k = 0; k < kUnroll; ++k) va[k] = F::call_plain(d, va[k], vb[k]);
        for (std::size_t k = 0; k < kUnroll; ++k) Access::store(d, va[k], o + i + k * lanes);
      }
      const std::size_t end = i + group <= n ? i + group : i;
#pragma GCC unroll 1
      for (; i < end; i += lanes) {
        const V va = Access::load(d, in[0] + i * move[0]);
        if constexpr (kArity == 1) Access::store(d, F::call(d, va), o + i);
        if constexpr (kArity == 2) Access::store(d, F::call(d, va, Access::load(d, in[1] + i * move[1])), o + i);
      }
    }
  } else if constexpr (kUnroll > 1) {
    for (; i + group <= n; i += group) {
      V v[kUnroll];
      for (std::size_t k = 0; k < kUnroll; ++k) {
        const V va = Access::load(d, in[0] + (i + k * lanes) * move[0]);
        if constexpr (kArity == 1) v[k] = F::call(d, va);
        if constexpr (kArity == 2) v[k] = F::call(d, va, Access::load(d, in[1] + (i + k * lanes) * move[1]));
      }
      for (std::size_t k = 0; k < kUnroll; ++k) Access::store(d, v[k], o + i + k * lanes);
    }
  }
  for (; i < n; i += lanes) {
    T* po = o + i;
    const T* pa = in[0] + i * move[0];
    const T* pb = kArity > 1 ? in[1] + i * move[1] : nullptr;
    const bool last = HWY_UNLIKELY(n - i < lanes);
    if (last) {
      const std::size_t bytes = (n - i) * sizeof(T);
      std::memcpy(tail[0], pa, bytes), pa = tail[0];
      if (kArity > 1) std::memcpy(tail[1], pb, bytes), pb = tail[1];
      po = tail[2];
    }
    const V va = Access::load(d, pa);
    if constexpr (kArity == 1) Access::store(d, F::call(d, va), po);
    if constexpr (kArity == 2) Access::store(d, F::call(d, va, Access::load(d, pb)), po);
    if (last) std::memcpy(o + i, tail[2], (n - i) * sizeof(T));
  }
}

template <class F, class Access, int kArity, unsigned kScalar, std::size_t kUnroll>
void costly_entry(void* out, const void* a, const void* b, const void*, std::size_t n) {
  costly_loop<F, Access, kArity, kUnroll>(out, a, b, n, kScalar);
}

// Chooses the loop for a scalar mask. All operands scalar is not a loop: the interpreter computes one number instead.
template <class F, class T>
ElementwiseFn cheap_unary(unsigned mask) {
  return mask == 0 ? &cheap_loop<F, T, 1, 0> : nullptr;
}
template <class F, class T>
ElementwiseFn cheap_binary(unsigned mask) {
  switch (mask) {
    case 0:
      return &cheap_loop<F, T, 2, 0>;
    case 1:
      return &cheap_loop<F, T, 2, 1>;
    case 2:
      return &cheap_loop<F, T, 2, 2>;
    default:
      return nullptr;
  }
}
template <class F, class T>
ElementwiseFn cheap_ternary(unsigned mask) {
  switch (mask) {
    case 0:
      return &cheap_loop<F, T, 3, 0>;
    case 1:
      return &cheap_loop<F, T, 3, 1>;
    case 2:
      return &cheap_loop<F, T, 3, 2>;
    case 3:
      return &cheap_loop<F, T, 3, 3>;
    case 4:
      return &cheap_loop<F, T, 3, 4>;
    case 5:
      return &cheap_loop<F, T, 3, 5>;
    case 6:
      return &cheap_loop<F, T, 3, 6>;
    default:
      return nullptr;
  }
}
template <class F, class Access, std::size_t kUnroll = 4>
ElementwiseFn costly_unary(unsigned mask) {
  return mask == 0 ? &costly_entry<F, Access, 1, 0, kUnroll> : nullptr;
}
template <class F, class Access, std::size_t kUnroll = 4>
ElementwiseFn costly_binary(unsigned mask) {
  switch (mask) {
    case 0:
      return &costly_entry<F, Access, 2, 0, kUnroll>;
    case 1:
      return &costly_entry<F, Access, 2, 1, kUnroll>;
    case 2:
      return &costly_entry<F, Access, 2, 2, kUnroll>;
    default:
      return nullptr;
  }
}

// Calls a scalar function on every lane: for functions without a vector form on a target.
template <class D, class Fn>
HWY_INLINE hn::Vec<D> by_lane(D d, hn::Vec<D> a, Fn fn) {
  using T = hn::TFromD<D>;
  T lane[kLanes<D>];
  hn::StoreU(a, d, lane);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = fn(lane[i]);
  return hn::LoadU(d, lane);
}
template <class D, class Fn>
HWY_INLINE hn::Vec<D> by_lane(D d, hn::Vec<D> a, hn::Vec<D> b, Fn fn) {
  using T = hn::TFromD<D>;
  T lane[kLanes<D>], other[kLanes<D>];
  hn::StoreU(a, d, lane);
  hn::StoreU(b, d, other);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = fn(lane[i], other[i]);
  return hn::LoadU(d, lane);
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
