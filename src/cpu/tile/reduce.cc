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
#include <type_traits>

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

// Rows side by side. A vector holds the same lane of the tree of as many rows as it has numbers, and lanes are finished
// one after the other, so that none but the current one takes registers.
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
template <class Memory>
struct Elements {
  const Memory* a;
  std::ptrdiff_t step;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::size_t column, std::size_t row) const {
    return load_memory(d, a + static_cast<std::ptrdiff_t>(column) * step + row);
  }
};
template <class T>
struct Products {
  const T *a, *b;
  std::ptrdiff_t step_a, step_b;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::size_t column, std::size_t row) const {
    const auto c = static_cast<std::ptrdiff_t>(column);
    return hn::Mul(hn::LoadU(d, a + c * step_a + row), hn::LoadU(d, b + c * step_b + row));
  }
};

// A vector in double: in two where it fills the registers.
template <class D>
struct InDouble {
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
};

// kVectors vectors of rows from `row`, of which the first `skip` rows were done before.
template <class F, std::size_t kVectors, class D, class T, class Source>
HWY_INLINE void reduce_rows_beside(D d, double* out, T* lanes, const Source& source, const RowsBeside& s,
                                   std::size_t row, std::size_t skip) {
  using V = hn::Vec<D>;
  using Wide = InDouble<D>;
  constexpr std::size_t kVector = kLanes<D>, kParts = kVectors * Wide::kParts;
  const typename Wide::Part part;
  const V identity = hn::Set(d, static_cast<T>(F::kIdentity));
  V acc[kVectors];
  typename Wide::V results[kParts], wide[kParts];
  const auto add = [&](std::size_t from, std::size_t by) {
    for (std::size_t c = from; c < s.columns; c += by)
      for (std::size_t k = 0; k < kVectors; ++k) acc[k] = F::many(acc[k], source.at(d, c, row + k * kVector));
  };
  const auto in_double = [&](typename Wide::V* to) {
    for (std::size_t k = 0; k < kVectors; ++k) Wide::convert(acc[k], to + k * Wide::kParts);
  };
  if constexpr (F::kAnyOrder) {
    for (V& a : acc) a = identity;
    add(0, 1);
    in_double(results);
  } else {
    const std::size_t used = s.begins && s.ends ? std::min(s.columns, kSumLanes) : kSumLanes;
    for (std::size_t p = 0; p < kParts; ++p) results[p] = hn::Zero(part);
    for (std::size_t lane = 0; lane < used; ++lane) {
      T* open = lanes + lane * s.rows + row;
      for (std::size_t k = 0; k < kVectors; ++k) acc[k] = s.begins ? identity : hn::LoadU(d, open + k * kVector);
      add(lane, kSumLanes);
      if (!s.ends) {
        T sums[kVector * kVectors];
        for (std::size_t k = 0; k < kVectors; ++k) hn::StoreU(acc[k], d, sums + k * kVector);
        for (std::size_t j = skip; j < kVector * kVectors; ++j) open[j] = sums[j];
      } else if (lane == 0) {
        in_double(results);
      } else {
        in_double(wide);
        for (std::size_t p = 0; p < kParts; ++p) results[p] = F::many(results[p], wide[p]);
      }
    }
    if (!s.ends) return;
  }
  double sums[kVector * kVectors];
  for (std::size_t p = 0; p < kParts; ++p) {
    double* to = out + row + p * Wide::kSize;
    const auto sum = F::many(hn::LoadU(part, to), results[p]);
    hn::StoreU(sum, part, skip == 0 ? to : sums + p * Wide::kSize);
  }
  for (std::size_t j = skip; skip > 0 && j < kVector * kVectors; ++j) out[row + j] = sums[j];
}

