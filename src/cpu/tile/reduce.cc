// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/reduce.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "cpu/tile/parts-inl.h"
#include "cpu/tile/reduce-inl.h"
#include "cpu/tile/scalar-inl.h"

// Reductions of rows. Floats: 16 lanes whatever the vector's width, so that every machine gives the same bits.
// Integers: any order gives the same result, sums and products are exact modulo 2^64.
//
// Four rows are taken at a time: the lanes of a row are a chain of dependent additions, and so are the lanes
// themselves when they are added in order. For the latter, four lanes of four rows are transposed in
// registers.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

constexpr std::size_t kFour = 4;

// Lines of numbers, `stride` elements from one to the next; nothing from `end` on is read.
template <class T, class Memory>
struct Elements {
  const Memory* a;
  std::size_t stride;
  const Memory* end;

  template <class D>
  HWY_INLINE hn::Vec<D> vector(D d, std::size_t line, std::size_t i) const {
    return load_memory(d, a + line * stride + i);
  }
  HWY_INLINE T number(std::size_t line, std::size_t i) const { return element(a[line * stride + i]); }
  HWY_INLINE bool reaches(std::size_t line, std::size_t i) const { return a + line * stride + i <= end; }
  HWY_INLINE Elements from(std::size_t line, std::size_t i) const { return {a + line * stride + i, stride, end}; }
  // The numbers from i on, as lines of `length`.
  HWY_INLINE Elements divided(std::size_t i, std::size_t length) const { return {a + i, length, end}; }
};
// Their products, each rounded like an element of a tile.
template <class T>
struct Products {
  const T *a, *b;
  std::size_t stride;
  const T* end;  // of a

  template <class D>
  HWY_INLINE hn::Vec<D> vector(D d, std::size_t line, std::size_t i) const {
    return hn::Mul(hn::LoadU(d, a + line * stride + i), hn::LoadU(d, b + line * stride + i));
  }
  HWY_INLINE T number(std::size_t line, std::size_t i) const { return a[line * stride + i] * b[line * stride + i]; }
  HWY_INLINE bool reaches(std::size_t line, std::size_t i) const { return a + line * stride + i <= end; }
  HWY_INLINE Products from(std::size_t line, std::size_t i) const {
    const std::size_t at = line * stride + i;
    return {a + at, b + at, stride, end};
  }
  HWY_INLINE Products divided(std::size_t i, std::size_t length) const { return {a + i, b + i, length, end}; }
};

// The lanes of kLines lines, lines kSumLanes apart: kSumLanes of them for sums, fewer where any order will do. Returns
// their number.
template <class F, std::size_t kLines, class T, class Source>
HWY_INLINE std::size_t find_lanes(const Source& source, std::size_t n, T* lanes) {
  const hn::ScalableTag<T> d;
  using S = State<F, hn::ScalableTag<T>>;
  constexpr std::size_t kVector = kLanes<hn::ScalableTag<T>>;
  constexpr std::size_t kVectors = F::kAnyOrder ? 1 : kSumLanes / kVector, kStep = kVectors * kVector;
  static_assert(kSumLanes % kVector == 0);
  constexpr std::size_t kTogether = kVectors >= 4 ? 1 : kLines;  // lines whose lanes fit in registers
  const std::size_t whole = n / kStep * kStep, rest = n - whole;
  for (std::size_t first = 0; first < kLines; first += kTogether) {
    S state[kTogether][kVectors];
    for (auto& line : state)
      for (S& s : line) s.start(d);
    for (std::size_t i = 0; i < whole; i += kStep)
      for (std::size_t l = 0; l < kTogether; ++l)
        for (std::size_t k = 0; k < kVectors; ++k) state[l][k].add(d, source.vector(d, first + l, i + k * kVector));
    if (rest > 0) {
      const hn::Vec<hn::ScalableTag<T>> nothing = hn::Set(d, static_cast<T>(F::kIdentity));
      for (std::size_t l = 0; l < kTogether; ++l) {
        T padded[kStep];
        const bool inside = source.reaches(first + l, whole + kStep);
        for (std::size_t i = 0; !inside && i < kStep; ++i)
          padded[i] = i < rest ? source.number(first + l, whole + i) : static_cast<T>(F::kIdentity);
        for (std::size_t k = 0; k < kVectors; ++k) {
          const std::size_t at = k * kVector;
          if (at >= rest) break;
          const auto x =
              inside ? hn::IfThenElse(hn::FirstN(d, rest - at), source.vector(d, first + l, whole + at), nothing)
                     : hn::LoadU(d, padded + at);
          state[l][k].add(d, x);
        }
      }
    }
    for (std::size_t l = 0; l < kTogether; ++l)
      for (std::size_t k = 0; k < kVectors; ++k)
        hn::StoreU(state[l][k].result(d), d, lanes + (first + l) * kSumLanes + k * kVector);
  }
  return kStep;
}

