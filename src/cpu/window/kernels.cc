// SPDX-License-Identifier: MIT
// The sums of a tile fill the registers: a compiler that moves all loads to the front of the loop has none left. And
// copies and clears here are short: a call of memcpy, or compiler-generated vectors, would cost more than they do.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-schedule-insns", "no-tree-loop-distribute-patterns", "no-tree-vectorize")
#endif
#include "cpu/window/kernels.h"

#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/window/kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Sums stay in registers: 24 of them where there are 32 registers, 12 where there are 16.
#if HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_AVX3
constexpr bool kManyRegisters = true;
#else
constexpr bool kManyRegisters = false;
#endif

// sums[m][v] += weights[m]·x[v]. NEON multiplies by a lane of a register at no cost, where broadcasting a loaded number
// takes an arithmetic slot; other targets broadcast while they load.
template <int kRows, int kVectors, class D, class V, class T>
HWY_INLINE void add_products(D d, const T* HWY_RESTRICT weights, const V (&x)[kVectors], V (&sums)[kRows][kVectors]) {
#if HWY_TARGET == HWY_NEON
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  if constexpr (kRows % kLanes == 0) {
#pragma GCC unroll 16
    for (int m = 0; m < kRows; m += kLanes) {
      const V few = hn::LoadU(d, weights + m);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        sums[m][v] = hn::MulAdd(x[v], hn::Broadcast<0>(few), sums[m][v]);
        sums[m + 1][v] = hn::MulAdd(x[v], hn::Broadcast<1>(few), sums[m + 1][v]);
        if constexpr (kLanes == 4) {
          sums[m + 2][v] = hn::MulAdd(x[v], hn::Broadcast<2>(few), sums[m + 2][v]);
          sums[m + 3][v] = hn::MulAdd(x[v], hn::Broadcast<3>(few), sums[m + 3][v]);
        }
      }
    }
    return;
  }
#endif
#pragma GCC unroll 16
  for (int m = 0; m < kRows; ++m) {
    const V weight = hn::Set(d, weights[m]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[m][v] = hn::MulAdd(x[v], weight, sums[m][v]);
  }
}

template <class T, int kRows, int kVectors>
void window_tile(std::int64_t depth, const T* HWY_RESTRICT a, const T* HWY_RESTRICT x,
                 const std::int64_t* HWY_RESTRICT offset, const std::int64_t* HWY_RESTRICT base,
                 const T* HWY_RESTRICT start, T* HWY_RESTRICT c, std::int64_t c_stride) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  using V = hn::Vec<decltype(d)>;
  V sums[kRows][kVectors];
  const T* at[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) at[v] = x + base[v];
  if (start) {
#pragma GCC unroll 16
    for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[m][v] = hn::Set(d, start[m]);
    }
  } else {
#pragma GCC unroll 16
    for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[m][v] = hn::LoadU(d, c + m * c_stride + v * kLanes);
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    const std::int64_t skip = offset[k];
    V loaded[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) loaded[v] = hn::LoadU(d, at[v] + skip);
    add_products<kRows, kVectors>(d, a + k * kRows, loaded, sums);
  }
#pragma GCC unroll 16
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[m][v], d, c + m * c_stride + v * kLanes);
  }
}

#if HWY_TARGET == HWY_NEON
// The products of one position: g[v]·x[k], with x in lane kLane.
template <int kLane, int kTaps, int kVectors, class D, class V, class T>
HWY_INLINE void add_position(D d, const T* HWY_RESTRICT g, const V (&x)[kTaps], V (&sums)[kTaps][kVectors]) {
  V loaded[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) loaded[v] = hn::LoadU(d, g + v * static_cast<int>(hn::MaxLanes(d)));
#pragma GCC unroll 16
  for (int k = 0; k < kTaps; ++k) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[k][v] = hn::MulAdd(loaded[v], hn::Broadcast<kLane>(x[k]), sums[k][v]);
  }
}
#endif

template <class T, int kTaps, int kVectors>
void correlation_tile(std::int64_t lines, std::int64_t length, const T* HWY_RESTRICT g, const T* HWY_RESTRICT x,
                      std::int64_t pitch, const std::int64_t* HWY_RESTRICT offset, T* HWY_RESTRICT c,
                      std::int64_t c_stride) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  using V = hn::Vec<decltype(d)>;
  V sums[kTaps][kVectors];
  const T* at[kTaps];
