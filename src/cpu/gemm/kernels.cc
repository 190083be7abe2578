// SPDX-License-Identifier: MIT
// The sums of a tile fill the registers: a compiler that moves all loads to the front of the loop has none left.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-schedule-insns")
#endif
#include "cpu/gemm/kernels.h"

#include <hwy/cache_control.h>

#include <algorithm>

#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm/kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "cpu/gemm/pack-inl.h"
#include "cpu/tile/scalar-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

// 24 sums where there are 32 registers, 12 where there are 16; the rest is for a vector of A and three of B.
#if HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 4;
#endif
constexpr int kTileVectors = 3;

// NEON's panels of B are narrow enough for the level-1 cache; those of AVX2 and AVX-512 (48 and 96 KiB in f32) are not,
// but the panels of A are. Measured on Sapphire Rapids, all panels in the second-level cache: 155 and 167 GFLOP/s.
#if HWY_TARGET == HWY_NEON
constexpr bool kRowsStay = false;
#else
constexpr bool kRowsStay = true;
#endif

template <class T>
constexpr std::int64_t kLanesOf = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));

// ---- the tile
// ---------------------------------------------------------------------------------------------------------

// sums[i] += a[i]·b for the rows of a tile and a step of k. NEON multiplies by a lane of a loaded vector; elsewhere a
// number is broadcast on loading.
#if HWY_TARGET == HWY_NEON
template <int kLane, int kVectors>
HWY_INLINE void add_row(float32x4_t a, const hn::Vec<hn::ScalableTag<float>> (&b)[kVectors],
                        hn::Vec<hn::ScalableTag<float>> (&sums)[kVectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) sums[v].raw = vfmaq_laneq_f32(sums[v].raw, b[v].raw, a, kLane);
}
template <int kLane, int kVectors>
HWY_INLINE void add_row(float64x2_t a, const hn::Vec<hn::ScalableTag<double>> (&b)[kVectors],
                        hn::Vec<hn::ScalableTag<double>> (&sums)[kVectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) sums[v].raw = vfmaq_laneq_f64(sums[v].raw, b[v].raw, a, kLane);
}
#endif

// How a tile reads its panels: `apart`, rows of A in place; `copying`, panels of B in place, which it also packs on the
// way, because the store unit is otherwise idle.
enum class Reads : std::uint8_t { packed, apart, copying, apart_and_copying, packed_and_packing };
constexpr bool rows_apart(Reads r) { return r == Reads::apart || r == Reads::apart_and_copying; }
[[maybe_unused]] constexpr bool packs(Reads r) { return r == Reads::packed_and_packing; }
constexpr bool copies(Reads r) { return r == Reads::copying || r == Reads::apart_and_copying; }

// Addresses of a tile's separate rows, from two registers and three multiples of one, as x86 addressing allows.
struct Apart {
  std::int64_t one, three = 3 * one, five = 5 * one, seven = 7 * one;
  template <class T>
  HWY_INLINE const T* row(const T* a, int i) const {
    switch (i) {
      case 0:
        return a;
      case 3:
        return a + three;
      case 5:
        return a + five;
      case 6:
        return a + 2 * three;
      case 7:
        return a + seven;
      default:
        return a + i * one;
    }
  }
};

template <Reads kReads, class T, int kRows, int kVectors, class V>
HWY_INLINE void add_step(const T* HWY_RESTRICT a, const Apart& apart, const T* HWY_RESTRICT b, T* HWY_RESTRICT copy,
                         V (&sums)[kRows][kVectors]) {
  const hn::ScalableTag<T> d;
  constexpr int kLanes = static_cast<int>(kLanesOf<T>);
  V loaded[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) loaded[v] = hn::LoadU(d, b + v * kLanes);
  if constexpr (copies(kReads)) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(loaded[v], d, copy + v * kLanes);
  }
