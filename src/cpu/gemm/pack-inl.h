// SPDX-License-Identifier: MIT
// Packs a factor of a product into panels, from any strides and dtype.
#if defined(EBB_CPU_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_CPU_GEMM_PACK_INL_H_
#undef EBB_CPU_GEMM_PACK_INL_H_
#else
#define EBB_CPU_GEMM_PACK_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "cpu/gemm/kernels.h"
#include "cpu/tile/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// f(pointer) with the type of the source: T itself, or a half.
template <class T, class F>
HWY_INLINE void with_source(const GemmSource& from, F&& f) {
  if constexpr (std::is_same_v<T, float>) {
    if (from.dtype == DType::f16) return f(static_cast<const Half*>(from.data));
    if (from.dtype == DType::bf16) return f(static_cast<const BFloat16*>(from.data));
  }
  f(static_cast<const T*>(from.data));
}
template <class T>
HWY_INLINE T value_of(T x) {
  return x;
}
template <class T>
HWY_INLINE float value_of(Half x) {
  return f16_value(x.bits);
}
template <class T>
HWY_INLINE float value_of(BFloat16 x) {
  return bf16_value(x.bits);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_as(D d, const T* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_as(D d, const BFloat16* from) {
  const hn::Rebind<std::uint16_t, D> bits;
  const hn::Rebind<std::uint32_t, D> wide;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(bits, &from->bits))));
}
template <class D>
HWY_INLINE hn::Vec<D> load_as(D d, const Half* from) {
#if HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<hwy::float16_t, D> halves;
  return hn::PromoteTo(d, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  float values[hn::MaxLanes(d)];
  for (std::size_t i = 0; i < hn::MaxLanes(d); ++i) values[i] = f16_value(from[i].bits);
  return hn::LoadU(d, values);
#endif
}

// Blocks of 128 bits a side are transposed in registers: 4×4 floats, 2×2 doubles.
template <class T>
using BlockTag = hn::CappedTag<T, 16 / sizeof(T)>;
template <class T>
constexpr int kBlockSide = static_cast<int>(hn::MaxLanes(BlockTag<T>()));

// block[p] = elements p of kBlockSide runs that begin `stride` apart.
template <class T, class S, class V>
HWY_INLINE void load_turned(const S* HWY_RESTRICT from, std::int64_t stride, V (&block)[kBlockSide<T>]) {
  const BlockTag<T> d;
  constexpr int kSide = kBlockSide<T>;
#if HWY_TARGET == HWY_SCALAR
  static_assert(kSide == 1);
  block[0] = load_as(d, from);
  (void)stride;
#else
  if constexpr (kSide == 4) {
    const hn::Repartition<std::uint64_t, decltype(d)> pairs;
    const V a = load_as(d, from), b = load_as(d, from + stride), c = load_as(d, from + 2 * stride),
            e = load_as(d, from + 3 * stride);
    const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
               AB = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
    const auto ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
               CE = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
    block[0] = hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce));
    block[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce));
    block[2] = hn::BitCast(d, hn::InterleaveLower(pairs, AB, CE));
    block[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, AB, CE));
  } else {
    static_assert(kSide == 2);
    const V a = load_as(d, from), b = load_as(d, from + stride);
    block[0] = hn::InterleaveLower(d, a, b);
    block[1] = hn::InterleaveUpper(d, a, b);
  }
#endif
}