// out = F(out, the first m of a line's lanes in order, in double), for one line and for four. `lanes`: of four lines,
// readable up to the next multiple of four.
template <class F, class T>
HWY_INLINE void combine_line(const T* lanes, std::size_t m, double* out) {
  double result = F::kIdentity;
  for (std::size_t k = 0; k < m; ++k) result = F::one(result, static_cast<double>(lanes[k]));
  *out = F::one(*out, result);
}
template <class F, class T>
HWY_INLINE void combine_four(const T* lanes, std::size_t stride, std::size_t m, double* out) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_same_v<T, float>) {
    const hn::CappedTag<T, kFour> d;
    using D = hn::CappedTag<T, kFour>;
    using Wide = Doubles<D>;
    using V = hn::Vec<D>;
    const typename Wide::Part part;
    const hn::RepartitionToWide<D> pairs;
    State<F, D> any;
    typename Wide::V sums[Wide::kParts], wide[Wide::kParts];
    any.start(d);
    for (auto& s : sums) s = hn::Set(part, F::kIdentity);
    for (std::size_t k = 0; k < m; k += kFour) {
      const V r0 = hn::LoadU(d, lanes + k), r1 = hn::LoadU(d, lanes + stride + k);
      const V r2 = hn::LoadU(d, lanes + 2 * stride + k), r3 = hn::LoadU(d, lanes + 3 * stride + k);
      const auto lower01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
      const auto lower23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
      const auto upper01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
      const auto upper23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
      const V turned[kFour] = {hn::BitCast(d, hn::InterleaveLower(pairs, lower01, lower23)),
                               hn::BitCast(d, hn::InterleaveUpper(pairs, lower01, lower23)),
                               hn::BitCast(d, hn::InterleaveLower(pairs, upper01, upper23)),
                               hn::BitCast(d, hn::InterleaveUpper(pairs, upper01, upper23))};
      for (std::size_t j = 0; j < kFour; ++j) {
        if (k + j >= m) break;
        if constexpr (F::kAnyOrder) {
          any.add(d, turned[j]);
        } else {
          Wide::convert(turned[j], wide);
          for (std::size_t p = 0; p < Wide::kParts; ++p) sums[p] = F::many(sums[p], wide[p]);
        }
      }
    }
    if constexpr (F::kAnyOrder) Wide::convert(any.result(d), sums);
    for (std::size_t p = 0; p < Wide::kParts; ++p) {
      double* to = out + p * Wide::kSize;
      hn::StoreU(F::many(hn::LoadU(part, to), sums[p]), part, to);
    }
    return;
  }
#endif
  double results[kFour] = {F::kIdentity, F::kIdentity, F::kIdentity, F::kIdentity};
  for (std::size_t k = 0; k < m; ++k)
    for (std::size_t l = 0; l < kFour; ++l) results[l] = F::one(results[l], static_cast<double>(lanes[l * stride + k]));
  for (std::size_t l = 0; l < kFour; ++l) out[l] = F::one(out[l], results[l]);
}

// Blocks of kLines lines: n numbers each, at most kBlock.
template <class F, std::size_t kLines, class T, class Source>
HWY_INLINE void reduce_block(const Source& source, std::size_t n, double* out) {
  T lanes[kFour * kSumLanes];
  std::size_t m = n;
  if (n >= kSumLanes) {
    m = find_lanes<F, kLines>(source, n, lanes);
  } else {
    for (std::size_t l = 0; l < kLines; ++l) {
      std::size_t i = 0;
      if constexpr (kLanes<hn::CappedTag<T, kFour>> == kFour) {
        const hn::CappedTag<T, kFour> d;
        for (; i < n && source.reaches(l, i + kFour); i += kFour)
          hn::StoreU(source.vector(d, l, i), d, lanes + l * kSumLanes + i);
      }
      for (; i < n; ++i) lanes[l * kSumLanes + i] = source.number(l, i);
    }
  }
  if constexpr (kLines == kFour) {
    combine_four<F>(lanes, kSumLanes, m, out);
  } else {
    combine_line<F>(lanes, m, out);
  }
}

