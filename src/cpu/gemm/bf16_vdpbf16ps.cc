// SPDX-License-Identifier: MIT
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-schedule-insns")  // as in kernels.cc: the sums of a tile fill the registers
#endif
#include "cpu/gemm/bf16.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512bf16")
#endif
namespace ebb::cpu {
#include "cpu/gemm/bf16_panels-inl.h"
namespace {

// Four numbers in two-byte lanes of the lower half.
__m128i load_four(const BFloat16* from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); }
__m128i load_four(const float* from) { return (__m128i)_mm_cvtneps_pbh(_mm_loadu_ps(from)); }

// VDPBF16PS: a register holds pairs of k of sixteen columns; a pair of a row is repeated for all of them.
template <int kTileRows, int kVectors>
void multiply_tile(std::int64_t groups, float alpha, const BFloat16* a, const BFloat16* b,
                   const GemmResult<float>& to) {
  __m512 sums[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = _mm512_setzero_ps();
  }
  for (std::int64_t g = 0; g < groups; ++g, a += 2 * kTileRows, b += 32 * kVectors) {
    __m512bh cols[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) cols[v] = (__m512bh)_mm512_loadu_si512(b + 32 * v);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      std::int32_t pair;
      std::memcpy(&pair, a + 2 * i, sizeof pair);
      const __m512bh row = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = _mm512_dpbf16_ps(sums[i][v], row, cols[v]);
    }
  }
  const __m512 scale = _mm512_set1_ps(alpha);
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* c = to.c + i * to.stride + 16 * v;
      const __m512 made = _mm512_mul_ps(sums[i][v], scale);
      const __m512 sum = to.add ? _mm512_add_ps(_mm512_loadu_ps(c), made) : made;
      if (to.halves) {
        const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(sum);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.halves + i * to.halves_stride + 16 * v), rounded);
      } else {
        _mm512_storeu_ps(c, sum);
      }
    }
  }
}

struct Vdpbf16ps {
  static constexpr std::int64_t kRows = 8, kCols = 48, kGroup = 2;

  static std::int64_t panel_rows(std::int64_t rows) { return rows > 4 ? 8 : rows > 2 ? 4 : rows; }
  static std::int64_t panel_cols(std::int64_t cols) { return (cols + 15) / 16 * 16; }

  template <int kTileRows>
  static Tile tile_of_rows(std::int64_t cols) {
    if (cols > 32) return &multiply_tile<kTileRows, 3>;
    return cols > 16 ? &multiply_tile<kTileRows, 2> : &multiply_tile<kTileRows, 1>;
  }
  static Tile tile(std::int64_t rows, std::int64_t cols) {
    if (rows > 4) return tile_of_rows<8>(cols);
    if (rows > 2) return tile_of_rows<4>(cols);
    return rows == 2 ? tile_of_rows<2>(cols) : tile_of_rows<1>(cols);
  }

  // Four rows, four of k: a pair of k is treated as a 32-bit number, and those are transposed.
  template <class S>
  static Packed pack_depth(const S* from, std::int64_t stride, std::int64_t count, std::int64_t width,
                           std::int64_t depth, BFloat16* to) {
    const Packed done{count / 4 * 4, depth / 4 * 4};
    for (std::int64_t p = 0; p < done.depth; p += 4) {
      for (std::int64_t w = 0; w < done.wide; w += 4) {
        const S* row = from + w * stride + p;
        const __m128i ab = _mm_unpacklo_epi32(load_four(row), load_four(row + stride));
        const __m128i cd = _mm_unpacklo_epi32(load_four(row + 2 * stride), load_four(row + 3 * stride));
        BFloat16* place = to + p * width + w * kGroup;
        _mm_storeu_si128(reinterpret_cast<__m128i*>(place), _mm_unpacklo_epi64(ab, cd));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(place + kGroup * width), _mm_unpackhi_epi64(ab, cd));
      }
    }
    return done;
  }

  // Two of k, four columns.
  template <class S>
  static Packed pack_wide(const S* from, std::int64_t stride, std::int64_t count, std::int64_t width,
                          std::int64_t depth, BFloat16* to) {
    const Packed done{count / 4 * 4, depth / kGroup * kGroup};
    for (std::int64_t p = 0; p < done.depth; p += kGroup) {
      const S* row = from + p * stride;
      for (std::int64_t w = 0; w < done.wide; w += 4)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + p * width + w * kGroup),
                         _mm_unpacklo_epi16(load_four(row + w), load_four(row + stride + w)));
    }
    return done;
  }
};

constinit const GemmBf16Tiles kTiles{{.rows = Vdpbf16ps::kRows,
                                      .cols = Vdpbf16ps::kCols,
                                      .lanes = 16,
                                      .group = Vdpbf16ps::kGroup,
                                      .most_depth = 512,
                                      .bytes = sizeof(BFloat16),
                                      .rows_stay = false},
                                     packed_rows<Vdpbf16ps>,
                                     packed_cols<Vdpbf16ps>,
                                     pack_rows<Vdpbf16ps>,
                                     pack_cols<Vdpbf16ps>,
                                     multiply<Vdpbf16ps>};

}  // namespace
}  // namespace ebb::cpu
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace ebb::cpu {
const GemmBf16Tiles* gemm_bf16_tiles_vdpbf16ps() {
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl")
             ? &kTiles
             : nullptr;
}
}  // namespace ebb::cpu
#endif
