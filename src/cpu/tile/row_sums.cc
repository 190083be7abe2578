// SPDX-License-Identifier: MIT
#include "cpu/tile/row_sums.h"

#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/row_sums.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <bit>

// Sums of rows, whose columns stay in registers while the rows go by.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// f32, added in f64.
struct InDouble {
  using Memory = float;
  using Sum = double;
  template <class D>
  HWY_INLINE static hn::Vec<D> load(D d, const float* at) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), at));
  }
  template <class D>
  HWY_INLINE static void store(D d, hn::Vec<D> sum, float* to) {
    const hn::Rebind<float, D> part;
    hn::StoreU(hn::DemoteTo(part, sum), part, to);
  }
  static double widen(float x) { return x; }
};
// bf16, added in f32.
struct InSingle {
  using Memory = BFloat16;
  using Sum = float;
  template <class D>
  HWY_INLINE static hn::Vec<D> load(D d, const BFloat16* at) {
    const hn::Rebind<std::uint32_t, D> bits;
    const auto upper =
        hn::PromoteTo(bits, hn::LoadU(hn::Rebind<std::uint16_t, D>(), reinterpret_cast<const std::uint16_t*>(at)));
    return hn::BitCast(d, hn::ShiftLeft<16>(upper));
  }
  template <class D>
  HWY_INLINE static void store(D d, hn::Vec<D> sum, float* to) {
    hn::StoreU(sum, d, to);
  }
  static float widen(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
};

template <class How, std::size_t kVectors, class D>
HWY_INLINE void sum_vectors(D d, float* to, const NumberedRows<typename How::Memory>& rows, std::size_t column) {
  constexpr std::size_t kVector = hn::MaxLanes(D());
  hn::Vec<D> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  for (std::size_t k = 0; k < rows.count; ++k) {
    const typename How::Memory* const row = rows.data + rows.number[k] * rows.stride + column;
    for (std::size_t v = 0; v < kVectors; ++v) sums[v] = hn::Add(sums[v], How::load(d, row + v * kVector));
  }
  for (std::size_t v = 0; v < kVectors; ++v) How::store(d, sums[v], to + column + v * kVector);
}

template <class How>
void sum_rows_by(float* to, const NumberedRows<typename How::Memory>& rows, std::size_t columns) {
  using Sum = typename How::Sum;
  std::size_t column = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const hn::ScalableTag<Sum> d;
  constexpr std::size_t kVector = hn::MaxLanes(d);
  for (; column + 8 * kVector <= columns; column += 8 * kVector) sum_vectors<How, 8>(d, to, rows, column);
  for (; column + 2 * kVector <= columns; column += 2 * kVector) sum_vectors<How, 2>(d, to, rows, column);
  for (; column + kVector <= columns; column += kVector) sum_vectors<How, 1>(d, to, rows, column);
#endif
  for (; column < columns; ++column) {
    Sum sum = 0;
    for (std::size_t k = 0; k < rows.count; ++k)
      sum += How::widen(rows.data[rows.number[k] * rows.stride + static_cast<std::int64_t>(column)]);
    to[column] = static_cast<float>(sum);
  }
}

void sum_rows_f32(float* to, const NumberedRows<float>& rows, std::size_t columns) {
  sum_rows_by<InDouble>(to, rows, columns);
}
void sum_rows_bf16(float* to, const NumberedRows<BFloat16>& rows, std::size_t columns) {
  sum_rows_by<InSingle>(to, rows, columns);
}

}  // namespace
}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::cpu {

HWY_EXPORT(sum_rows_f32);
HWY_EXPORT(sum_rows_bf16);

void sum_rows(float* to, const NumberedRows<float>& rows, std::size_t columns) {
  HWY_DYNAMIC_DISPATCH(sum_rows_f32)(to, rows, columns);
}
void sum_rows(float* to, const NumberedRows<BFloat16>& rows, std::size_t columns) {
  HWY_DYNAMIC_DISPATCH(sum_rows_bf16)(to, rows, columns);
}

}  // namespace ebb::cpu
#endif