// Lines of at most kBlock numbers. Called, not inlined, wherever lines are reduced: once per block or many short rows.
template <class F, class T, class Source>
HWY_NOINLINE void reduce_blocks(const Source& source, std::size_t lines, std::size_t n, double* out) {
  std::size_t l = 0;
  if constexpr (std::is_same_v<T, float> && std::is_same_v<Source, Elements<float, float>>) {
    // Short rows are used as their own lanes.
    const std::size_t read = (n + kFour - 1) / kFour * kFour;
    for (; n < kSumLanes && l + kFour <= lines && source.reaches(l + kFour - 1, read); l += kFour)
      combine_four<F>(source.a + l * source.stride, source.stride, n, out + l);
  }
  for (; l + kFour <= lines; l += kFour) reduce_block<F, kFour, T>(source.from(l, 0), n, out + l);
  for (; l < lines; ++l) reduce_block<F, 1, T>(source.from(l, 0), n, out + l);
}

// Up to four lines of any length: blocks, groups of blocks (sweep/sum_order.h). Of one line, four blocks at a time.
template <class F, class T, class Source>
HWY_INLINE void reduce_lines(const Source& source, std::size_t lines, std::size_t n, double* out) {
  constexpr std::size_t kGroup = kBlocksPerGroup * kBlock;
  double group[kFour], closed[kFour];
  std::fill_n(closed, kFour, F::kIdentity);
  for (std::size_t first = 0; first < n; first += kGroup) {
    std::fill_n(group, kFour, F::kIdentity);
    const std::size_t end = std::min(n, first + kGroup);
    std::size_t i = first;
    for (; lines == 1 && i + kFour * kBlock <= end; i += kFour * kBlock) {
      double blocks[kFour];
      std::fill_n(blocks, kFour, F::kIdentity);
      reduce_blocks<F, T>(source.divided(i, kBlock), kFour, kBlock, blocks);
      for (const double block : blocks) group[0] = F::one(group[0], block);
    }
    for (; i < end; i += kBlock) reduce_blocks<F, T>(source.from(0, i), lines, std::min(kBlock, end - i), group);
    for (std::size_t l = 0; l < lines; ++l) closed[l] = F::one(closed[l], group[l]);
  }
  for (std::size_t l = 0; l < lines; ++l) out[l] = F::one(out[l], closed[l]);
}

template <class F, class T, class Source>
HWY_NOINLINE void reduce_rows(double* out, const Source& source, std::size_t rows, std::size_t n) {
  if (n == 0) return;
  if (n <= kBlock) return reduce_blocks<F, T>(source, rows, n, out);
  for (std::size_t r = 0, lines = 0; r < rows; r += lines) {
    lines = r + kFour <= rows ? kFour : 1;
    reduce_lines<F, T>(source.from(r, 0), lines, n, out + r);
  }
}

// One row, four parts of it at a time where any order will do.
template <class F, class T, class Memory>
HWY_INLINE void reduce_parts(double* out, const Memory* a, std::size_t n) {
  const std::size_t part = n / kFour;
  double results[kFour];
  std::fill_n(results, kFour, F::kIdentity);
  reduce_rows<F, T>(results, Elements<T, Memory>{a, part, a + n}, kFour, part);
  for (double x : results) *out = F::one(*out, x);
  for (std::size_t i = kFour * part; i < n; ++i) *out = F::one(*out, static_cast<double>(element(a[i])));
}

template <class F, class T, class Memory>
void reduce_floats(void* acc, const void* a, std::size_t rows, std::size_t n) {
  const auto* p = static_cast<const Memory*>(a);
  auto* out = static_cast<double*>(acc);
  const bool in_parts = F::kAnyOrder && n >= kFour * kSumLanes;
  const std::size_t together = in_parts ? rows / kFour * kFour : rows;
  if (together > 0) reduce_rows<F, T>(out, Elements<T, Memory>{p, n, p + rows * n}, together, n);
  for (std::size_t r = together; r < rows; ++r) reduce_parts<F, T>(out + r, p + r * n, n);
}

template <class T>
void dot_floats(void* acc, const void* a, const void* b, std::size_t rows, std::size_t n) {
  const auto *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  reduce_rows<Sum, T>(static_cast<double*>(acc), Products<T>{p, q, n, p + rows * n}, rows, n);
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

template <class T, class Memory = T>
ReduceFn float_reduction(Op op) {
  switch (op) {
    case Op::sum:
      return &reduce_floats<Sum, T, Memory>;
    case Op::prod:
      return &reduce_floats<Prod, T, Memory>;
    case Op::max:
      return &reduce_floats<Max, T, Memory>;
    case Op::min:
      return &reduce_floats<Min, T, Memory>;
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

ReduceFn reduce_kernel(Op op, RegType type, DType halves) {
  if (type == RegType::f32 && halves == DType::bf16) return float_reduction<float, BFloat16>(op);
  if (type == RegType::f32 && halves == DType::f16) return float_reduction<float, Half>(op);
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