#if HWY_TARGET == HWY_NEON
  if constexpr (kRows % kLanes == 0) {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; i += kLanes) {
      const auto four = hn::LoadU(d, a + i).raw;
      add_row<0>(four, loaded, sums[i]);
      add_row<1>(four, loaded, sums[i + 1]);
      if constexpr (kLanes == 4) {
        add_row<2>(four, loaded, sums[i + 2]);
        add_row<3>(four, loaded, sums[i + 3]);
      }
    }
    return;
  }
#endif
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const V repeated = hn::Set(d, rows_apart(kReads) ? *apart.row(a, i) : a[i]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(loaded[v], repeated, sums[i][v]);
  }
}

// Prefetches of a tile. All at once at its start would delay its own first loads; so a tile with registers to
// spare, because A is packed, prefetches along with its steps, in kTileRows parts. Measured on Cascade Lake: 3 to 4 %
// of [128, 784]·[784, 1024] and of 1024³; where rows of A are read in place, it loses 1 to 4 %.
constexpr bool spreads(Reads r) { return kRowsStay && !rows_apart(r); }
constexpr std::int64_t kSpread = 192;  // shorter sums gain nothing
template <class T>
struct Fetches {
  const char* result = nullptr;  // rows of C, to the level-1 cache
  std::int64_t rows = 0, stride = 0;
  GemmSoon soon = {};
  GemmNext<T> next = {};  // of one panel

  // Its state is then read from memory and not held in registers, which the sums need.
  template <std::int64_t kBytes, bool kPacks>
  static HWY_INLINE void part(const Fetches* all, std::int64_t i) {
    asm volatile("" : "+r"(all));
    if (i < all->rows) {
      const char* const row = all->result + i * all->stride;
#pragma GCC unroll 4
      for (std::int64_t byte = 0; byte < kBytes; byte += 64) __builtin_prefetch(row + byte, 1);
      __builtin_prefetch(row + kBytes - 1, 1);
    }
    if (!kPacks || i < kTileRows) all->soon.fetch(i, kTileRows);
    if constexpr (kPacks) {
      if (i < all->next.depth) all->pack_next(i);
    }
  }

  // Packs one step of k of the next panel, while the third after it is prefetched.
  HWY_INLINE void pack_next(std::int64_t p) const {
    const hn::ScalableTag<T> d;
    constexpr std::int64_t kLanes = kLanesOf<T>, kAhead = 3;
    const T* HWY_RESTRICT from = next.from + p * next.stride;
    T* HWY_RESTRICT to = next.to + p * next.cols;
    const T* const soon = from + kAhead * next.stride;
    for (std::int64_t j = 0; j < next.cols; j += kLanes) {
      __builtin_prefetch(soon + j);
      hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    }
  }
};

// The part that one of so many rows of tiles packs of the panel next to the one from column j on.
template <class T>
HWY_INLINE GemmNext<T> next_of(const GemmNext<T>& all, std::int64_t j, std::int64_t width, std::int64_t tile,
                               std::int64_t tiles) {
  if (j >= all.cols) return {};
  const std::int64_t first = all.depth * tile / tiles, end = all.depth * (tile + 1) / tiles;
  const std::int64_t cols = std::min(width, all.cols - j);
  return {all.from + first * all.stride + j, all.stride, cols, end - first, all.to + j * all.depth + first * cols};
}

template <class T>
struct TilePanels {
  const T* a;
  std::int64_t a_step, a_apart;
  const T* b;
  std::int64_t b_step;
  T* copy;
  Fetches<T> fetches;
};