#pragma GCC unroll 16
  for (int k = 0; k < kTaps; ++k) {
    at[k] = x + offset[k];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[k][v] = hn::LoadU(d, c + k * c_stride + v * kLanes);
  }
  for (std::int64_t p = 0; p < lines; ++p) {
    std::int64_t j = p * pitch;
#if HWY_TARGET == HWY_NEON
    // A vector of positions at a time: by lanes, see add_products.
    for (; j + kLanes <= p * pitch + length; j += kLanes, g += kLanes * kVectors * kLanes) {
      V few[kTaps];
#pragma GCC unroll 16
      for (int k = 0; k < kTaps; ++k) few[k] = hn::LoadU(d, at[k] + j);
      add_position<0>(d, g, few, sums);
      add_position<1>(d, g + kVectors * kLanes, few, sums);
      if constexpr (kLanes == 4) {
        add_position<2>(d, g + 2 * kVectors * kLanes, few, sums);
        add_position<3>(d, g + 3 * kVectors * kLanes, few, sums);
      }
    }
#endif
    for (; j < p * pitch + length; ++j, g += kVectors * kLanes) {
      V loaded[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) loaded[v] = hn::LoadU(d, g + v * kLanes);
#pragma GCC unroll 16
      for (int k = 0; k < kTaps; ++k) {
        const V value = hn::Set(d, at[k][j]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sums[k][v] = hn::MulAdd(loaded[v], value, sums[k][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int k = 0; k < kTaps; ++k) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[k][v], d, c + k * c_stride + v * kLanes);
  }
}

#if HWY_TARGET != HWY_NEON
// The same for one vector of channels: kTaps columns of kColumn taps. A broadcast number is used once, as the memory
// operand of its multiplication; one register per row of the columns and one per column form all addresses, because a
// pointer for each of them would have to be loaded, too.
template <class T, int kColumn, int kTaps>
void correlation_columns(std::int64_t lines, std::int64_t length, const T* HWY_RESTRICT g, const T* HWY_RESTRICT x,
                         std::int64_t pitch, const std::int64_t* HWY_RESTRICT offset, T* HWY_RESTRICT c,
                         std::int64_t c_stride) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  using V = hn::Vec<decltype(d)>;
  V sums[kTaps][kColumn];
  const T* at[kColumn];
#pragma GCC unroll 16
  for (int m = 0; m < kColumn; ++m) at[m] = x + offset[m];
#pragma GCC unroll 16
  for (int k = 0; k < kTaps; ++k) {
#pragma GCC unroll 16
    for (int m = 0; m < kColumn; ++m) sums[k][m] = hn::LoadU(d, c + (k * kColumn + m) * c_stride);
  }
  static_assert(kTaps == 3);
  const std::int64_t second = offset[kColumn] - offset[0], third = offset[2 * kColumn] - offset[0];
  for (std::int64_t p = 0; p < lines; ++p) {
    for (std::int64_t j = p * pitch; j < p * pitch + length; ++j, g += kLanes) {
      const V loaded = hn::LoadU(d, g);
      const std::int64_t index[] = {j, j + second, j + third};
#pragma GCC unroll 16
      for (int k = 0; k < kTaps; ++k) {
#pragma GCC unroll 16
        for (int m = 0; m < kColumn; ++m) sums[k][m] = hn::MulAdd(loaded, hn::Set(d, at[m][index[k]]), sums[k][m]);
      }
    }
  }
#pragma GCC unroll 16
  for (int k = 0; k < kTaps; ++k) {
#pragma GCC unroll 16
    for (int m = 0; m < kColumn; ++m) hn::StoreU(sums[k][m], d, c + (k * kColumn + m) * c_stride);
  }
}
#endif

// x[j·step] for j < count, as far as whole vectors of D go; returns how many that is.
template <class D, class T>
HWY_INLINE std::int64_t copy_vectors(D d, const T* HWY_RESTRICT x, std::int64_t step, std::int64_t count,
                                     T* HWY_RESTRICT to) {
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  std::int64_t j = 0;
  if (step == 1 && count >= kLanes) {
    for (; j + kLanes <= count; j += kLanes) hn::StoreU(hn::LoadU(d, x + j), d, to + j);
    hn::StoreU(hn::LoadU(d, x + count - kLanes), d, to + count - kLanes);  // may overlap the one before
    return count;
  }
  if (step == 2) {
    for (; j + kLanes < count; j += kLanes) {  // reads one more than it needs
      hn::Vec<D> even, odd;
      hn::LoadInterleaved2(d, x + 2 * j, even, odd);
      hn::StoreU(even, d, to + j);
    }
  }
  return j;
}

template <class T>
void pad_rows(std::int64_t rows, const T* HWY_RESTRICT x, std::int64_t row, std::int64_t step, std::int64_t left,
              std::int64_t count, std::int64_t pitch, T* HWY_RESTRICT to) {
  for (std::int64_t i = 0; i < rows; ++i, x += row, to += pitch) {
    for (std::int64_t j = 0; j < left; ++j) to[j] = 0;
    T* HWY_RESTRICT at = to + left;
    std::int64_t j = copy_vectors(hn::ScalableTag<T>(), x, step, count, at);
    if (j < count) j += copy_vectors(hn::CappedTag<T, 8>(), x + j * step, step, count - j, at + j);
    if (j < count) j += copy_vectors(hn::CappedTag<T, 4>(), x + j * step, step, count - j, at + j);
    for (; j < count; ++j) at[j] = x[j * step];
    for (j = left + count; j < pitch; ++j) to[j] = 0;
  }
}

#if HWY_TARGET != HWY_SCALAR
// Stores the blocks of a vector, 16 bytes each, `step` elements apart.
template <class D, class V, class T>
HWY_INLINE void store_blocks(D d, V v, T* HWY_RESTRICT to, std::int64_t step) {
  if constexpr (hn::MaxLanes(d) * sizeof(T) > 16) {
    const hn::Half<D> half;
    store_blocks(half, hn::LowerHalf(half, v), to, step);
    store_blocks(half, hn::UpperHalf(half, v),
                 to + static_cast<std::int64_t>(hn::MaxLanes(half) * sizeof(T) / 16) * step, step);
  } else {
    hn::StoreU(v, d, to);
  }
}

#endif

// f32 in squares of four by four, one per block of a vector.
template <class T>
void transpose(std::int64_t rows, std::int64_t count, const T* HWY_RESTRICT x, std::int64_t stride, T* HWY_RESTRICT to,
               std::int64_t to_stride) {
  std::int64_t m = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const hn::ScalableTag<T> d;
    const hn::Repartition<double, decltype(d)> pairs;
    constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
    for (; m + 4 <= rows; m += 4) {
      const T* HWY_RESTRICT from = x + m * stride;
      std::int64_t j = 0;
      for (; j + kLanes <= count; j += kLanes) {
        const auto a = hn::LoadU(d, from + j), b = hn::LoadU(d, from + stride + j);
        const auto e = hn::LoadU(d, from + 2 * stride + j), f = hn::LoadU(d, from + 3 * stride + j);
        const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
        const auto ab_upper = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
        const auto ef = hn::BitCast(pairs, hn::InterleaveLower(d, e, f));
        const auto ef_upper = hn::BitCast(pairs, hn::InterleaveUpper(d, e, f));
        T* HWY_RESTRICT at = to + j * to_stride + m;
        store_blocks(d, hn::BitCast(d, hn::InterleaveLower(pairs, ab, ef)), at, 4 * to_stride);
        store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ef)), at + to_stride, 4 * to_stride);
        store_blocks(d, hn::BitCast(d, hn::InterleaveLower(pairs, ab_upper, ef_upper)), at + 2 * to_stride,
                     4 * to_stride);
        store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(pairs, ab_upper, ef_upper)), at + 3 * to_stride,
                     4 * to_stride);
      }
      for (; j < count; ++j) {
        for (std::int64_t k = 0; k < 4; ++k) to[j * to_stride + m + k] = from[k * stride + j];
      }
    }
  }
