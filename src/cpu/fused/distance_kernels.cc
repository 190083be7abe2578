// SPDX-License-Identifier: MIT
#include "cpu/fused/distance_kernels.h"

#include <algorithm>
#include <limits>

#include "cpu/tile/scalar-inl.h"
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/fused/distance_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kRows = kDistanceRows, kColumns = kDistanceColumns, kRun = kDistanceRun;
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kVectors = 4;
#else
constexpr int kVectors = 2;  // with four rows, half of 16 registers
#endif

// √Σ x² is exact to rounding where the sum is between `least` and `most`. Beyond, it is computed from x·up or x·down,
// and the root scaled back.
template <class T>
struct Range;
template <>
struct Range<float> {
  static constexpr float least = 1e-30f, most = 1e37f, up = 0x1p90f, down = 0x1p-80f;
};
template <>
struct Range<double> {
  static constexpr double least = 1e-290, most = 1e307, up = 0x1p600, down = 0x1p-600;
};

template <class T>
struct Kernels {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));

  // Sums of some vectors of columns, of kSome rows.
  template <int kSome, int kPower, bool kScaled>
  static HWY_INLINE void add_up(std::int64_t depth, const T* HWY_RESTRICT a, const T* HWY_RESTRICT panel, T scale,
                                T* HWY_RESTRICT out) {
    const D d;
    for (std::int64_t first = 0; first == 0 || first < depth; first += kRun) {
      V sums[kSome][kVectors];
#pragma GCC unroll 16
      for (int i = 0; i < kSome; ++i) {
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(d);
      }
      for (std::int64_t k = first; k < std::min(depth, first + kRun); ++k) {
        V b[kVectors];
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) b[v] = hn::LoadU(d, panel + k * kColumns + v * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < kSome; ++i) {
          const V x = hn::Set(d, a[i * depth + k]);
#pragma GCC unroll 16
          for (int v = 0; v < kVectors; ++v) {
            V apart = hn::Sub(x, b[v]);
            if constexpr (kScaled) apart = hn::Mul(apart, hn::Set(d, scale));
            sums[i][v] = kPower == 1 ? hn::Add(sums[i][v], hn::Abs(apart)) : hn::MulAdd(apart, apart, sums[i][v]);
          }
        }
      }
#pragma GCC unroll 16
      for (int i = 0; i < kSome; ++i) {
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
          T* const to = out + i * kColumns + v * kLanes;
          hn::StoreU(first == 0 ? sums[i][v] : hn::Add(hn::LoadU(d, to), sums[i][v]), d, to);
        }
      }
    }
  }

  // Not inlined into its five callers: a call computes a whole block, and this file compiles in two thirds of the time.
  template <int kPower, bool kScaled>
  static HWY_NOINLINE void add_up_block(std::int64_t rows, std::int64_t depth, const T* a, const T* panel, T scale,
                                        T* out) {
    for (std::int64_t at = 0; at < kColumns; at += kVectors * kLanes) {
      switch (rows) {
        case 1:
          add_up<1, kPower, kScaled>(depth, a, panel + at, scale, out + at);
          break;
        case 2:
          add_up<2, kPower, kScaled>(depth, a, panel + at, scale, out + at);
          break;
        case 3:
          add_up<3, kPower, kScaled>(depth, a, panel + at, scale, out + at);
          break;
        default:
          add_up<4, kPower, kScaled>(depth, a, panel + at, scale, out + at);
      }
    }
  }

  template <int kPower>
  static bool block(std::int64_t rows, std::int64_t depth, const T* a, const T* panel, T* out) {
    add_up_block<kPower, false>(rows, depth, a, panel, 1, out);
    if constexpr (kPower == 1) return true;
    const D d;
    V outside = hn::Zero(d);
    for (std::int64_t j = 0; j < rows * kColumns; j += kLanes) {
      const V sum = hn::LoadU(d, out + j);
      const auto bad = hn::Or(hn::Lt(sum, hn::Set(d, Range<T>::least)), hn::Gt(sum, hn::Set(d, Range<T>::most)));
      outside = hn::Or(outside, hn::IfThenElseZero(bad, hn::Set(d, T{1})));  // NaN is neither
      hn::StoreU(hn::Sqrt(sum), d, out + j);
    }
    return hn::AllTrue(d, hn::Eq(outside, hn::Zero(d)));
  }

  // Scaled sums are computed only where needed: squares that underflow cost a hundred cycles each.
  static bool any_range(std::int64_t rows, std::int64_t depth, const T* a, const T* panel, T* out) {
    HWY_ALIGN T sums[kRows * kColumns], scaled[kRows * kColumns];
    add_up_block<2, false>(rows, depth, a, panel, 1, sums);
    const D d;
    const auto repair = [&](T scale, auto is_outside) {
      bool any = false;
      for (std::int64_t j = 0; j < rows * kColumns; j += kLanes)
        any = any || !hn::AllFalse(d, is_outside(hn::LoadU(d, sums + j)));
      if (!any) return;
      add_up_block<2, true>(rows, depth, a, panel, scale, scaled);
      for (std::int64_t j = 0; j < rows * kColumns; j += kLanes) {
        const V root = hn::Mul(hn::Sqrt(hn::LoadU(d, scaled + j)), hn::Set(d, 1 / scale));
        const auto outside = is_outside(hn::LoadU(d, sums + j));
        hn::StoreU(hn::IfThenElse(outside, root, hn::LoadU(d, out + j)), d, out + j);
      }
    };
    for (std::int64_t j = 0; j < rows * kColumns; j += kLanes) hn::StoreU(hn::Sqrt(hn::LoadU(d, sums + j)), d, out + j);
    repair(Range<T>::up, [&](V sum) HWY_ATTR { return hn::Lt(sum, hn::Set(d, Range<T>::least)); });
    repair(Range<T>::down, [&](V sum) HWY_ATTR { return hn::Gt(sum, hn::Set(d, Range<T>::most)); });
    return true;
  }

  // kSome rows, kWide vectors of elements; sums of kRun columns in T, those in f64.
  template <int kSome, int kPower, int kWide>
  static HWY_INLINE void pull_vectors(std::int64_t width, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b,
                                      const T* HWY_RESTRICT weight, std::int64_t stride, std::int64_t count,
                                      double* HWY_RESTRICT sums) {
    const D d;
    for (std::int64_t first = 0; first < count; first += kRun) {
      V total[kSome][kWide];
#pragma GCC unroll 16
      for (int i = 0; i < kSome; ++i) {
#pragma GCC unroll 16
        for (int v = 0; v < kWide; ++v) total[i][v] = hn::Zero(d);
      }
      for (std::int64_t j = first; j < std::min(count, first + kRun); ++j) {
        V y[kWide];
#pragma GCC unroll 16
        for (int v = 0; v < kWide; ++v) y[v] = hn::LoadU(d, b + j * width + v * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < kSome; ++i) {
          const V w = hn::Set(d, weight[i * stride + j]);
#pragma GCC unroll 16
          for (int v = 0; v < kWide; ++v) {
            const V apart = hn::Sub(hn::LoadU(d, a + i * width + v * kLanes), y[v]);
            if constexpr (kPower == 1) {
              const V zero = hn::Zero(d);
              total[i][v] = hn::Add(total[i][v], hn::IfThenElseZero(hn::Gt(apart, zero), w));
              total[i][v] = hn::Sub(total[i][v], hn::IfThenElseZero(hn::Lt(apart, zero), w));
            } else {
              total[i][v] = hn::MulAdd(w, apart, total[i][v]);
            }
          }
        }
      }
      HWY_ALIGN T run[kWide * kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kSome; ++i) {
#pragma GCC unroll 16
        for (int v = 0; v < kWide; ++v) hn::Store(total[i][v], d, run + v * kLanes);
        for (std::int64_t k = 0; k < kWide * kLanes; ++k) sums[i * width + k] += static_cast<double>(run[k]);
      }
    }
  }

  template <int kSome, int kPower>
  static HWY_INLINE void pull_rows(std::int64_t width, const T* a, const T* b, const T* weight, std::int64_t stride,
                                   std::int64_t count, double* sums) {
    std::int64_t k = 0;
    for (; k + kVectors * kLanes <= width; k += kVectors * kLanes)
      pull_vectors<kSome, kPower, kVectors>(width, a + k, b + k, weight, stride, count, sums + k);
    for (; k < width; k += kLanes) pull_vectors<kSome, kPower, 1>(width, a + k, b + k, weight, stride, count, sums + k);
  }

  template <int kPower>
  static void pull(std::int64_t rows, std::int64_t width, const T* a, const T* b, const T* weight, std::int64_t stride,
                   std::int64_t count, double* sums) {
    switch (rows) {
      case 1:
        return pull_rows<1, kPower>(width, a, b, weight, stride, count, sums);
      case 2:
        return pull_rows<2, kPower>(width, a, b, weight, stride, count, sums);
      case 3:
        return pull_rows<3, kPower>(width, a, b, weight, stride, count, sums);
      default:
        return pull_rows<4, kPower>(width, a, b, weight, stride, count, sums);
    }
  }

  static void divide(std::int64_t count, const T* HWY_RESTRICT divisor, T* HWY_RESTRICT w) {
    const D d;
    constexpr T kLeast = std::numeric_limits<T>::min();
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const V by = hn::LoadU(d, divisor + i);
      hn::StoreU(hn::IfThenZeroElse(hn::Lt(by, hn::Set(d, kLeast)), hn::Div(hn::LoadU(d, w + i), by)), d, w + i);
    }
    for (; i < count; ++i) w[i] = divisor[i] < kLeast ? T{0} : w[i] / divisor[i];
  }

  static const DistanceKernels<T>& table() {
    static const DistanceKernels<T> kernels{{&block<1>, &block<2>}, &any_range, {&pull<1>, &pull<2>}, &divide};
    return kernels;
  }
};

}  // namespace

const DistanceKernels<float>& distances_of_f32() { return Kernels<float>::table(); }
const DistanceKernels<double>& distances_of_f64() { return Kernels<double>::table(); }

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::cpu {

HWY_EXPORT(distances_of_f32);
HWY_EXPORT(distances_of_f64);
template <>
const DistanceKernels<float>& distance_kernels<float>() {
  return HWY_DYNAMIC_DISPATCH(distances_of_f32)();
}
template <>
const DistanceKernels<double>& distance_kernels<double>() {
  return HWY_DYNAMIC_DISPATCH(distances_of_f64)();
}

}  // namespace ebb::cpu
#endif
