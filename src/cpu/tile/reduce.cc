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

// Rows side by side: a vector holds one lane of the tree of as many rows as it has numbers.
template <class F, class T, class Element>
void reduce_side_by_side(double* out, std::size_t rows, std::size_t n, const Element& element) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::size_t kVector = kLanes<hn::ScalableTag<T>>;
  const std::size_t whole = n / kSumLanes * kSumLanes, lanes = std::min(n, kSumLanes);
  const V identity = hn::Set(d, static_cast<T>(F::kIdentity));
  T sums[kSumLanes][kVector];
  for (std::size_t r = 0; r < rows; r += kVector) {
    const std::size_t count = std::min(kVector, rows - r);
    // The last few rows once more with those before them, where there are as many.
    const std::size_t from = count == kVector || rows < kVector ? r : rows - kVector;
    if (rows < kVector) {
      for (std::size_t k = 0; k < lanes; ++k) {
        for (std::size_t j = 0; j < rows; ++j) {
          T sum = static_cast<T>(F::kIdentity);
          for (std::size_t c = k; c < n; c += kSumLanes) sum = F::one(sum, element.one(c * rows + j));
          sums[k][j] = sum;
        }
      }
    } else {
      for (std::size_t half = 0; half < kSumLanes; half += kSumLanes / 2) {  // as many sums as there are registers
        V acc[kSumLanes / 2];
        for (V& a : acc) a = identity;
        for (std::size_t c = half; c < whole; c += kSumLanes)
          for (std::size_t k = 0; k < kSumLanes / 2; ++k)
            acc[k] = F::many(acc[k], element.many(d, (c + k) * rows + from));
        for (std::size_t c = whole + half; c < std::min(n, whole + half + kSumLanes / 2); ++c)
          acc[c - whole - half] = F::many(acc[c - whole - half], element.many(d, c * rows + from));
        for (std::size_t k = 0; k < kSumLanes / 2; ++k) hn::StoreU(acc[k], d, sums[half + k]);
      }
    }
    double results[kVector];
    if (F::kAnyOrder && rows >= kVector) {
      V best = hn::LoadU(d, sums[0]);
      for (std::size_t k = 1; k < lanes; ++k) best = F::many(best, hn::LoadU(d, sums[k]));
      hn::StoreU(best, d, sums[0]);
      for (std::size_t j = 0; j < kVector; ++j) results[j] = sums[0][j];
    } else {
      const std::size_t width = std::min(kVector, rows);
      for (std::size_t j = 0; j < width; ++j) results[j] = sums[0][j];
      for (std::size_t k = 1; k < lanes; ++k)
        for (std::size_t j = 0; j < width; ++j) results[j] = F::one(results[j], static_cast<double>(sums[k][j]));
    }
    for (std::size_t j = r - from; j < r - from + count; ++j) out[from + j] = F::one(out[from + j], results[j]);
  }
}

template <class T>
struct Elements {
  const T* a;
  T one(std::size_t i) const { return a[i]; }
  template <class D>
  HWY_INLINE hn::Vec<D> many(D d, std::size_t i) const {
    return hn::LoadU(d, a + i);
  }
};
template <class T>
struct Products {
  const T *a, *b;
  T one(std::size_t i) const { return a[i] * b[i]; }
  template <class D>
  HWY_INLINE hn::Vec<D> many(D d, std::size_t i) const {
    return hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
  }
};

template <class F, class T>
void reduce_upright_floats(void* acc, const void* a, std::size_t rows, std::size_t n) {
  if (n > 0) reduce_side_by_side<F, T>(static_cast<double*>(acc), rows, n, Elements<T>{static_cast<const T*>(a)});
}
template <class T>
void dot_upright_floats(void* acc, const void* a, const void* b, std::size_t rows, std::size_t n) {
  if (n > 0)
    reduce_side_by_side<Sum, T>(static_cast<double*>(acc), rows, n,
                                Products<T>{static_cast<const T*>(a), static_cast<const T*>(b)});
}

template <Op kOp, class T>
void reduce_upright_integers(void* acc, const void* a, std::size_t rows, std::size_t n) {
  std::int64_t* out = static_cast<std::int64_t*>(acc);
  const T* p = static_cast<const T*>(a);
  for (std::size_t c = 0; c < n; ++c, p += rows) {
    for (std::size_t r = 0; r < rows; ++r) {
      const auto x = static_cast<std::int64_t>(p[r]);
      const auto before = static_cast<std::uint64_t>(out[r]), with = static_cast<std::uint64_t>(x);
      out[r] = kOp == Op::sum    ? static_cast<std::int64_t>(before + with)
               : kOp == Op::prod ? static_cast<std::int64_t>(before * with)
               : kOp == Op::max  ? std::max(out[r], x)
                                 : std::min(out[r], x);
    }
  }
}

template <class T>
ReduceFn float_reduction(Op op, bool upright) {
  switch (op) {
    case Op::sum:
      return upright ? &reduce_upright_floats<Sum, T> : &reduce_floats<Sum, T>;
    case Op::prod:
      return upright ? &reduce_upright_floats<Prod, T> : &reduce_floats<Prod, T>;
    case Op::max:
      return upright ? &reduce_upright_floats<Max, T> : &reduce_floats<Max, T>;
    case Op::min:
      return upright ? &reduce_upright_floats<Min, T> : &reduce_floats<Min, T>;
    default:
      return nullptr;
  }
}
template <class T>
ReduceFn integer_reduction(Op op, bool upright) {
  switch (op) {
    case Op::sum:
      return upright ? &reduce_upright_integers<Op::sum, T> : &reduce_integers<Op::sum, T>;
    case Op::prod:
      return upright ? &reduce_upright_integers<Op::prod, T> : &reduce_integers<Op::prod, T>;
    case Op::max:
      return upright ? &reduce_upright_integers<Op::max, T> : &reduce_integers<Op::max, T>;
    case Op::min:
      return upright ? &reduce_upright_integers<Op::min, T> : &reduce_integers<Op::min, T>;
    default:
      return nullptr;
  }
}

ReduceFn reduction(Op op, RegType type, bool upright) {
  switch (type) {
    case RegType::f32:
      return float_reduction<float>(op, upright);
    case RegType::f64:
      return float_reduction<double>(op, upright);
    case RegType::i32:
      return integer_reduction<std::int32_t>(op, upright);
    case RegType::i64:
      return integer_reduction<std::int64_t>(op, upright);
    default:
      return nullptr;
  }
}

}  // namespace

ReduceFn reduce_kernel(Op op, RegType type) { return reduction(op, type, false); }
ReduceFn upright_reduce_kernel(Op op, RegType type) { return reduction(op, type, true); }

DotFn dot_kernel(RegType type) {
  return type == RegType::f32 ? &dot_floats<float> : type == RegType::f64 ? &dot_floats<double> : nullptr;
}
DotFn upright_dot_kernel(RegType type) {
  return type == RegType::f32   ? &dot_upright_floats<float>
         : type == RegType::f64 ? &dot_upright_floats<double>
                                : nullptr;
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
