// SPDX-License-Identifier: MIT
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in immintrin.h itself, GCC's bug 105593
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include "cpu/gemm/bf16.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,amx-tile,amx-bf16"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,amx-tile,amx-bf16")
#endif
namespace ebb::cpu {
#include "cpu/gemm/bf16_amx-inl.h"
namespace {

// Tile registers 0 to 3 are sums, 4 and 5 of A, 6 and 7 of B.
struct Amx {
  struct alignas(64) Config {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {};
  };

  static void configure(std::int64_t upper, std::int64_t lower) {
    Config config;
    const auto first = static_cast<std::uint8_t>(upper),
               second = static_cast<std::uint8_t>(std::max<std::int64_t>(1, lower));
    for (const int tile : {0, 1, 4}) config.rows[tile] = first;
    for (const int tile : {2, 3, 5}) config.rows[tile] = second;
    for (const int tile : {6, 7}) config.rows[tile] = 16;
    asm volatile("" : : "m"(config) : "memory");  // all of it is read, not only the first word as the header says
    _tile_loadconfig(&config);
  }
  static void release() { _tile_release(); }

  // a: rows `bytes` apart, the second tile of them at `lower`. Tiles of B stream past once for each panel of A: the
  // hint keeps them from evicting that from the level-1 cache. On a core of Emerald Rapids 512³ took 280 µs without it
  // and takes 220.
  template <bool kTall, bool kWide>
  static void add_step(const BFloat16* a, std::int64_t bytes, const BFloat16* lower, const BFloat16* b) {
    _tile_loadd(4, a, bytes);
    _tile_stream_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kWide) {
      _tile_stream_loadd(7, b + kTile, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kTall) {
      _tile_loadd(5, lower, bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kWide) _tile_dpbf16ps(3, 5, 7);
    }
  }

  template <bool kTall, bool kWide>
  static void multiply(const RowsOfTiles& rows, const BFloat16* b, std::int64_t b_step, float* to, std::int64_t stride,
                       FinishedTile& before) {
    _tile_zero(0);
    if constexpr (kWide) _tile_zero(1);
    if constexpr (kTall) _tile_zero(2);
    if constexpr (kTall && kWide) _tile_zero(3);
    const BFloat16 *a = rows.data, *lower = a + kSide * rows.apart;
    const std::int64_t a_bytes = rows.apart * static_cast<std::int64_t>(sizeof(BFloat16));
    const std::int64_t each = (2 * kSide + rows.steps) / (rows.steps + 1);
    for (std::int64_t s = 0; s < rows.steps; ++s, a += rows.step, lower += rows.step, b += b_step) {
      add_step<kTall, kWide>(a, a_bytes, lower, b);
      before.write_rows(each);
    }
    if (rows.tail) add_step<kTall, kWide>(rows.tail, 64, rows.tail + kTile, b);
    const std::int64_t bytes = stride * static_cast<std::int64_t>(sizeof(float));
    _tile_stored(0, to, bytes);
    if constexpr (kWide) _tile_stored(1, to + kSide, bytes);
    if constexpr (kTall) _tile_stored(2, to + kSide * stride, bytes);
    if constexpr (kTall && kWide) _tile_stored(3, to + kSide * stride + kSide, bytes);
  }
};

constinit const GemmBf16Tiles kTiles = amx_tiles<Amx>();

}  // namespace
}  // namespace ebb::cpu
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace ebb::cpu {
namespace {

bool processor_has_amx() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return false;  // XCR0: the system saves the registers
  unsigned saved, upper;
  asm volatile("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
  constexpr unsigned kTileState = 3u << 17;
  if ((saved & kTileState) != kTileState) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  return (d >> 22 & 1) && (d >> 24 & 1);  // AMX-BF16, AMX-TILE
}

// Linux gives a process tile registers on request: they are 8 KiB to save for each thread.
bool system_allows_amx() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

const GemmBf16Tiles* gemm_bf16_tiles_amx() {
  return processor_has_amx() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                 system_allows_amx()
             ? &kTiles
             : nullptr;
}
}  // namespace ebb::cpu
#elif defined(__x86_64__)
namespace ebb::cpu {
const GemmBf16Tiles* gemm_bf16_tiles_amx() { return nullptr; }
}  // namespace ebb::cpu
#endif