template <class T, int kRows, int kVectors, Reads kReads>
void multiply_tile(std::int64_t depth, T alpha, const TilePanels<T>& panels, bool add, T* HWY_RESTRICT c,
                   std::int64_t c_stride) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = kLanesOf<T>;
  using V = hn::Vec<decltype(d)>;
  V sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(d);
  }
  // Measured on Neoverse V1 at 1024³: 69 GFLOP/s without, 71 with the panel of A prefetched from the second-level
  // cache, 73 with both. Elsewhere B comes from there, all lines of it.
  // Copied data may come from further away.
  constexpr std::int64_t kAhead = copies(kReads) ? 16 : 8;
  const T* HWY_RESTRICT a = panels.a;
  const T* HWY_RESTRICT b = panels.b;
  T* HWY_RESTRICT copy = panels.copy;
  const std::int64_t a_step = rows_apart(kReads) ? 1 : panels.a_step, b_step = panels.b_step;
  const Apart apart{panels.a_apart};
  const auto add_steps = [&](std::int64_t steps) HWY_ATTR __attribute__((always_inline)) {
    for (std::int64_t p = 0; p < steps; ++p, a += a_step, b += b_step) {
      if constexpr (!rows_apart(kReads)) hwy::Prefetch(a + 64 * a_step);
      hwy::Prefetch(b + kAhead * b_step);
      if constexpr (kVectors > 1 && kLanes * sizeof(T) == 64) hwy::Prefetch(b + kAhead * b_step + kLanes);
      if constexpr (kVectors > 2 && kLanes * sizeof(T) >= 32) hwy::Prefetch(b + kAhead * b_step + 2 * kLanes);
      add_step<kReads, T, kRows, kVectors>(a, apart, b, copy, sums);
      if constexpr (copies(kReads)) copy += kVectors * kLanes;
    }
  };
  std::int64_t left = depth;
  if constexpr (spreads(kReads)) {
    const std::int64_t parts = packs(kReads) ? std::max<std::int64_t>(kTileRows, panels.fetches.next.depth) : kTileRows;
    const std::int64_t steps = depth / parts;
    for (std::int64_t part = 0; depth >= kSpread && part < parts; ++part, left -= steps) {
      Fetches<T>::template part<kTileVectors * kLanes * sizeof(T), packs(kReads)>(&panels.fetches, part);
      add_steps(steps);
    }
  }
  add_steps(left);
  const V scale = hn::Set(d, alpha);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      T* to = c + i * c_stride + v * kLanes;
      const V product = hn::Mul(sums[i][v], scale);
      hn::StoreU(add ? hn::Add(hn::LoadU(d, to), product) : product, d, to);
    }
  }
}

template <class T>
using TileFn = void (*)(std::int64_t, T, const TilePanels<T>&, bool, T*, std::int64_t);

// Narrow panels have tiles of their own: 1, 2 or 4 rows, one or two vectors. They are packed; whole ones may be read in
// place.
template <class T, int kRows, Reads kReads = Reads::packed>
TileFn<T> tile_of_vectors(std::int64_t cols) {
  if (cols > 2 * kLanesOf<T>) return &multiply_tile<T, kRows, 3, kReads>;
  return cols > kLanesOf<T> ? &multiply_tile<T, kRows, 2, kReads> : &multiply_tile<T, kRows, 1, kReads>;
}
template <class T>
TileFn<T> tile_for(std::int64_t rows, std::int64_t cols, bool apart, bool copying, bool packing) {
  if constexpr (kRowsStay) {
    if (packing) return tile_of_vectors<T, kTileRows, Reads::packed_and_packing>(cols);
    if (apart && copying) return tile_of_vectors<T, kTileRows, Reads::apart_and_copying>(cols);
    if (apart) return tile_of_vectors<T, kTileRows, Reads::apart>(cols);
    if (copying) return tile_of_vectors<T, kTileRows, Reads::copying>(cols);
  }
  if (rows > 4) return tile_of_vectors<T, kTileRows>(cols);
  if (rows > 2) return tile_of_vectors<T, 4>(cols);
  return rows == 2 ? tile_of_vectors<T, 2>(cols) : tile_of_vectors<T, 1>(cols);
}

// The rows and columns to which a panel of so many is packed.
std::int64_t panel_rows(std::int64_t rows) { return rows > 4 ? kTileRows : rows > 2 ? 4 : rows; }
template <class T>
std::int64_t panel_cols(std::int64_t cols) {
  return (cols + kLanesOf<T> - 1) / kLanesOf<T> * kLanesOf<T>;
}

std::int64_t packed_rows(std::int64_t rows) { return rows / kTileRows * kTileRows + panel_rows(rows % kTileRows); }
template <class T>
std::int64_t packed_cols(std::int64_t cols) {
  return panel_cols<T>(cols);
}

