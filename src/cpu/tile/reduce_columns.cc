// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/reduce_columns.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "cpu/tile/parts-inl.h"
#include "cpu/tile/reduce-inl.h"
#include "cpu/tile/scalar-inl.h"

// Reductions of columns: runs of kRowsPerRun rows in the type of the numbers, runs in double (sweep/sum_order.h).
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

constexpr std::size_t kRun = kRowsPerRun;
constexpr std::size_t kLongRun =
    128;  // where any order will do: few enough that the TLB holds the pages of all of them

// Rows of one run: `rows` of them from a, after those in `open` unless the run begins here. A completed run goes to
// `closed`, other rows to `open`.
template <class T, class Memory>
struct Rows {
  double* closed;
  T* open;
  const Memory* a;
  std::size_t rows, columns, stride;
  bool begins, ends;
};

// kVectors vectors of columns from `column`; the last one is moved back to end with the row if that is closer, and then
// its first columns are already done.
template <class F, std::size_t kVectors, class T, class Memory>
HWY_INLINE void reduce_chunk(const Rows<T, Memory>& r, std::size_t column) {
  using D = hn::ScalableTag<T>;
  using Wide = Doubles<D>;
  const D d;
  const typename Wide::Part part;
  constexpr std::size_t kVector = kLanes<D>, kLast = kVectors - 1;
  const std::size_t last = std::min(column + kLast * kVector, r.columns - kVector);
  const auto place = [&](std::size_t k) { return k == kLast ? last : column + k * kVector; };
  State<F, D> state[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) {
    state[k].start(d);
    if (!r.begins) state[k].add(d, hn::LoadU(d, r.open + place(k)));
  }
  const Memory* row = r.a;
  for (std::size_t i = 0; i < r.rows; ++i, row += r.stride)
    for (std::size_t k = 0; k < kVectors; ++k) state[k].add(d, load_memory(d, row + place(k)));
  const std::size_t skip = column + kLast * kVector - last;
  for (std::size_t k = 0; k < kVectors; ++k) {
    const auto result = state[k].result(d);
    const std::size_t first = k == kLast ? skip : 0;
    if (!r.ends) {
      T sums[kVector];
      hn::StoreU(result, d, first == 0 ? r.open + place(k) : sums);
      for (std::size_t j = first; first > 0 && j < kVector; ++j) r.open[place(k) + j] = sums[j];
      continue;
    }
    typename Wide::V wide[Wide::kParts];
    Wide::convert(result, wide);
    double sums[kVector];
    double* to = r.closed + place(k);
    for (std::size_t p = 0; p < Wide::kParts; ++p) {
      const auto sum = F::many(hn::LoadU(part, to + p * Wide::kSize), wide[p]);
      hn::StoreU(sum, part, (first == 0 ? to : sums) + p * Wide::kSize);
    }
    for (std::size_t j = first; first > 0 && j < kVector; ++j) to[j] = sums[j];
  }
}

// Fewer columns than a vector has numbers, over a few rows.
template <class F, class T, class Memory>
HWY_INLINE void reduce_narrow(const Rows<T, Memory>& r) {
  for (std::size_t c = 0; c < r.columns; ++c) {
    T sum = r.begins ? static_cast<T>(F::kIdentity) : r.open[c];
    for (std::size_t i = 0; i < r.rows; ++i) sum = F::one(sum, element(r.a[i * r.stride + c]));
    if (r.ends) {
      r.closed[c] = F::one(r.closed[c], static_cast<double>(sum));
    } else {
      r.open[c] = sum;
    }
  }
}

template <class F, class T, class Memory>
HWY_NOINLINE void reduce_run(const Rows<T, Memory>& r) {
  constexpr std::size_t kVector = kLanes<hn::ScalableTag<T>>, kTogether = 4;
  if (r.columns < kVector) return reduce_narrow<F>(r);
  std::size_t column = 0;
  for (; column + (kTogether - 1) * kVector < r.columns; column += kTogether * kVector)
    reduce_chunk<F, kTogether>(r, column);
  if (column >= r.columns) return;
  switch ((r.columns - column + kVector - 1) / kVector) {
    case 3:
      return reduce_chunk<F, 3>(r, column);
    case 2:
      return reduce_chunk<F, 2>(r, column);
    default:
      return reduce_chunk<F, 1>(r, column);
  }
}

