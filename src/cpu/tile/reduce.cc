// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/reduce.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/tile/loops-inl.h"
#include "cpu/tile/parts-inl.h"

// Reductions. Floats: 16 lanes whatever the vector's width, so that every machine gives the same bits. Integers: any
// order gives the same result, sums and products are exact modulo 2^64.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

struct Sum {
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

// The lanes of one row of at least 16 elements, then their combination in double.
template <class F, class T>
double reduce_row(const T* a, std::size_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::size_t kVector = kLanes<hn::ScalableTag<T>>;
  constexpr std::size_t kVectors = kSumLanes / kVector;
  static_assert(kSumLanes % kVector == 0);
  T lanes[kSumLanes];
  const V identity = hn::Set(d, static_cast<T>(F::kIdentity));
  const std::size_t whole = n / kSumLanes * kSumLanes;
  if constexpr (kVectors <= 8) {
    V acc[kVectors];
    for (std::size_t k = 0; k < kVectors; ++k) acc[k] = identity;
    for (std::size_t i = 0; i < whole; i += kSumLanes)
      for (std::size_t k = 0; k < kVectors; ++k) acc[k] = F::many(acc[k], hn::LoadU(d, a + i + k * kVector));
    for (std::size_t k = 0; k < kVectors; ++k) hn::StoreU(acc[k], d, lanes + k * kVector);
  } else {
    for (T& lane : lanes) lane = static_cast<T>(F::kIdentity);
    for (std::size_t i = 0; i < whole; i += kSumLanes)
      for (std::size_t k = 0; k < kSumLanes; ++k) lanes[k] = F::one(lanes[k], a[i + k]);
  }
  for (std::size_t i = whole; i < n; ++i) lanes[i - whole] = F::one(lanes[i - whole], a[i]);
  double result = lanes[0];
  for (std::size_t k = 1; k < kSumLanes; ++k) result = F::one(result, static_cast<double>(lanes[k]));
  return result;
}

// Rows shorter than the tree: each lane holds identity combined with one element, empty lanes change nothing.
template <class F, class T>
double reduce_short_row(const T* a, std::size_t n) {
  double result = F::one(static_cast<T>(F::kIdentity), a[0]);
  for (std::size_t i = 1; i < n; ++i)
    result = F::one(result, static_cast<double>(F::one(static_cast<T>(F::kIdentity), a[i])));
  return result;
}

template <class F, class T>
void reduce_floats(void* acc, const void* a, std::size_t rows, std::size_t n) {
  double* out = static_cast<double*>(acc);
  const T* p = static_cast<const T*>(a);
  if (n == 0) return;
  for (std::size_t r = 0; r < rows; ++r, p += n)
    out[r] = F::one(out[r], n < kSumLanes ? reduce_short_row<F>(p, n) : reduce_row<F>(p, n));
}

// Sums of products with the tree above: each product is rounded as an element of a tile would be.
template <class T>
double dot_row(const T* a, const T* b, std::size_t n) {
  const hn::ScalableTag<T> d;
  constexpr std::size_t kVector = kLanes<hn::ScalableTag<T>>;
  constexpr std::size_t kVectors = kSumLanes / kVector;
  T lanes[kSumLanes] = {};
  const std::size_t whole = n / kSumLanes * kSumLanes;
  if constexpr (kVectors <= 8) {
    hn::Vec<decltype(d)> acc[kVectors];
    for (std::size_t k = 0; k < kVectors; ++k) acc[k] = hn::Zero(d);
    for (std::size_t i = 0; i < whole; i += kSumLanes) {
      for (std::size_t k = 0; k < kVectors; ++k) {
        const std::size_t at = i + k * kVector;
        acc[k] = hn::Add(acc[k], hn::Mul(hn::LoadU(d, a + at), hn::LoadU(d, b + at)));
      }
    }
    for (std::size_t k = 0; k < kVectors; ++k) hn::StoreU(acc[k], d, lanes + k * kVector);
  } else {
    for (std::size_t i = 0; i < whole; i += kSumLanes)
      for (std::size_t k = 0; k < kSumLanes; ++k) lanes[k] += a[i + k] * b[i + k];
  }
  for (std::size_t i = whole; i < n; ++i) lanes[i - whole] += a[i] * b[i];
  double result = lanes[0];
  for (std::size_t k = 1; k < std::min(n, kSumLanes); ++k) result += static_cast<double>(lanes[k]);
  return result;
}

template <class T>
void dot_floats(void* acc, const void* a, const void* b, std::size_t rows, std::size_t n) {
  double* out = static_cast<double*>(acc);
  const T *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  if (n == 0) return;
  for (std::size_t r = 0; r < rows; ++r, p += n, q += n) out[r] += dot_row(p, q, n);
}

template <Op kOp, class T>
void reduce_integers(void* acc, const void* a, std::size_t rows, std::size_t n) {
  std::int64_t* out = static_cast<std::int64_t*>(acc);
  const T* p = static_cast<const T*>(a);
  for (std::size_t r = 0; r < rows; ++r, p += n) {
    if constexpr (kOp == Op::sum || kOp == Op::prod) {
      std::uint64_t total = kOp == Op::sum ? 0 : 1;
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t x = static_cast<std::uint64_t>(static_cast<std::int64_t>(p[i]));
        total = kOp == Op::sum ? total + x : total * x;
      }
      const std::uint64_t before = static_cast<std::uint64_t>(out[r]);
      out[r] = static_cast<std::int64_t>(kOp == Op::sum ? before + total : before * total);
    } else if (n > 0) {
      T best = p[0];
      for (std::size_t i = 1; i < n; ++i) best = (kOp == Op::max ? p[i] > best : p[i] < best) ? p[i] : best;
      if (kOp == Op::max ? best > out[r] : best < out[r]) out[r] = best;
    }
  }
}

template <class T>
ReduceFn float_reduction(Op op) {
  switch (op) {
    case Op::sum:
      return &reduce_floats<Sum, T>;
    case Op::prod:
      return &reduce_floats<Prod, T>;
    case Op::max:
      return &reduce_floats<Max, T>;
    case Op::min:
      return &reduce_floats<Min, T>;
    default:
      return nullptr;
  }
}
template <class T>
ReduceFn integer_reduction(Op op) {
  switch (op) {
    case Op::sum:
      return &reduce_integers<Op::sum, T>;
    case Op::prod:
      return &reduce_integers<Op::prod, T>;
    case Op::max:
      return &reduce_integers<Op::max, T>;
    case Op::min:
      return &reduce_integers<Op::min, T>;
    default:
      return nullptr;
  }
}

}  // namespace

ReduceFn reduce_kernel(Op op, RegType type) {
  switch (type) {
    case RegType::f32:
      return float_reduction<float>(op);
    case RegType::f64:
      return float_reduction<double>(op);
    case RegType::i32:
      return integer_reduction<std::int32_t>(op);
    case RegType::i64:
      return integer_reduction<std::int64_t>(op);
    default:
      return nullptr;
  }
}

DotFn dot_kernel(RegType type) {
  return type == RegType::f32 ? &dot_floats<float> : type == RegType::f64 ? &dot_floats<double> : nullptr;
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