// Prefetches C that is added to, before a tile of NEON.
template <class T>
HWY_INLINE void prefetch_result(const T* to, std::int64_t stride, std::int64_t rows, bool add) {
  for (std::int64_t r = 0; add && r < rows; ++r) hwy::Prefetch(to + r * stride);
}

// Prefetches into the second-level cache the part of the next rows that is due with columns [j, j + a panel) of `cols`:
// they are short runs of memory, which the hardware prefetcher misses.
template <class T>
HWY_INLINE void fetch_rows(const T* rows, std::int64_t apart, std::int64_t depth, std::int64_t j, std::int64_t cols) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const std::int64_t first = depth * j / cols / kLine,
                     end = (depth * std::min(cols, j + kTileVectors * kLanesOf<T>) / cols + kLine - 1) / kLine;
  for (std::int64_t line = first; line < end; ++line) {
    for (std::int64_t i = 0; i < kTileRows; ++i) __builtin_prefetch(rows + i * apart + line * kLine, 0, 2);
  }
}

template <class T>
void multiply(std::int64_t rows, std::int64_t cols, std::int64_t depth, T alpha, const GemmPanels<T>& a,
              const GemmPanels<T>& b, const GemmResult<T>& result) {
  T* c = result.c;
  const bool add = result.add;
  const std::int64_t c_stride = result.stride;
  constexpr std::int64_t kRows = kTileRows, kCols = kTileVectors * kLanesOf<T>;
  [[maybe_unused]] const std::int64_t across = (cols + kCols - 1) / kCols, tiles = (rows + kRows - 1) / kRows * across;
  const auto tile_at = [&](std::int64_t i, std::int64_t j) {
    const std::int64_t m = std::min(kRows, rows - i), n = std::min(kCols, cols - j);
    const bool low = m < kRows, narrow = n < kCols;
    const std::int64_t packed_m = low ? panel_rows(m) : kRows, packed_n = panel_cols<T>(n);
    const bool with_others = !narrow || b.last_lies, copied = b.copies && with_others && i > 0;
    const bool copying = b.copies && with_others && i == 0 && !low;
    T* const copy = b.copies ? b.copies + j * depth : nullptr;
    T* to = c + i * c_stride + j;
    const bool apart = !low && a.apart != 1;
    const bool packing = kRowsStay && b.next.from && !low && !apart && depth >= kSpread;
    Fetches<T> fetches;
    if constexpr (kRowsStay) {
      constexpr std::int64_t kSize = sizeof(T);
      fetches = {reinterpret_cast<const char*>(to), m, c_stride * kSize,
                 b.soon.share(i / kRows * across + j / kCols, tiles)};
      if (b.next.from) fetches.next = next_of(b.next, j, kCols, i / kRows, tiles / across);
      // Here and not in the tile, where the addresses would take registers that its sums need.
      for (std::int64_t part = 0; (apart || depth < kSpread) && part < kRows; ++part)
        Fetches<T>::template part<kCols * kSize, false>(&fetches, part);
      for (std::int64_t p = 0; !packing && p < fetches.next.depth; ++p) fetches.pack_next(p);
    } else {
      prefetch_result<T>(to, c_stride, m, add);
    }
    const TilePanels<T> panels{low ? a.last : a.data + i / kRows * a.distance,
                               low ? packed_m : a.step,
                               a.apart,
                               copied   ? copy
                               : narrow ? b.last
                                        : b.data + j / kCols * b.distance,
                               copied || !with_others ? packed_n : b.step,
                               copy,
                               fetches};
    const TileFn<T> tile = tile_for<T>(m, n, apart, copying, packing);
    if (apart && i + 2 * kRows <= rows) fetch_rows(a.data + (i / kRows + 1) * a.distance, a.apart, depth, j, cols);
    if (m == packed_m && n == packed_n) return tile(depth, alpha, panels, add, to, c_stride);
    HWY_ALIGN T whole[kRows * kCols];
    tile(depth, alpha, panels, false, whole, kCols);
    for (std::int64_t r = 0; r < m; ++r) {
      T* row = to + r * c_stride;
      const T* made = whole + r * kCols;
      for (std::int64_t s = 0; s < n; ++s) row[s] = add ? row[s] + made[s] : made[s];
    }
  };
  if constexpr (kRowsStay) {
    for (std::int64_t i = 0; i < rows; i += kRows) {
      for (std::int64_t j = 0; j < cols; j += kCols) tile_at(i, j);
    }
  } else {
    for (std::int64_t j = 0; j < cols; j += kCols) {
      for (std::int64_t i = 0; i < rows; i += kRows) tile_at(i, j);
    }
  }
}