// Whole runs of rows shorter than a vector: a vector holds a row and what follows it, which is ignored. Several runs at
// a time, each of which is a chain. Returns the rows done; nothing after the last row is read.
template <class F, std::size_t kTogether, class T, class Memory>
HWY_INLINE std::size_t reduce_narrow_runs(double* closed, const Memory* a, const RowsBelow& s, std::size_t done) {
  using D = hn::ScalableTag<T>;
  const D d;
  constexpr std::size_t kVector = kLanes<D>;
  const std::size_t size = kRun * s.stride, end = (s.rows - 1) * s.stride + s.columns;
  const std::size_t first = done;
  for (; (done + kTogether * kRun - 1) * s.stride + kVector <= end; done += kTogether * kRun) {
    State<F, D> state[kTogether];
    for (auto& run : state) run.start(d);
    const Memory* row = a + done * s.stride;
    for (std::size_t i = 0; i < kRun; ++i, row += s.stride)
      for (std::size_t k = 0; k < kTogether; ++k) state[k].add(d, load_memory(d, row + k * size));
    for (std::size_t k = 0; k < kTogether; ++k) {
      T sums[kVector];
      hn::StoreU(state[k].result(d), d, sums);
      for (std::size_t c = 0; c < s.columns; ++c) closed[c] = F::one(closed[c], static_cast<double>(sums[c]));
    }
  }
  return done - first;
}

template <class F, class T, class Memory>
void reduce_float_columns(void* acc, void* open, const void* from, const RowsBelow& s) {
  if (s.columns == 0) return;
  auto* closed = static_cast<double*>(acc);
  const auto* a = static_cast<const Memory*>(from);
  const std::size_t run = F::kAnyOrder && s.closes ? kLongRun : kRun;
  for (std::size_t done = 0, count = 0; done < s.rows; done += count) {
    const std::size_t before = done == 0 ? s.before : 0;
    if (before == 0 && s.columns < kLanes<hn::ScalableTag<T>>) {
      count = reduce_narrow_runs<F, 4, T>(closed, a, s, done);
      if (count == 0) count = reduce_narrow_runs<F, 1, T>(closed, a, s, done);
      if (count > 0) continue;
    }
    count = std::min(s.rows - done, run - before);
    const bool ends = before + count == run || (s.closes && done + count == s.rows);
    reduce_run<F>(Rows<T, Memory>{closed, static_cast<T*>(open), a + done * s.stride, count, s.columns, s.stride,
                                  before == 0, ends});
  }
}

template <Op kOp, class T>
void reduce_integer_columns(void* acc, void*, const void* from, const RowsBelow& s) {
  auto* out = static_cast<std::int64_t*>(acc);
  const auto* a = static_cast<const T*>(from);
  for (std::size_t i = 0; i < s.rows; ++i, a += s.stride) {
    for (std::size_t c = 0; c < s.columns; ++c) {
      const auto x = static_cast<std::int64_t>(a[c]);
      const auto before = static_cast<std::uint64_t>(out[c]), with = static_cast<std::uint64_t>(x);
      out[c] = kOp == Op::sum    ? static_cast<std::int64_t>(before + with)
               : kOp == Op::prod ? static_cast<std::int64_t>(before * with)
               : kOp == Op::max  ? std::max(out[c], x)
                                 : std::min(out[c], x);
    }
  }
}

template <class T, class Memory = T>
ReduceColumnsFn float_columns(Op op) {
  switch (op) {
    case Op::sum:
      return &reduce_float_columns<Sum, T, Memory>;
    case Op::prod:
      return &reduce_float_columns<Prod, T, Memory>;
    case Op::max:
      return &reduce_float_columns<Max, T, Memory>;
    case Op::min:
      return &reduce_float_columns<Min, T, Memory>;
    default:
      return nullptr;
  }
}
template <class T>
ReduceColumnsFn integer_columns(Op op) {
  switch (op) {
    case Op::sum:
      return &reduce_integer_columns<Op::sum, T>;
    case Op::prod:
      return &reduce_integer_columns<Op::prod, T>;
    case Op::max:
      return &reduce_integer_columns<Op::max, T>;
    case Op::min:
      return &reduce_integer_columns<Op::min, T>;
    default:
      return nullptr;
  }
}

}  // namespace

ReduceColumnsFn reduce_columns_kernel(Op op, RegType type, DType halves) {
  if (type == RegType::f32 && halves == DType::bf16) return float_columns<float, BFloat16>(op);
  if (type == RegType::f32 && halves == DType::f16) return float_columns<float, Half>(op);
  switch (type) {
    case RegType::f32:
      return float_columns<float>(op);
    case RegType::f64:
      return float_columns<double>(op);
    case RegType::i32:
      return integer_columns<std::int32_t>(op);
    case RegType::i64:
      return integer_columns<std::int64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
