// SPDX-License-Identifier: MIT
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-schedule-insns")  // as in kernels.cc: the sums of a tile fill the registers
#endif
#include "cpu/gemm/bf16.h"

#if defined(__aarch64__)

#if EBB_HAS_BFMMLA
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <algorithm>

#ifndef HWCAP2_BF16
#define HWCAP2_BF16 (1 << 14)
#endif

#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+bf16")
#endif
namespace ebb::cpu {
#include "cpu/gemm/bf16_panels-inl.h"
namespace {

bfloat16x8_t load(const BFloat16* from) { return vld1q_bf16(reinterpret_cast<const __bf16*>(from)); }
uint16x8_t load_eight(const BFloat16* from) { return vld1q_u16(&from->bits); }
uint16x8_t load_eight(const float* from) {
  const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(from));
  return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(low, vld1q_f32(from + 4)));
}
uint16x4_t load_four(const BFloat16* from) { return vld1_u16(&from->bits); }
uint16x4_t load_four(const float* from) { return vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(from))); }

// BFMMLA: a register holds four of k of two rows (or columns), the sums of two rows by two columns.
// The sums of a whole tile. By hand, because a register for each sum leaves eight: four for the rows, two pairs for the
// columns, each loaded as soon as its last use is issued. (A compiler moves sums around to save registers that it does
// not need.) The last group has nothing to load ahead.
#define EBB_COLUMN(v, from)                                                              \
  "bfmmla %[s0" #v "].4s, v0.8h, v" #from ".8h\n  bfmmla %[s1" #v "].4s, v1.8h, v" #from \
  ".8h\n"                                                                                \
  "bfmmla %[s2" #v "].4s, v2.8h, v" #from ".8h\n  bfmmla %[s3" #v "].4s, v3.8h, v" #from ".8h\n"
#define EBB_GROUP                                                                                            \
  "ldp q6, q7, [%[b], #32]\n" EBB_COLUMN(0, 4) EBB_COLUMN(1, 5) "ldp q4, q5, [%[b], #64]\n" EBB_COLUMN(2, 6) \
      EBB_COLUMN(3, 7) EBB_COLUMN(4, 4)
#define EBB_ZERO(v) \
  "movi %[s0" #v "].4s, #0\n  movi %[s1" #v "].4s, #0\n  movi %[s2" #v "].4s, #0\n  movi %[s3" #v "].4s, #0\n"
