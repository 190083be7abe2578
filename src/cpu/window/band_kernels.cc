// SPDX-License-Identifier: MIT
#include "cpu/window/band_kernels.h"

#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/window/band_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void gather(std::int64_t count, std::int64_t taps, std::int64_t step, const GridIndex<T>* HWY_RESTRICT first,
            const GridIndex<T>* HWY_RESTRICT many, const T* HWY_RESTRICT weight, const T* HWY_RESTRICT x,
            T* HWY_RESTRICT y) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const auto at = hn::LoadU(di, first + i), end = hn::LoadU(di, many + i);
    auto sum = hn::Zero(d);
    for (std::int64_t k = 0; k < taps; ++k) {
      const auto tap = hn::Set(di, static_cast<GridIndex<T>>(k));
      const auto here = hn::Lt(tap, end);
      const auto taken = hn::GatherIndex(d, x, hn::IfThenElseZero(here, hn::Add(at, tap)));
      // Beyond a row's own numbers neither may count: 0·inf is NaN.
      sum = hn::MulAdd(hn::LoadU(d, weight + k * step + i), hn::IfThenElseZero(hn::RebindMask(d, here), taken), sum);
    }
    if (i + kLanes <= count) {
      hn::StoreU(sum, d, y + i);
    } else {
      hn::BlendedStore(sum, hn::FirstN(d, static_cast<std::size_t>(count - i)), d, y + i);
    }
  }
}

template <class T>
void combine(std::int64_t count, std::int64_t taps, const T* HWY_RESTRICT weight, const T* HWY_RESTRICT x,
             std::int64_t step, T* HWY_RESTRICT y) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    auto low = hn::Zero(d), high = hn::Zero(d);
    for (std::int64_t k = 0; k < taps; ++k) {
      const auto w = hn::Set(d, weight[k]);
      low = hn::MulAdd(w, hn::LoadU(d, x + k * step + i), low);
      high = hn::MulAdd(w, hn::LoadU(d, x + k * step + i + kLanes), high);
    }
    hn::StoreU(low, d, y + i);
    hn::StoreU(high, d, y + i + kLanes);
  }
  for (; i < count; i += kLanes) {
    const auto here = hn::FirstN(d, static_cast<std::size_t>(count - i));
    auto sum = hn::Zero(d);
    for (std::int64_t k = 0; k < taps; ++k)
      sum = hn::MulAdd(hn::Set(d, weight[k]), hn::MaskedLoad(here, d, x + k * step + i), sum);
    hn::BlendedStore(sum, here, d, y + i);
  }
}

template <class T>
T dot(std::int64_t count, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  auto low = hn::Zero(d), high = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    low = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), low);
    high = hn::MulAdd(hn::LoadU(d, a + i + kLanes), hn::LoadU(d, b + i + kLanes), high);
  }
  T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
const BandKernels<T>& kernels() {
  static constexpr BandKernels<T> table{&gather<T>, &combine<T>, &dot<T>};
  return table;
}

}  // namespace

const BandKernels<float>& band_kernels_f32() { return kernels<float>(); }
const BandKernels<double>& band_kernels_f64() { return kernels<double>(); }

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::cpu {

HWY_EXPORT(band_kernels_f32);
HWY_EXPORT(band_kernels_f64);

template <>
const BandKernels<float>& band_kernels<float>() {
  return HWY_DYNAMIC_DISPATCH(band_kernels_f32)();
}
template <>
const BandKernels<double>& band_kernels<double>() {
  return HWY_DYNAMIC_DISPATCH(band_kernels_f64)();
}

}  // namespace ebb::cpu
#endif
