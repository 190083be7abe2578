// SPDX-License-Identifier: MIT
#include "cpu/gemm/bf16.h"

#if EBB_HAS_BFMMLA
#include <arm_neon.h>

#include <algorithm>

#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+bf16")
#endif
// A vector times a matrix that is read once, in place. BFMMLA multiplies two rows by two columns; here both rows are
// the vector. The order is that of the tiles: from zero, four of k after the other, zeros after the last.
namespace ebb::cpu {
namespace {

constexpr std::int64_t kStep = 8;  // of k: two groups, and columns side by side

// A group of four of the vector, for both rows.
struct Vector {
  alignas(16) BFloat16 numbers[kGemmMostDepth + kStep];

  Vector(const float* x, std::int64_t depth) {
    std::int64_t p = 0;
    for (; p + kStep <= depth; p += kStep) {
      const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(x + p));
      vst1q_bf16(reinterpret_cast<__bf16*>(numbers + p), vcvtq_high_bf16_f32(low, vld1q_f32(x + p + 4)));
    }
    for (; p < depth; ++p) numbers[p] = bfloat16_from(x[p]);
    std::fill(numbers + depth, numbers + depth + kStep, BFloat16{});
  }
  bfloat16x8_t group(std::int64_t p) const {
    const uint64_t* four = reinterpret_cast<const uint64_t*>(numbers + p);
    return vreinterpretq_bf16_u64(vld1q_dup_u64(four));
  }
};

// Four of k of eight columns, as rows: two columns in each of the four registers.
struct Turned {
  bfloat16x8_t pair[4];
  Turned(uint16x8_t a, uint16x8_t b, uint16x8_t c, uint16x8_t d) {
    const uint32x4_t ab = vreinterpretq_u32_u16(vzip1q_u16(a, b)), cd = vreinterpretq_u32_u16(vzip1q_u16(c, d));
    const uint32x4_t AB = vreinterpretq_u32_u16(vzip2q_u16(a, b)), CD = vreinterpretq_u32_u16(vzip2q_u16(c, d));
    pair[0] = vreinterpretq_bf16_u32(vzip1q_u32(ab, cd));
    pair[1] = vreinterpretq_bf16_u32(vzip2q_u32(ab, cd));
    pair[2] = vreinterpretq_bf16_u32(vzip1q_u32(AB, CD));
    pair[3] = vreinterpretq_bf16_u32(vzip2q_u32(AB, CD));
  }
};

// Dense columns: rows of B stream past, eight at a time, under a run of sums that stays in the level-1 cache, two
// columns per register.
void multiply_dense_cols(std::int64_t cols, std::int64_t depth, const Vector& x, const BFloat16* b, std::int64_t stride,
                         float* sum) {
  constexpr std::int64_t kRun = 1024;
  alignas(16) float sums[2 * kRun];
  for (std::int64_t first = 0; first < cols; first += kRun) {
    const std::int64_t n = std::min(kRun, cols - first), padded = (n + kStep - 1) / kStep * kStep;
    std::fill(sums, sums + 2 * padded, 0.0f);
    for (std::int64_t p = 0; p < depth; p += kStep) {
      const bfloat16x8_t low = x.group(p), high = x.group(p + 4);
      for (std::int64_t j = 0; j < n; j += kStep) {
        uint16x8_t rows[kStep];
        const BFloat16* from = b + p * stride + first + j;
        if (p + kStep <= depth && j + kStep <= n) {
#pragma GCC unroll 8
          for (int r = 0; r < kStep; ++r) rows[r] = vld1q_u16(&(from + r * stride)->bits);
        } else {
          for (std::int64_t r = 0; r < kStep; ++r) {
            std::uint16_t some[kStep] = {};
            for (std::int64_t c = 0; p + r < depth && c < std::min(kStep, n - j); ++c)
              some[c] = from[r * stride + c].bits;
            rows[r] = vld1q_u16(some);
          }
        }
        const Turned upper(rows[0], rows[1], rows[2], rows[3]), lower(rows[4], rows[5], rows[6], rows[7]);
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
          float* place = sums + 2 * j + 4 * v;
          const float32x4_t s = vbfmmlaq_f32(vld1q_f32(place), low, upper.pair[v]);
          vst1q_f32(place, vbfmmlaq_f32(s, high, lower.pair[v]));
        }
      }
    }
    for (std::int64_t j = 0; j < n; ++j) sum[first + j] = sums[j / 2 * 4 + j % 2];
  }
}