// ---- vectors
// ----------------------------------------------------------------------------------------------------------

// Dense columns: rows of B stream past, eight at a time, under a run of sums that stays in the level-1 cache.
template <class T, class S, int kRows>
HWY_INLINE void add_rows(std::int64_t n, const T* HWY_RESTRICT x, const S* HWY_RESTRICT b, std::int64_t stride,
                         T* HWY_RESTRICT sum) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = kLanesOf<T>;
  const hn::CappedTag<T, 1> d1;
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    auto s = hn::LoadU(d, sum + j);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) s = hn::MulAdd(load_as(d, b + r * stride + j), hn::Set(d, x[r]), s);
    hn::StoreU(s, d, sum + j);
  }
  for (; j < n; ++j) {
    auto s = hn::LoadU(d1, sum + j);
    for (int r = 0; r < kRows; ++r) s = hn::MulAdd(hn::Set(d1, value_of<T>(b[r * stride + j])), hn::Set(d1, x[r]), s);
    hn::StoreU(s, d1, sum + j);
  }
}

template <class T, class S>
void multiply_dense_cols(std::int64_t cols, std::int64_t depth, const T* x, const S* b, std::int64_t stride, T* sum) {
  constexpr std::int64_t kRun = 8192 / sizeof(T);
  for (std::int64_t j = 0; j < cols; j += kRun) {
    const std::int64_t n = std::min(kRun, cols - j);
    std::fill(sum + j, sum + j + n, T(0));
    std::int64_t p = 0;
    for (; p + 8 <= depth; p += 8) add_rows<T, S, 8>(n, x + p, b + p * stride + j, stride, sum + j);
    for (; p < depth; ++p) add_rows<T, S, 1>(n, x + p, b + p * stride + j, stride, sum + j);
  }
}

// Dense depth: kGroups × kBlock columns at a time, transposed in registers, so that the order of k is kept.
template <class T, class S, int kGroups>
HWY_INLINE void dot_cols(std::int64_t depth, const T* HWY_RESTRICT x, const S* HWY_RESTRICT b, std::int64_t stride,
                         T* HWY_RESTRICT sum) {
  const BlockTag<T> d;
  constexpr int kSide = kBlockSide<T>;
  hn::Vec<decltype(d)> sums[kGroups];
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) sums[g] = hn::Zero(d);
  std::int64_t p = 0;
  for (; p + kSide <= depth; p += kSide) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      hn::Vec<decltype(d)> block[kSide];
      load_turned<T>(b + g * kSide * stride + p, stride, block);
#pragma GCC unroll 4
      for (int q = 0; q < kSide; ++q) sums[g] = hn::MulAdd(block[q], hn::Set(d, x[p + q]), sums[g]);
    }
  }
  for (; p < depth; ++p) {
    for (int g = 0; g < kGroups; ++g) {
      HWY_ALIGN T column[kSide];
      for (int q = 0; q < kSide; ++q) column[q] = value_of<T>(b[(g * kSide + q) * stride + p]);
      sums[g] = hn::MulAdd(hn::Load(d, column), hn::Set(d, x[p]), sums[g]);
    }
  }
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) hn::StoreU(sums[g], d, sum + g * kSide);
}