#endif
  for (; m < rows; ++m) {
    for (std::int64_t j = 0; j < count; ++j) to[j * to_stride + m] = x[m * stride + j];
  }
}

template <class T>
T dot(std::int64_t lines, std::int64_t length, const T* HWY_RESTRICT g, const T* HWY_RESTRICT x, std::int64_t pitch) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  auto first = hn::Zero(d), second = hn::Zero(d);
  T rest = 0;
  for (std::int64_t p = 0; p < lines; ++p, g += length, x += pitch) {
    std::int64_t j = 0;
    for (; j + 2 * kLanes <= length; j += 2 * kLanes) {
      first = hn::MulAdd(hn::LoadU(d, g + j), hn::LoadU(d, x + j), first);
      second = hn::MulAdd(hn::LoadU(d, g + j + kLanes), hn::LoadU(d, x + j + kLanes), second);
    }
    for (; j + kLanes <= length; j += kLanes) first = hn::MulAdd(hn::LoadU(d, g + j), hn::LoadU(d, x + j), first);
    for (; j < length; ++j) rest += g[j] * x[j];
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(first, second))) + rest;
}

template <class T>
void take_larger(std::int64_t count, const T* HWY_RESTRICT x, std::int64_t stride, PoolIndex<T> tap,
                 T* HWY_RESTRICT largest, PoolIndex<T>* HWY_RESTRICT where) {
  const auto take = [&](auto d, auto value, std::int64_t i) {
    const hn::RebindToSigned<decltype(d)> di;
    const auto most = hn::LoadU(d, largest + i);
    const auto at = hn::LoadU(di, where + i);
    const auto nan = hn::AndNot(hn::IsNaN(most), hn::IsNaN(value));
    const auto larger = hn::Or(hn::Or(hn::Gt(value, most), nan), hn::RebindMask(d, hn::Lt(at, hn::Zero(di))));
    hn::StoreU(hn::IfThenElse(larger, value, most), d, largest + i);
    hn::StoreU(hn::IfThenElse(hn::RebindMask(di, larger), hn::Set(di, tap), at), di, where + i);
  };
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> d1;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  std::int64_t i = 0;
  // The last vector may overlap the one before: an element already taken is not larger than itself.
  const auto take_vectors = [&](auto load) {
    for (; i + kLanes <= count; i += kLanes) take(d, load(i), i);
    if (i < count) take(d, load(count - kLanes), count - kLanes);
    i = count;
  };
  if (stride == 1 && count >= kLanes) {
    take_vectors([&](std::int64_t j) { return hn::LoadU(d, x + j); });
  } else if (stride == 2 && count >= kLanes) {
    take_vectors([&](std::int64_t j) {
      hn::Vec<decltype(d)> even, odd;
      hn::LoadInterleaved2(d, x + 2 * j, even, odd);
      return even;
    });
  }
  for (; i < count; ++i) take(d1, hn::Set(d1, x[i * stride]), i);
}