// Dense depth: `count` columns at a time, at most two for each of the registers.
template <int kPairs>
void dot_pairs(std::int64_t count, std::int64_t depth, const Vector& x, const BFloat16* b, std::int64_t stride,
               float* sum) {
  const BFloat16* column[2 * kPairs];
  for (std::int64_t c = 0; c < 2 * kPairs; ++c) column[c] = b + std::min(c, count - 1) * stride;
  float32x4_t sums[kPairs];
#pragma GCC unroll 4
  for (int v = 0; v < kPairs; ++v) sums[v] = vdupq_n_f32(0);
  const auto add = [&](std::int64_t p, const auto& eight_of) {
    const bfloat16x8_t low = x.group(p), high = x.group(p + 4);
#pragma GCC unroll 4
    for (int v = 0; v < kPairs; ++v) {
      const uint64x2_t left = vreinterpretq_u64_u16(eight_of(column[2 * v] + p));
      const uint64x2_t right = vreinterpretq_u64_u16(eight_of(column[2 * v + 1] + p));
      sums[v] = vbfmmlaq_f32(sums[v], low, vreinterpretq_bf16_u64(vzip1q_u64(left, right)));
      sums[v] = vbfmmlaq_f32(sums[v], high, vreinterpretq_bf16_u64(vzip2q_u64(left, right)));
    }
  };
  std::int64_t p = 0;
  for (; p + kStep <= depth; p += kStep) add(p, [](const BFloat16* from) { return vld1q_u16(&from->bits); });
  if (p < depth) {
    add(p, [&](const BFloat16* from) {
      std::uint16_t some[kStep] = {};
      for (std::int64_t q = 0; q < depth - p; ++q) some[q] = from[q].bits;
      return vld1q_u16(some);
    });
  }
  float all[4 * kPairs];
#pragma GCC unroll 4
  for (int v = 0; v < kPairs; ++v) vst1q_f32(all + 4 * v, sums[v]);
  for (std::int64_t c = 0; c < count; ++c) sum[c] = all[c / 2 * 4 + c % 2];
}

void dot_cols(std::int64_t count, std::int64_t depth, const Vector& x, const BFloat16* b, std::int64_t stride,
              float* sum) {
  if (count <= 2) return dot_pairs<1>(count, depth, x, b, stride, sum);
  dot_pairs<kStep / 2>(count, depth, x, b, stride, sum);
}

// Any strides, or f32 to be rounded: eight columns are copied, then read densely.
template <class S>
void multiply_copied(std::int64_t cols, std::int64_t depth, const Vector& x, const S* b, const GemmSource& source,
                     float* sum) {
  BFloat16 copy[kStep * kGemmMostDepth];
  const auto as_bf16 = [](auto number) {
    if constexpr (std::is_same_v<decltype(number), float>) {
      return bfloat16_from(number);
    } else {
      return number;
    }
  };
  for (std::int64_t j = 0; j < cols; j += kStep) {
    const std::int64_t count = std::min(kStep, cols - j);
    for (std::int64_t c = 0; c < count; ++c) {
      const S* from = b + (j + c) * source.wide_stride;
      for (std::int64_t p = 0; p < depth; ++p) copy[c * depth + p] = as_bf16(from[p * source.depth_stride]);
    }
    dot_cols(count, depth, x, copy, depth, sum + j);
  }
}

void multiply_vector(std::int64_t cols, std::int64_t depth, const float* numbers, const GemmSource& b, float* sum) {
  const Vector x(numbers, depth);
  if (b.dtype == DType::f32) return multiply_copied(cols, depth, x, static_cast<const float*>(b.data), b, sum);
  const auto* from = static_cast<const BFloat16*>(b.data);
  if (b.depth_stride == 1) {
    for (std::int64_t j = 0; j < cols; j += kStep)
      dot_cols(std::min(kStep, cols - j), depth, x, from + j * b.wide_stride, b.wide_stride, sum + j);
  } else if (b.wide_stride == 1 && cols >= kStep) {
    multiply_dense_cols(cols, depth, x, from, b.depth_stride, sum);
  } else {
    multiply_copied(cols, depth, x, from, b, sum);
  }
}

void multiply_runs(std::int64_t runs, std::int64_t depth, const float* x, const GemmSource& b, float* sum,
                   std::int64_t sum_stride) {
  const std::int64_t step = depth * b.depth_stride * static_cast<std::int64_t>(size_of(b.dtype));
  for (std::int64_t r = 0; r < runs; ++r) {
    const GemmSource part{static_cast<const std::byte*>(b.data) + r * step, b.dtype, b.wide_stride, b.depth_stride};
    multiply_vector(1, depth, x + r * depth, part, sum + r * sum_stride);
  }
}

}  // namespace

constinit const GemmVectors<float> kGemmBf16VectorsArm64{kGemmMostDepth, multiply_vector, multiply_runs};

}  // namespace ebb::cpu
#if !defined(__clang__)
#pragma GCC pop_options
#endif
#endif