template <class T, class S>
T dot_of(std::int64_t depth, const T* a, std::int64_t a_stride, const S* b, std::int64_t b_stride) {
  const hn::CappedTag<T, 1> d1;
  auto s = hn::Zero(d1);
  for (std::int64_t p = 0; p < depth; ++p)
    s = hn::MulAdd(hn::Set(d1, value_of<T>(b[p * b_stride])), hn::Set(d1, a[p * a_stride]), s);
  return hn::GetLane(s);
}

template <class T, class S>
void multiply_dense_depth(std::int64_t cols, std::int64_t depth, const T* x, const S* b, std::int64_t stride, T* sum) {
  constexpr std::int64_t kSide = kBlockSide<T>;
  std::int64_t j = 0;
  for (; j + 4 * kSide <= cols; j += 4 * kSide) dot_cols<T, S, 4>(depth, x, b + j * stride, stride, sum + j);
  for (; j + kSide <= cols; j += kSide) dot_cols<T, S, 1>(depth, x, b + j * stride, stride, sum + j);
  for (; j < cols; ++j) sum[j] = dot_of(depth, x, 1, b + j * stride, 1);
}

template <class T>
void multiply_vector(std::int64_t cols, std::int64_t depth, const T* x, const GemmSource& b, T* sum) {
  with_source<T>(b, [&](const auto* from) {
    if (b.wide_stride == 1) return multiply_dense_cols<T>(cols, depth, x, from, b.depth_stride, sum);
    if (b.depth_stride == 1) return multiply_dense_depth<T>(cols, depth, x, from, b.wide_stride, sum);
    for (std::int64_t j = 0; j < cols; ++j) sum[j] = dot_of(depth, x, 1, from + j * b.wide_stride, b.depth_stride);
  });
}

// Each addition of a sum waits for the one before: eight independent sums wait together.
template <class T>
void multiply_runs(std::int64_t runs, std::int64_t depth, const T* HWY_RESTRICT x, const GemmSource& source,
                   T* HWY_RESTRICT sum, std::int64_t sum_stride) {
  constexpr int kTogether = 8;
  const hn::CappedTag<T, 1> d1;
  with_source<T>(source, [&](const auto* HWY_RESTRICT b) {
    const std::int64_t stride = source.depth_stride;
    std::int64_t r = 0;
    for (; r + kTogether <= runs; r += kTogether) {
      hn::Vec<decltype(d1)> sums[kTogether];
#pragma GCC unroll 8
      for (int i = 0; i < kTogether; ++i) sums[i] = hn::Zero(d1);
      for (std::int64_t p = 0; p < depth; ++p) {
#pragma GCC unroll 8
        for (int i = 0; i < kTogether; ++i) {
          const std::int64_t at = (r + i) * depth + p;
          sums[i] = hn::MulAdd(hn::Set(d1, value_of<T>(b[at * stride])), hn::Set(d1, x[at]), sums[i]);
        }
      }
#pragma GCC unroll 8
      for (int i = 0; i < kTogether; ++i) sum[(r + i) * sum_stride] = hn::GetLane(sums[i]);
    }
    for (; r < runs; ++r) sum[r * sum_stride] = dot_of(depth, x + r * depth, 1, b + r * depth * stride, stride);
  });
}

template <class T>
void read_vector(const GemmSource& source, std::int64_t depth, T* to) {
  with_source<T>(source, [&](const auto* from) { pack_by_element<T>(from, 0, source.depth_stride, 1, 1, depth, to); });
}

template <class T>
T dot(std::int64_t depth, const T* a, std::int64_t a_stride, const T* b, std::int64_t b_stride) {
  return dot_of(depth, a, a_stride, b, b_stride);
}