// Blocks of 256 bits a side, where vectors are that long: as load_turned.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr int kPackBytes = 32;
#else
constexpr int kPackBytes = 16;
#endif
template <class T>
using PackTag = hn::CappedTag<T, kPackBytes / sizeof(T)>;
template <class T>
constexpr int kPackSide = static_cast<int>(hn::MaxLanes(PackTag<T>()));

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
template <class T, class S, class V>
HWY_INLINE void load_long_turned(const S* HWY_RESTRICT from, std::int64_t stride, V (&block)[kPackSide<T>]) {
  const PackTag<T> d;
  const hn::Half<decltype(d)> half;
  constexpr int kSide = kPackSide<T>, kHalf = kSide / 2;
  // Two quarters of the block are swapped on loading; then each is transposed.
  V rows[kSide];
#pragma GCC unroll 4
  for (int i = 0; i < kHalf; ++i) {
    const S *upper = from + i * stride, *lower = from + (i + kHalf) * stride;
    rows[i] = hn::Combine(d, load_as(half, lower), load_as(half, upper));
    rows[i + kHalf] = hn::Combine(d, load_as(half, lower + kHalf), load_as(half, upper + kHalf));
  }
#pragma GCC unroll 2
  for (int g = 0; g < kSide; g += kHalf) {
    if constexpr (kHalf == 4) {
      const hn::Repartition<std::uint64_t, decltype(d)> pairs;
      const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, rows[g], rows[g + 1])),
                 AB = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[g], rows[g + 1]));
      const auto ce = hn::BitCast(pairs, hn::InterleaveLower(d, rows[g + 2], rows[g + 3])),
                 CE = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[g + 2], rows[g + 3]));
      block[g] = hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce));
      block[g + 1] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce));
      block[g + 2] = hn::BitCast(d, hn::InterleaveLower(pairs, AB, CE));
      block[g + 3] = hn::BitCast(d, hn::InterleaveUpper(pairs, AB, CE));
    } else {
      block[g] = hn::InterleaveLower(d, rows[g], rows[g + 1]);
      block[g + 1] = hn::InterleaveUpper(d, rows[g], rows[g + 1]);
    }
  }
}
#endif

// `count` of a panel that is `width` wide, whatever the strides.
template <class T, class S>
void pack_by_element(const S* HWY_RESTRICT from, std::int64_t wide_stride, std::int64_t depth_stride,
                     std::int64_t count, std::int64_t width, std::int64_t depth, T* HWY_RESTRICT to) {
  for (std::int64_t p = 0; p < depth; ++p) {
    for (std::int64_t w = 0; w < count; ++w) to[p * width + w] = value_of<T>(from[w * wide_stride + p * depth_stride]);
    for (std::int64_t w = count; w < width; ++w) to[p * width + w] = T(0);
  }
}

// Dense along the depth.
template <class T, class S>
HWY_INLINE void pack_turned(const S* HWY_RESTRICT from, std::int64_t stride, std::int64_t count, std::int64_t width,
                            std::int64_t depth, T* HWY_RESTRICT to) {
  const BlockTag<T> d;
  constexpr std::int64_t kSide = kBlockSide<T>;
  std::int64_t w0 = 0;  // packed up to here, as far as depth has whole blocks
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  // A panel of B is as wide as 48 rows of its source; if those are 4 KiB long, the level-1 cache has room for eight
  // pieces of them. So a few rows at a time, and as much of the panel as stays cached meanwhile.
  constexpr std::int64_t kLong = kPackSide<T>, kRun = 64;
  const std::int64_t many = count / kLong * kLong, far = depth / kLong * kLong;
  for (std::int64_t first = 0; first < far; first += kRun) {
    for (std::int64_t w = 0; w < many; w += kLong) {
      for (std::int64_t p = first; p < std::min(far, first + kRun); p += kLong) {
        for (std::int64_t r = 0; r < kLong; ++r) hwy::Prefetch(from + (w + r) * stride + p + kRun);
        const PackTag<T> whole;
        hn::Vec<decltype(whole)> block[kLong];
        load_long_turned<T>(from + w * stride + p, stride, block);
#pragma GCC unroll 8
        for (int q = 0; q < kLong; ++q) hn::StoreU(block[q], whole, to + (p + q) * width + w);
      }
    }
  }
  for (std::int64_t w = 0; w < many; ++w) {
    for (std::int64_t p = far; p < depth; ++p) to[p * width + w] = value_of<T>(from[w * stride + p]);
  }
  w0 = many;
#endif
  const std::int64_t whole = count / kSide * kSide, turned = depth / kSide * kSide;
  for (std::int64_t p = 0; p < turned; p += kSide) {
    for (std::int64_t w = w0; w < whole; w += kSide) {
      hn::Vec<decltype(d)> block[kSide];
      load_turned<T>(from + w * stride + p, stride, block);
#pragma GCC unroll 4
      for (int q = 0; q < kSide; ++q) hn::StoreU(block[q], d, to + (p + q) * width + w);
    }
  }
  for (std::int64_t w = w0; w < whole; ++w) {
    for (std::int64_t p = turned; p < depth; ++p) to[p * width + w] = value_of<T>(from[w * stride + p]);
  }
  for (std::int64_t w = whole; w < width; ++w) {
    for (std::int64_t p = 0; p < depth; ++p) to[p * width + w] = w < count ? value_of<T>(from[w * stride + p]) : T(0);
  }
}