#define EBB_SUMS(v) \
  [s0##v] "=&w"(sums[0][v]), [s1##v] "=&w"(sums[1][v]), [s2##v] "=&w"(sums[2][v]), [s3##v] "=&w"(sums[3][v])
inline void sum_groups(std::int64_t groups, const BFloat16* a, const BFloat16* b, float32x4_t (&sums)[4][6]) {
  asm volatile(
      EBB_ZERO(0) EBB_ZERO(1) EBB_ZERO(2) EBB_ZERO(3) EBB_ZERO(4) EBB_ZERO(5)
      "ldp q0, q1, [%[a]]\n  ldp q2, q3, [%[a], #32]\n  ldp q4, q5, [%[b]]\n"
      "subs %[n], %[n], #1\n  b.eq 2f\n"
      "1:\n"
      "prfm pldl1keep, [%[a], #1536]\n"
      EBB_GROUP
      "bfmmla %[s05].4s, v0.8h, v5.8h\n  bfmmla %[s15].4s, v1.8h, v5.8h\n  ldp q0, q1, [%[a], #64]\n"
      "bfmmla %[s25].4s, v2.8h, v5.8h\n  bfmmla %[s35].4s, v3.8h, v5.8h\n  ldp q2, q3, [%[a], #96]\n"
      "ldp q4, q5, [%[b], #96]\n"
      "add %[a], %[a], #64\n  add %[b], %[b], #96\n  subs %[n], %[n], #1\n  b.ne 1b\n"
      "2:\n" EBB_GROUP EBB_COLUMN(5, 5)
      : EBB_SUMS(0), EBB_SUMS(1), EBB_SUMS(2), EBB_SUMS(3), EBB_SUMS(4), EBB_SUMS(5), [a] "+r"(a), [b] "+r"(b),
        [n] "+r"(groups)
      :
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7");
}
#undef EBB_COLUMN
#undef EBB_GROUP
#undef EBB_ZERO
#undef EBB_SUMS

template <int kRowPairs, int kColPairs>
inline void sum_groups(std::int64_t groups, const BFloat16* a, const BFloat16* b,
                       float32x4_t (&sums)[kRowPairs][kColPairs]) {
#pragma GCC unroll 4
  for (int i = 0; i < kRowPairs; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kColPairs; ++v) sums[i][v] = vdupq_n_f32(0);
  }
  for (std::int64_t g = 0; g < groups; ++g, a += 8 * kRowPairs, b += 8 * kColPairs) {
    bfloat16x8_t rows[kRowPairs];
#pragma GCC unroll 4
    for (int i = 0; i < kRowPairs; ++i) rows[i] = load(a + 8 * i);
#pragma GCC unroll 8
    for (int v = 0; v < kColPairs; ++v) {
      const bfloat16x8_t cols = load(b + 8 * v);
#pragma GCC unroll 4
      for (int i = 0; i < kRowPairs; ++i) sums[i][v] = vbfmmlaq_f32(sums[i][v], rows[i], cols);
    }
  }
}

inline void store(float32x4_t made, float* c, BFloat16* half, bool add) {
  const float32x4_t sum = add ? vaddq_f32(vld1q_f32(c), made) : made;
  if (half) {
    vst1_u16(&half->bits, vreinterpret_u16_bf16(vcvt_bf16_f32(sum)));
  } else {
    vst1q_f32(c, sum);
  }
}

template <int kRowPairs, int kColPairs>
void multiply_tile(std::int64_t groups, float alpha, const BFloat16* a, const BFloat16* b,
                   const GemmResult<float>& to) {
  float32x4_t sums[kRowPairs][kColPairs];
  sum_groups(groups, a, b, sums);
  const auto store_all = [&](bool halves, bool add) {
#pragma GCC unroll 4
    for (int i = 0; i < kRowPairs; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kColPairs; v += 2) {
        const float64x2_t left = vreinterpretq_f64_f32(vmulq_n_f32(sums[i][v], alpha));
        const float64x2_t right = vreinterpretq_f64_f32(vmulq_n_f32(sums[i][v + 1], alpha));
        float* c = to.c + 2 * i * to.stride + 2 * v;
        BFloat16* half = halves ? to.halves + 2 * i * to.halves_stride + 2 * v : nullptr;
        store(vreinterpretq_f32_f64(vzip1q_f64(left, right)), c, half, add);
        store(vreinterpretq_f32_f64(vzip2q_f64(left, right)), c + to.stride, half ? half + to.halves_stride : nullptr,
              add);
      }
    }
  };
  if (to.halves) {
    to.add ? store_all(true, true) : store_all(true, false);
  } else {
    to.add ? store_all(false, true) : store_all(false, false);
  }
}

struct Bfmmla {
  static constexpr std::int64_t kRows = 8, kCols = 12, kGroup = 4;

  static std::int64_t panel_rows(std::int64_t rows) { return rows > 4 ? 8 : rows > 2 ? 4 : (rows + 1) / 2 * 2; }
  static std::int64_t panel_cols(std::int64_t cols) { return (cols + 3) / 4 * 4; }

  template <int kRowPairs>
  static Tile tile_of_rows(std::int64_t cols) {
    if (cols > 8) return &multiply_tile<kRowPairs, 6>;
    return cols > 4 ? &multiply_tile<kRowPairs, 4> : &multiply_tile<kRowPairs, 2>;
  }
  static Tile tile(std::int64_t rows, std::int64_t cols) {
    if (rows > 4) return tile_of_rows<4>(cols);
    return rows > 2 ? tile_of_rows<2>(cols) : tile_of_rows<1>(cols);
  }