// Rows of C in vectors of kSize columns together. Rows of B are read together with what follows them if that is B, too,
// and otherwise copied first; columns written beyond a row of C are overwritten by the next row.
template <class T, std::size_t kSize>
HWY_INLINE void multiply_small_as(const GemmSmall<T>& p) {
  const hn::CappedTag<T, kSize> d;
  constexpr std::size_t kVector = hn::MaxLanes(hn::CappedTag<T, kSize>()), kVectors = kSize / kVector;
  constexpr auto kCols = static_cast<std::int64_t>(kSize);
  T copied[kSmallGemm * kSize];
  const T* b = p.b;
  std::int64_t b_row = p.b_row;
  if (p.b_col != 1 || p.b_row < 0 || b + (p.k - 1) * b_row + kCols > p.b_end) {
    for (std::int64_t q = 0; q < p.k; ++q)
      for (std::int64_t j = 0; j < kCols; ++j) copied[q * kCols + j] = j < p.n ? p.b[q * p.b_row + j * p.b_col] : T(0);
    b = copied;
    b_row = kCols;
  }
  for (std::int64_t i = 0; i < p.m; ++i) {
    hn::Vec<decltype(d)> sums[kVectors];
    for (auto& sum : sums) sum = hn::Zero(d);
    for (std::int64_t q = 0; q < p.k; ++q) {
      const auto x = hn::Set(d, p.a[i * p.a_row + q * p.a_col]);
      for (std::size_t v = 0; v < kVectors; ++v)
        sums[v] = hn::MulAdd(hn::LoadU(d, b + q * b_row + v * kVector), x, sums[v]);
    }
    T row[kSize];
    T* to = p.c + i * p.n;
    const bool whole = !p.add && (i + 1 < p.m ? (p.m - i) * p.n >= kCols : p.n == kCols);
    for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, (whole ? to : row) + v * kVector);
    for (std::int64_t j = 0; !whole && j < p.n; ++j) to[j] = p.add ? to[j] + row[j] : row[j];
  }
}
template <class T>
void multiply_small(const GemmSmall<T>& p) {
  if (p.n <= 4) return multiply_small_as<T, 4>(p);
  if (p.n <= 8) return multiply_small_as<T, 8>(p);
  multiply_small_as<T, 16>(p);
}

template <class T>
void pack_rows(const GemmSource& from, std::int64_t rows, std::int64_t depth, T* to) {
  pack<T, kTileRows>(from, rows, panel_rows(rows % kTileRows), depth, to);
}
template <class T>
void pack_cols(const GemmSource& from, std::int64_t cols, std::int64_t depth, T* to) {
  constexpr std::int64_t kCols = kTileVectors * kLanesOf<T>;
  pack<T, kCols>(from, cols, panel_cols<T>(cols % kCols), depth, to);
}

template <class T>
constexpr GemmKernels<T> table() {
  return {{{.rows = kTileRows,
            .cols = kTileVectors * kLanesOf<T>,
            .lanes = kLanesOf<T>,
            .group = 1,
            .most_depth = kGemmDepth<T>,
            .bytes = sizeof(T),
            .rows_stay = kRowsStay},
           packed_rows,
           packed_cols<T>,
           pack_rows<T>,
           pack_cols<T>,
           multiply<T>},
          {kGemmDepth<T>, multiply_vector<T>, multiply_runs<T>},
          read_vector<T>,
          dot<T>,
          multiply_small<T>};
}

}  // namespace

extern const GemmKernels<float> kGemmF32;
extern const GemmKernels<double> kGemmF64;
constinit const GemmKernels<float> kGemmF32 = table<float>();
constinit const GemmKernels<double> kGemmF64 = table<double>();

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/tile/each_target.h"
#include "cpu/tile/kernels.h"

namespace ebb::cpu {

#define EBB_CASE(name) \
  case HWY_##name:     \
    return N_##name::EBB_TABLE;

template <>
const GemmKernels<float>& gemm_kernels<float>() {
#define EBB_TABLE kGemmF32
  switch (tile_kernels().target_bit) { EBB_EACH_TARGET(EBB_CASE) }
  return HWY_STATIC_DISPATCH(EBB_TABLE);
#undef EBB_TABLE
}

template <>
const GemmKernels<double>& gemm_kernels<double>() {
#define EBB_TABLE kGemmF64
  switch (tile_kernels().target_bit) { EBB_EACH_TARGET(EBB_CASE) }
  return HWY_STATIC_DISPATCH(EBB_TABLE);
#undef EBB_TABLE
}

}  // namespace ebb::cpu
#endif  // HWY_ONCE