// Dense along the width. A few steps of k are packed for all panels while the next ones are prefetched: so runs in
// memory stay long, and each is in another page.
constexpr std::int64_t kStraightSteps = 8;
template <class T, class S>
HWY_INLINE void pack_straight(const S* HWY_RESTRICT from, std::int64_t stride, std::int64_t count, std::int64_t width,
                              std::int64_t depth, T* HWY_RESTRICT to) {
  const PackTag<T> d_long;
  const BlockTag<T> d;
  constexpr std::int64_t kLong = kPackSide<T>, kSide = kBlockSide<T>;
  const std::int64_t whole = count / kSide * kSide;
  for (std::int64_t p = 0; p < depth; ++p) {
    const S* HWY_RESTRICT row = from + p * stride;
    T* HWY_RESTRICT place = to + p * width;
    std::int64_t w = 0;
    for (; w + kLong <= whole; w += kLong) {
      if constexpr (kPackBytes == 32) hwy::Prefetch(row + kStraightSteps * stride + w);
      hn::StoreU(load_as(d_long, row + w), d_long, place + w);
    }
    for (; w < whole; w += kSide) hn::StoreU(load_as(d, row + w), d, place + w);
    for (; w < width; ++w) place[w] = w < count ? value_of<T>(row[w]) : T(0);
  }
}

// Panels of kWidth, the last one `last` wide.
template <class T, std::int64_t kWidth>
void pack(const GemmSource& source, std::int64_t wide, std::int64_t last, std::int64_t depth, T* HWY_RESTRICT to) {
  with_source<T>(source, [&](const auto* from) {
    const std::int64_t wide_stride = source.wide_stride, depth_stride = source.depth_stride;
    const std::int64_t panels = wide / kWidth, rest = wide % kWidth;
    if (wide_stride == 1) {
      for (std::int64_t p = 0; p < depth; p += kStraightSteps) {
        const std::int64_t steps = std::min(kStraightSteps, depth - p);
        for (std::int64_t i = 0; i < panels; ++i)
          pack_straight<T>(from + p * depth_stride + i * kWidth, depth_stride, kWidth, kWidth, steps,
                           to + i * kWidth * depth + p * kWidth);
        if (rest > 0)
          pack_straight<T>(from + p * depth_stride + panels * kWidth, depth_stride, rest, last, steps,
                           to + panels * kWidth * depth + p * last);
      }
      return;
    }
    for (std::int64_t i = 0; i <= panels; ++i) {
      const auto* panel = from + i * kWidth * wide_stride;
      T* place = to + i * kWidth * depth;
      if (i == panels && rest == 0) break;
      if (depth_stride != 1) {
        pack_by_element<T>(panel, wide_stride, depth_stride, i < panels ? kWidth : rest, i < panels ? kWidth : last,
                           depth, place);
      } else if (i < panels) {
        pack_turned<T>(panel, wide_stride, kWidth, kWidth, depth, place);
      } else {
        pack_turned<T>(panel, wide_stride, rest, last, depth, place);
      }
    }
  });
}

}  // namespace
}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