  // Two rows, eight of k: their lower halves are one group, their upper halves the next.
  template <class S>
  static Packed pack_depth(const S* from, std::int64_t stride, std::int64_t count, std::int64_t width,
                           std::int64_t depth, BFloat16* to) {
    const Packed done{count / 2 * 2, depth / 8 * 8};
    for (std::int64_t p = 0; p < done.depth; p += 8) {
      for (std::int64_t w = 0; w < done.wide; w += 2) {
        const uint64x2_t first = vreinterpretq_u64_u16(load_eight(from + w * stride + p));
        const uint64x2_t second = vreinterpretq_u64_u16(load_eight(from + (w + 1) * stride + p));
        BFloat16* place = to + p * width + w * kGroup;
        vst1q_u16(&place->bits, vreinterpretq_u16_u64(vzip1q_u64(first, second)));
        vst1q_u16(&(place + kGroup * width)->bits, vreinterpretq_u16_u64(vzip2q_u64(first, second)));
      }
    }
    return done;
  }

  // Four of k, eight or four columns, transposed by zipping pairs and then pairs of pairs.
  template <class S>
  static Packed pack_wide(const S* from, std::int64_t stride, std::int64_t count, std::int64_t width,
                          std::int64_t depth, BFloat16* to) {
    const Packed done{count / 4 * 4, depth / kGroup * kGroup};
    for (std::int64_t p = 0; p < done.depth; p += kGroup) {
      const S* row = from + p * stride;
      BFloat16* place = to + p * width;
      std::int64_t w = 0;
      for (; w + 8 <= done.wide; w += 8) {
        const uint16x8_t a = load_eight(row + w), b = load_eight(row + stride + w);
        const uint16x8_t c = load_eight(row + 2 * stride + w), d = load_eight(row + 3 * stride + w);
        const uint32x4_t ab = vreinterpretq_u32_u16(vzip1q_u16(a, b)), cd = vreinterpretq_u32_u16(vzip1q_u16(c, d));
        const uint32x4_t AB = vreinterpretq_u32_u16(vzip2q_u16(a, b)), CD = vreinterpretq_u32_u16(vzip2q_u16(c, d));
        std::uint16_t* out = &(place + w * kGroup)->bits;
        vst1q_u16(out, vreinterpretq_u16_u32(vzip1q_u32(ab, cd)));
        vst1q_u16(out + 8, vreinterpretq_u16_u32(vzip2q_u32(ab, cd)));
        vst1q_u16(out + 16, vreinterpretq_u16_u32(vzip1q_u32(AB, CD)));
        vst1q_u16(out + 24, vreinterpretq_u16_u32(vzip2q_u32(AB, CD)));
      }
      for (; w < done.wide; w += 4) {
        const uint16x4_t a = load_four(row + w), b = load_four(row + stride + w);
        const uint16x4_t c = load_four(row + 2 * stride + w), d = load_four(row + 3 * stride + w);
        const uint32x4_t ab = vreinterpretq_u32_u16(vcombine_u16(vzip1_u16(a, b), vzip2_u16(a, b)));
        const uint32x4_t cd = vreinterpretq_u32_u16(vcombine_u16(vzip1_u16(c, d), vzip2_u16(c, d)));
        std::uint16_t* out = &(place + w * kGroup)->bits;
        vst1q_u16(out, vreinterpretq_u16_u32(vzip1q_u32(ab, cd)));
        vst1q_u16(out + 8, vreinterpretq_u16_u32(vzip2q_u32(ab, cd)));
      }
    }
    return done;
  }
};

constinit const GemmBf16Tiles kTiles{{.rows = Bfmmla::kRows,
                                      .cols = Bfmmla::kCols,
                                      .lanes = 4,
                                      .group = Bfmmla::kGroup,
                                      .most_depth = kGemmMostDepth,
                                      .bytes = sizeof(BFloat16),
                                      .rows_stay = false},
                                     packed_rows<Bfmmla>,
                                     packed_cols<Bfmmla>,
                                     pack_rows<Bfmmla>,
                                     pack_cols<Bfmmla>,
                                     multiply<Bfmmla>};

}  // namespace
}  // namespace ebb::cpu
#if !defined(__clang__)
#pragma GCC pop_options
#endif

namespace ebb::cpu {
const GemmBf16Tiles* gemm_bf16_tiles_arm64() { return getauxval(AT_HWCAP2) & HWCAP2_BF16 ? &kTiles : nullptr; }
}  // namespace ebb::cpu

#else
namespace ebb::cpu {
const GemmBf16Tiles* gemm_bf16_tiles_arm64() { return nullptr; }
}  // namespace ebb::cpu
#endif
#endif
