// SPDX-License-Identifier: MIT
#include "cpu/fused/hinge_kernels.h"

#include "cpu/tile/simd_targets.h"
#include "cpu/tile/scalar-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/fused/hinge_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kTreeLanes = 16;

// Sums and counts of a pass, in registers. Closed hinges are counted, since NaN is not one of them.
template <class T, int kOffsets, bool kSlopes>
class Hinges {
 public:
  using D = hn::ScalableTag<T>;
  using DI = hn::RebindToSigned<D>;
  using V = hn::Vec<D>;
  using VI = hn::Vec<DI>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr int kVectors = static_cast<int>(kTreeLanes / kLanes);
  static_assert(kTreeLanes % kLanes == 0);

  HWY_INLINE explicit Hinges(const HingePass<T>& pass)
      : first_(pass.first), last_(pass.last), scale_(hn::Set(D(), pass.scale)) {
#pragma GCC unroll 16
    for (int k = 0; k < kOffsets; ++k) {
      offsets_[k] = hn::Set(D(), pass.offsets[k]);
      if constexpr (kSlopes) closed_[k] = hn::Zero(DI());
    }
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums_[v] = hn::Zero(D());
  }

  // 16 numbers, of which the first `count` exist. Vectors go side by side, an instruction of each and then the next:
  // those of one vector depend on each other.
  template <bool kAll>
  HWY_INLINE void add(const T* HWY_RESTRICT x, T* HWY_RESTRICT slopes, std::size_t count) {
    const D d;
    const DI di;
    const V zero = hn::Zero(d);
    V value[kVectors];
    VI open[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      value[v] = hn::LoadU(d, x + static_cast<std::size_t>(v) * kLanes);
      open[v] = hn::Set(di, kOffsets);
    }
#pragma GCC unroll 16
    for (int k = 0; k < kOffsets; ++k) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const V hinge = hn::Add(value[v], offsets_[k]);
        auto closed = hn::Le(hinge, zero);
        if constexpr (!kAll) {
          const std::size_t before = static_cast<std::size_t>(v) * kLanes;
          closed = hn::Or(closed, hn::Not(hn::FirstN(d, count > before ? count - before : 0)));
        }
        sums_[v] = hn::Add(sums_[v], hn::IfThenZeroElse(closed, hinge));
        if constexpr (kSlopes) {
          const VI minus_one = hn::BitCast(di, hn::VecFromMask(d, closed));
          open[v] = hn::Add(open[v], minus_one);
          closed_[k] = hn::Sub(closed_[k], minus_one);
        }
      }
    }
    if constexpr (kSlopes) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) value[v] = hn::ConvertTo(d, open[v]);
      if (!first_) {
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v)
          value[v] = hn::Add(value[v], hn::LoadU(d, slopes + static_cast<std::size_t>(v) * kLanes));
      }
      if (last_) {
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v)
          value[v] = hn::IfThenZeroElse(hn::Eq(value[v], zero), hn::Mul(value[v], scale_));
      }
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) hn::StoreU(value[v], d, slopes + static_cast<std::size_t>(v) * kLanes);
    }
  }

  HWY_INLINE double total() const {
    T lanes[kTreeLanes];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums_[v], D(), lanes + static_cast<std::size_t>(v) * kLanes);
    double sum = 0;
    for (T lane : lanes) sum += static_cast<double>(lane);
    return sum;
  }

  // `numbers`: how many were added, including missing ones.
  HWY_INLINE void count_open(std::size_t numbers, std::int64_t* open) const {
#pragma GCC unroll 16
    for (int k = 0; k < kOffsets; ++k)
      open[k] +=
          static_cast<std::int64_t>(numbers) - static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(DI(), closed_[k])));
  }

 private:
  const bool first_, last_;
  const V scale_;
  V offsets_[kOffsets], sums_[kVectors];
  VI closed_[kOffsets];
};

template <class T, int kOffsets, bool kSlopes>
double run_pass(const HingePass<T>& pass) {
  Hinges<T, kOffsets, kSlopes> hinges(pass);
  const std::size_t whole = pass.n / kTreeLanes * kTreeLanes, rest = pass.n - whole;
  const T* const all = pass.x;
  T* const all_slopes = pass.slopes;
  for (std::size_t i = 0; i < whole; i += kTreeLanes)
    hinges.template add<true>(all + i, kSlopes ? all_slopes + i : nullptr, kTreeLanes);
  if (rest > 0) {
    T x[kTreeLanes] = {}, slopes[kTreeLanes] = {};
    for (std::size_t j = 0; j < rest; ++j) x[j] = all[whole + j];
    if (kSlopes && !pass.first) {
      for (std::size_t j = 0; j < rest; ++j) slopes[j] = all_slopes[whole + j];
    }
    hinges.template add<false>(x, slopes, rest);
    if (kSlopes) {
      for (std::size_t j = 0; j < rest; ++j) all_slopes[whole + j] = slopes[j];
    }
  }
  if constexpr (kSlopes) hinges.count_open(whole + (rest > 0 ? kTreeLanes : 0), pass.open);
  return hinges.total();
}

template <class T>
const HingeKernels<T>& table() {
  static const HingeKernels<T> kernels{
      {&run_pass<T, 1, false>, &run_pass<T, 2, false>, &run_pass<T, 3, false>, &run_pass<T, 4, false>},
      {&run_pass<T, 1, true>, &run_pass<T, 2, true>, &run_pass<T, 3, true>, &run_pass<T, 4, true>}};
  return kernels;
}

}  // namespace

const HingeKernels<float>& hinge_kernels_f32() { return table<float>(); }
const HingeKernels<double>& hinge_kernels_f64() { return table<double>(); }

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::cpu {

HWY_EXPORT(hinge_kernels_f32);
HWY_EXPORT(hinge_kernels_f64);

template <>
const HingeKernels<float>& hinge_kernels<float>() {
  return HWY_DYNAMIC_DISPATCH(hinge_kernels_f32)();
}
template <>
const HingeKernels<double>& hinge_kernels<double>() {
  return HWY_DYNAMIC_DISPATCH(hinge_kernels_f64)();
}

}  // namespace ebb::cpu
#endif