// Tiles of kSome vectors each: the narrowest that fits.
template <class T, int kRows, int... kSome>
WindowTile<T> tile_of() {
  constexpr int kVectors[] = {kSome...};
  constexpr typename WindowTile<T>::Run kRuns[] = {&window_tile<T, kRows, kSome>...};
  WindowTile<T> tile{kRows, kVectors[sizeof...(kSome) - 1], {}, true};
  for (int n = 1; n <= tile.vectors; ++n) {
    int k = 0;
    while (kVectors[k] < n) ++k;
    tile.run[n - 1] = kRuns[k];
    tile.exact = tile.exact && kVectors[k] == n;
  }
  return tile;
}

template <class T>
const WindowKernels<T>& table() {
  const hn::ScalableTag<T> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  constexpr int kTaps = HWY_TARGET == HWY_NEON ? 9 : kManyRegisters ? 12 : 6;
  static const WindowKernels<T> kernels = [] {
    WindowKernels<T> k{};
    k.lanes = kLanes;
    k.correlation = {kTaps, 2 * kLanes, 1, &correlation_tile<T, kTaps, 2>};
#if HWY_TARGET != HWY_NEON
    constexpr int kColumn = kManyRegisters ? 8 : 4;
    k.one_vector = {3 * kColumn, kLanes, kColumn, &correlation_columns<T, kColumn, 3>};
#endif
    k.dot = &dot<T>;
    k.pad_rows = &pad_rows<T>;
    k.transpose = &transpose<T>;
    k.take_larger = &take_larger<T>;
    if constexpr (kManyRegisters) {
      k.tiles[0] = tile_of<T, 8, 1, 2, 3>();
      k.tiles[1] = tile_of<T, 4, 3, 6>();
      k.tiles[2] = tile_of<T, 2, 6, 12>();
    } else {
      k.tiles[0] = tile_of<T, 6, 1, 2>();
      k.tiles[1] = tile_of<T, 4, 1, 2, 3>();
      k.tiles[2] = tile_of<T, 2, 6>();
    }
    k.tiles[3] = tile_of<T, 1, 6, 12>();
    return k;
  }();
  return kernels;
}

}  // namespace

const WindowKernels<float>& window_kernels_f32() { return table<float>(); }
const WindowKernels<double>& window_kernels_f64() { return table<double>(); }

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::cpu {

HWY_EXPORT(window_kernels_f32);
HWY_EXPORT(window_kernels_f64);

template <>
const WindowKernels<float>& window_kernels<float>() {
  return HWY_DYNAMIC_DISPATCH(window_kernels_f32)();
}
template <>
const WindowKernels<double>& window_kernels<double>() {
  return HWY_DYNAMIC_DISPATCH(window_kernels_f64)();
}

}  // namespace ebb::cpu
#endif
