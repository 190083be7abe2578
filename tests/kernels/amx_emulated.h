// SPDX-License-Identifier: MIT
#pragma once
#include "cpu/gemm/bf16.h"

// The tiles of AMX with the unit in plain C++, so that packing, the walk over panels and the handling of sums are
// tested on processors that only have AVX-512. Null without that.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl"))), apply_to = function)
#else
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in immintrin.h itself, GCC's bug 105593
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl")
#endif
namespace ebb::cpu::emulated {
#include "cpu/gemm/bf16_amx-inl.h"
namespace {

// TDPBF16PS as in Intel's manual: sums of even and of odd products, one after the other, numbers below 2^-126 are zero
// before and after each operation.
struct EmulatedAmx {
  static inline thread_local std::int64_t heights[2] = {0, 0};  // 0: not configured

  static void configure(std::int64_t upper, std::int64_t lower) {
    heights[0] = upper;
    heights[1] = lower;
  }
  static void release() { heights[0] = heights[1] = 0; }

  // Arithmetic on numbers known to be in bounds: a check at every one of them would take the sanitizers minutes.
#define EBB_UNCHECKED __attribute__((no_sanitize("address", "undefined")))
  EBB_UNCHECKED static float flushed(float x) {
    return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
  }
  EBB_UNCHECKED static void add_row(const float (&x)[kStep], const float (&columns)[kStep][kSide], float (&to)[kSide]) {
    float sums[2][kSide] = {};
    for (int p = 0; p < kStep; ++p) {
      for (int j = 0; j < kSide; ++j) sums[p % 2][j] = flushed(__builtin_fmaf(x[p], columns[p][j], sums[p % 2][j]));
    }
    for (int j = 0; j < kSide; ++j) to[j] = flushed(to[j] + flushed(sums[0][j] + sums[1][j]));
  }
#undef EBB_UNCHECKED

  static void multiply_tile(std::int64_t rows, const BFloat16* a, std::int64_t apart, const BFloat16* b, float* to,
                            std::int64_t stride) {
    float columns[kStep][kSide], row[kStep], sums[kSide];
    for (std::int64_t p = 0; p < kStep; ++p) {
      for (std::int64_t j = 0; j < kSide; ++j) columns[p][j] = flushed(to_float(b[p / 2 * kStep + j * 2 + p % 2]));
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t p = 0; p < kStep; ++p) row[p] = flushed(to_float(a[i * apart + p]));
      std::copy_n(to + i * stride, kSide, sums);
      add_row(row, columns, sums);
      std::copy_n(sums, kSide, to + i * stride);
    }
  }

  template <bool kTall, bool kWide>
  static void multiply(const RowsOfTiles& rows, const BFloat16* b, std::int64_t b_step, float* to, std::int64_t stride,
                       FinishedTile& before) {
    for (int i = 0; i <= kTall; ++i) {
      for (int j = 0; j <= kWide; ++j) {
        float* tile = to + i * kSide * stride + j * kSide;
        for (std::int64_t r = 0; r < heights[i]; ++r) std::fill(tile + r * stride, tile + r * stride + kSide, 0.0f);
        const BFloat16* columns = b + j * kTile;
        for (std::int64_t s = 0; s < rows.steps; ++s, columns += b_step) {
          multiply_tile(heights[i], rows.data + s * rows.step + i * kSide * rows.apart, rows.apart, columns, tile,
                        stride);
          before.write_rows(1);
        }
        if (rows.tail) multiply_tile(heights[i], rows.tail + i * kTile, kStep, columns, tile, stride);
      }
    }
  }
};

constinit const GemmBf16Tiles kTiles = amx_tiles<EmulatedAmx>();

}  // namespace
}  // namespace ebb::cpu::emulated
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#pragma GCC diagnostic pop
#endif

namespace ebb::cpu {
inline const GemmBf16Tiles* emulated_amx_tiles() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") ? &emulated::kTiles : nullptr;
}
}  // namespace ebb::cpu
#else
namespace ebb::cpu {
inline const GemmBf16Tiles* emulated_amx_tiles() { return nullptr; }
}  // namespace ebb::cpu
#endif
