// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/reduce_beside.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "cpu/tile/parts-inl.h"
#include "cpu/tile/reduce-inl.h"
#include "cpu/tile/scalar-inl.h"

// Rows side by side: the reductions of reduce.cc, bit for bit.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

// Rows side by side. A vector holds the same lane of the tree for as many rows as it has numbers, and lanes are
// finished one after the other, so that only the current one takes registers.
template <class Memory>
struct Elements {
  const Memory* a;
  std::ptrdiff_t step;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::size_t column, std::size_t row) const {
    return load_memory(d, a + static_cast<std::ptrdiff_t>(column) * step + row);
  }
  // Where columns follow each other without gaps.
  template <class D>
  HWY_INLINE hn::Vec<D> flat(D d, std::size_t i) const {
    return load_memory(d, a + i);
  }
  HWY_INLINE auto number(std::size_t i) const { return element(a[i]); }
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
  template <class D>
  HWY_INLINE hn::Vec<D> flat(D d, std::size_t i) const {
    return hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
  }
  HWY_INLINE T number(std::size_t i) const { return a[i] * b[i]; }
};

// kVectors vectors of rows from `row`, of which the first `skip` rows are already done.
template <class F, std::size_t kVectors, class D, class T, class Source>
HWY_INLINE void reduce_rows_beside(D d, double* out, T* lanes, const Source& source, const RowsBeside& s,
                                   std::size_t row, std::size_t skip) {
  using Wide = Doubles<D>;
  constexpr std::size_t kVector = kLanes<D>, kParts = kVectors * Wide::kParts;
  const typename Wide::Part part;
  State<F, D> state[kVectors];
  typename Wide::V results[kParts], wide[kParts];
  const auto add = [&](std::size_t from, std::size_t by) {
    for (std::size_t c = from; c < s.columns; c += by)
      for (std::size_t k = 0; k < kVectors; ++k) state[k].add(d, source.at(d, c, row + k * kVector));
  };
  const auto in_double = [&](typename Wide::V* to) {
    for (std::size_t k = 0; k < kVectors; ++k) Wide::convert(state[k].result(d), to + k * Wide::kParts);
  };
  if constexpr (F::kAnyOrder) {
    for (auto& s : state) s.start(d);
    add(0, 1);
    in_double(results);
  } else if (s.begins && s.ends && s.columns <= kSumLanes) {
    // Every lane is one column: they are widened to double on reading.
    const hn::Rebind<T, typename Wide::Part> narrow;
    const auto read = [&](std::size_t column, std::size_t p) {
      typename Wide::V wide_part;
      Doubles<decltype(narrow)>::convert(source.at(narrow, column, row + p * Wide::kSize), &wide_part);
      return wide_part;
    };
    for (std::size_t p = 0; p < kParts; ++p) results[p] = read(0, p);
    for (std::size_t c = 1; c < s.columns; ++c)
      for (std::size_t p = 0; p < kParts; ++p) results[p] = F::many(results[p], read(c, p));
  } else {
    for (std::size_t p = 0; p < kParts; ++p) results[p] = hn::Zero(part);
    for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
      T* open = lanes + lane * s.rows + row;
      for (std::size_t k = 0; k < kVectors; ++k) {
        state[k].start(d);
        if (!s.begins) state[k].value = hn::LoadU(d, open + k * kVector);
      }
      add(lane, kSumLanes);
      if (!s.ends) {
        T sums[kVector * kVectors];
        for (std::size_t k = 0; k < kVectors; ++k) hn::StoreU(state[k].value, d, sums + k * kVector);
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
  if (s.results != nullptr) {
    T numbers[kVector * kVectors];
    T* to = static_cast<T*>(s.results) + row;
    for (std::size_t k = 0; k < kVectors; ++k) {
      auto* parts = results + k * Wide::kParts;
      for (std::size_t p = 0; p < Wide::kParts; ++p) parts[p] = F::many(hn::Set(part, F::kIdentity), parts[p]);
      hn::StoreU(F::kAnyOrder ? state[k].result(d) : Wide::narrow(parts), d, (skip == 0 ? to : numbers) + k * kVector);
    }
    for (std::size_t j = skip; skip > 0 && j < kVector * kVectors; ++j) to[j] = numbers[j];
    return;
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
HWY_NOINLINE void reduce_beside(double* out, T* lanes, const Source& source, const RowsBeside& s) {
  const hn::CappedTag<T, kSize> d;
  if constexpr (kSize > 1) {
    constexpr std::size_t kSmaller = kSize >= 16 ? kSize / 4 : kSize / 2;
    if (s.rows < kSize) return reduce_beside<F, kSmaller>(out, lanes, source, s);
  }
  std::size_t row = 0;
  if constexpr (kSize == kLanes<hn::ScalableTag<T>>) {
    for (; row + 4 * kSize <= s.rows; row += 4 * kSize) reduce_rows_beside<F, 4>(d, out, lanes, source, s, row, 0);
  }
  for (; row < s.rows; row += kSize) {
    const std::size_t from = std::min(row, s.rows - kSize);
    reduce_rows_beside<F, 1>(d, out, lanes, source, s, from, row - from);
  }
}

// Few rows and many columns: rather than vectors of few rows, whole turns of kSumLanes columns, which follow each other
// without gaps, are added to all lanes of all rows; these are then reduced like any kSumLanes columns.
constexpr std::size_t kFewRows = 64;
template <class F, std::size_t kVectors, class T, class Source>
HWY_INLINE void add_turns(const Source& source, const RowsBeside& s, std::size_t i, T* open) {
  const hn::ScalableTag<T> d;
  constexpr std::size_t kVector = kLanes<hn::ScalableTag<T>>;
  const std::size_t turn = kSumLanes * s.rows, turns = s.columns / kSumLanes, rest = s.columns * s.rows - turns * turn;
  State<F, hn::ScalableTag<T>> state[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) {
    state[k].start(d);
    if (!s.begins && !F::kAnyOrder) state[k].add(d, hn::LoadU(d, open + i + k * kVector));
  }
  for (std::size_t t = 0; t < turns; ++t)
    for (std::size_t k = 0; k < kVectors; ++k) state[k].add(d, source.flat(d, t * turn + i + k * kVector));
  for (std::size_t k = 0; k < kVectors; ++k) {
    const std::size_t at = i + k * kVector;
    if (at + kVector <= rest) state[k].add(d, source.flat(d, turns * turn + at));
    hn::StoreU(state[k].result(d), d, open + at);
    if (at + kVector > rest)
      for (std::size_t j = at; j < rest; ++j) open[j] = F::one(open[j], source.number(turns * turn + j));
  }
}
template <class F, class T, class Source>
HWY_INLINE void reduce_turns(double* out, T* lanes, const Source& source, const RowsBeside& s) {
  constexpr std::size_t kVector = kLanes<hn::ScalableTag<T>>, kTogether = 4;
  T own[kSumLanes * kFewRows];
  T* open = F::kAnyOrder || (s.begins && s.ends) ? own : lanes;
  const std::size_t turn = kSumLanes * s.rows;
  std::size_t i = 0;
  for (; i + kTogether * kVector <= turn; i += kTogether * kVector) add_turns<F, kTogether>(source, s, i, open);
  const std::size_t left = (turn - i) / kVector;
  if (left >= 2) add_turns<F, 2>(source, s, i, open);
  if (left % 2 == 1) add_turns<F, 1>(source, s, turn - kVector, open);
  if (!s.ends && !F::kAnyOrder) return;
  const auto step = static_cast<std::ptrdiff_t>(s.rows);
  const RowsBeside finished{.rows = s.rows, .columns = kSumLanes, .step_a = step, .results = s.results};
  reduce_beside<F, kVector>(out, lanes, Elements<T>{open, step}, finished);
}

template <class F, class T, class Memory>
void reduce_floats_beside(void* acc, void* lanes, const void* a, const void* b, const RowsBeside& s) {
  double* out = static_cast<double*>(acc);
  constexpr std::size_t kVector = kLanes<hn::ScalableTag<T>>;
  const auto rows = static_cast<std::ptrdiff_t>(s.rows);
  const bool dense = s.step_a == rows && (b == nullptr || s.step_b == rows);
  const bool in_turns = dense && s.rows < kFewRows && s.columns >= 2 * kSumLanes;
  const std::size_t run = s.columns * s.rows;
  if (s.columns == 0) return;
  RowsBeside of_run = s;
  const auto reduce = [&](const auto& source) {
    if (in_turns) {
      reduce_turns<F>(out, static_cast<T*>(lanes), source, of_run);
    } else {
      reduce_beside<F, kVector>(out, static_cast<T*>(lanes), source, of_run);
    }
  };
  for (std::size_t k = 0; k < s.runs; ++k, out += s.rows) {
    if (s.results != nullptr) of_run.results = static_cast<T*>(s.results) + k * s.rows;
    if constexpr (std::is_same_v<F, Sum> && std::is_same_v<T, Memory>) {  // products are only added, and made in tiles
      if (b != nullptr) {
        reduce(Products<T>{static_cast<const T*>(a) + k * run, static_cast<const T*>(b) + k * run, s.step_a, s.step_b});
        continue;
      }
    }
    reduce(Elements<Memory>{static_cast<const Memory*>(a) + k * run, s.step_a});
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

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