// Whole vectors, and the last one together with rows before it; smaller vectors where there are fewer rows.
template <class F, std::size_t kSize, class T, class Source>
HWY_INLINE void reduce_beside(double* out, T* lanes, const Source& source, const RowsBeside& s) {
  const hn::CappedTag<T, kSize> d;
  if constexpr (kSize > 1) {
    if (s.rows < kSize) return reduce_beside<F, kSize / 2>(out, lanes, source, s);
  }
  std::size_t row = 0;
  if constexpr (kSize == kLanes<hn::ScalableTag<T>>) {
    for (; row + 4 * kSize <= s.rows; row += 4 * kSize) reduce_rows_beside<F, 4>(d, out, lanes, source, s, row, 0);
  }
  for (; row + kSize <= s.rows; row += kSize) reduce_rows_beside<F, 1>(d, out, lanes, source, s, row, 0);
  if (row < s.rows) reduce_rows_beside<F, 1>(d, out, lanes, source, s, s.rows - kSize, kSize - (s.rows - row));
}

template <class F, class T, class Memory>
void reduce_floats_beside(void* acc, void* lanes, const void* a, const void* b, const RowsBeside& s) {
  double* out = static_cast<double*>(acc);
  constexpr std::size_t kVector = kLanes<hn::ScalableTag<T>>;
  const std::size_t run = s.columns * s.rows;
  if (s.columns == 0) return;
  for (std::size_t k = 0; k < s.runs; ++k, out += s.rows) {
    if (b == nullptr) {
      const Elements<Memory> elements{static_cast<const Memory*>(a) + k * run, s.step_a};
      reduce_beside<F, kVector>(out, static_cast<T*>(lanes), elements, s);
    } else {
      const Products<T> products{static_cast<const T*>(a) + k * run, static_cast<const T*>(b) + k * run, s.step_a,
                                 s.step_b};
      reduce_beside<F, kVector>(out, static_cast<T*>(lanes), products, s);
    }
  }
}

template <Op kOp, class T>
void reduce_integers_beside(void* acc, void*, const void* a, const void*, const RowsBeside& s) {
  std::int64_t* out = static_cast<std::int64_t*>(acc);
  for (std::size_t k = 0; k < s.runs; ++k, out += s.rows) {
    for (std::size_t c = 0; c < s.columns; ++c) {
      const T* p = static_cast<const T*>(a) + k * s.columns * s.rows + static_cast<std::ptrdiff_t>(c) * s.step_a;
      for (std::size_t r = 0; r < s.rows; ++r) {
        const auto x = static_cast<std::int64_t>(p[r]);
        const auto before = static_cast<std::uint64_t>(out[r]), with = static_cast<std::uint64_t>(x);
        out[r] = kOp == Op::sum    ? static_cast<std::int64_t>(before + with)
                 : kOp == Op::prod ? static_cast<std::int64_t>(before * with)
                 : kOp == Op::max  ? std::max(out[r], x)
                                   : std::min(out[r], x);
      }
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
template <class T, class Memory = T>
ReduceBesideFn float_reduction_beside(Op op) {
  switch (op) {
    case Op::sum:
      return &reduce_floats_beside<Sum, T, Memory>;
    case Op::prod:
      return &reduce_floats_beside<Prod, T, Memory>;
    case Op::max:
      return &reduce_floats_beside<Max, T, Memory>;
    case Op::min:
      return &reduce_floats_beside<Min, T, Memory>;
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
template <class T>
ReduceBesideFn integer_reduction_beside(Op op) {
  switch (op) {
    case Op::sum:
      return &reduce_integers_beside<Op::sum, T>;
    case Op::prod:
      return &reduce_integers_beside<Op::prod, T>;
    case Op::max:
      return &reduce_integers_beside<Op::max, T>;
    case Op::min:
      return &reduce_integers_beside<Op::min, T>;
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
ReduceBesideFn reduce_beside_kernel(Op op, RegType type, DType halves) {
  if (type == RegType::f32 && halves == DType::bf16) return float_reduction_beside<float, BFloat16>(op);
  if (type == RegType::f32 && halves == DType::f16) return float_reduction_beside<float, Half>(op);
  switch (type) {
    case RegType::f32:
      return float_reduction_beside<float>(op);
    case RegType::f64:
      return float_reduction_beside<double>(op);
    case RegType::i32:
      return integer_reduction_beside<std::int32_t>(op);
    case RegType::i64:
      return integer_reduction_beside<std::int64_t>(op);
    default:
      return nullptr;
  }
}

DotFn dot_kernel(RegType type) {
  return type == RegType::f32 ? &dot_floats<float> : type == RegType::f64 ? &dot_floats<double> : nullptr;
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
