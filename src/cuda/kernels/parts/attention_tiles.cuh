// SPDX-License-Identifier: MIT
// Rows and tiles of the fused attention, before its products.
#pragma once
#include "cuda/kernels/args/attention.h"
#include "cuda/kernels/parts/functions.cuh"
#include "cuda/kernels/parts/packs.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kWidth = 64, kValues = 64;  // multiples of 8; rows in shared memory have zeros up to a multiple of 16
constexpr int kSlices = 1;                // a warp has so many times 16 rows
constexpr bool kGroups = true;            // warpgroups multiply
constexpr bool kBf16 = true;
#endif

constexpr int kOwn = kAttentionOwn * kSlices;  // rows of a block; columns, of the kernel that has those
constexpr int kStep = kAttentionStep;          // of the other ones, which it goes through
constexpr int kD = (kWidth + 15) / 16 * 16, kE = (kValues + 15) / 16 * 16;
// Rows in shared memory: eight of them begin in different banks, or their pieces of 16 bytes are exchanged so that
// they do. For warpgroups a tile of 64 rows is one of rows of 64 after the other.
EBB constexpr int stride_of(int padded) { return kGroups ? padded : padded + 8; }
EBB constexpr int row_step(int padded) { return kGroups ? 64 : padded + 8; }
template <int padded>
EBB int place(int row, int piece) {
  return row * row_step(padded) + (kGroups ? piece / 8 * (64 * 64) + 8 * (piece % 8 ^ (row & 7)) : 8 * piece);
}
constexpr int kOwnD = kOwn * stride_of(kD), kOwnE = kOwn * stride_of(kE);
constexpr int kStepD = kStep * stride_of(kD), kStepE = kStep * stride_of(kE), kStepBoth = kStepD + kStepE;
// The matrix of one head of q (groups = 1), or of the k or v that `groups` heads share.
EBB u16* matrix_of(const AttentionMatrix& m, const FusedAttentionArgs& a, int batch, int groups = 1) {
  const int heads = (int)a.heads / groups;
  return m.data + batch / heads * m.outer + batch % heads * m.inner;
}

#ifdef __CUDACC_RTC__
// Four 8×8 matrices; lane l says where row l % 8 of matrix l / 8 is and gets elements 2·(l % 4) and the next of row l /
// 4 of each, or of its transpose.
EBB void load_matrices(u32 (&x)[4], const u16* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"((u32)__cvta_generic_to_shared(at)));
}
EBB void copy16_or_zeros(void* to, const void* from, bool live) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from),
               "r"(live ? 16 : 0)
               : "memory");
}
#endif
EBB u32 pair_of(f32 low, f32 high) { return kBf16 ? to_bf16x2(low, high) : to_f16x2(low, high); }
EBB f32 half_of(u32 pair, int which) {
  const u16 h = (u16)(pair >> 16 * which);
  return kBf16 ? from_bf16(h) : from_f16(h);
}
EBB f32 neg_inf() { return __uint_as_float(0xff800000u); }
EBB int lane_of() { return threadIdx.x & 31; }
EBB int first_of_warp() { return (threadIdx.x >> 5) * 16 * kSlices; }
EBB f32 sum_of_quad(f32 x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
EBB f32 largest_of_quad(f32 x) {
  x = larger(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return larger(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// Rows of a matrix that are copied to shared memory some at a time, one after the other: the thread's share.
template <int width, int padded>
struct Source {
  static constexpr int kLanes = padded > 64   ? 16
                                : padded > 32 ? 8
                                : padded > 16 ? 4
                                              : 2,
                       kRows = kAttentionThreads / kLanes;  // at once
  const u16* at;
  i64 step;  // of kRows
  __device__ __forceinline__ Source(const AttentionMatrix& m, const FusedAttentionArgs& a, int batch, int first,
                                    int groups = 1)
      : at(matrix_of(m, a, batch, groups) + (first + row()) * m.row + column()), step(m.row * kRows) {}
  static __device__ __forceinline__ int row() { return threadIdx.x / kLanes; }
  static __device__ __forceinline__ int column() { return threadIdx.x % kLanes * 8; }
  // Begins to copy `count` rows; what is beyond the live ones or the width becomes 0.
  template <int count>
  __device__ __forceinline__ void fetch(u16* to, int live) {
    to += place<padded>(row(), column() / 8);
#pragma unroll
    for (int i = 0; i < count / kRows; ++i) {
      if (padded == 8 * kLanes || column() < padded)
        copy16_or_zeros(to + i * kRows * row_step(padded), at,
                        row() + i * kRows < live && (width == padded || column() < width));
      at += step;
    }
  }
};
typedef Source<kWidth, kD> SourceD;
typedef Source<kValues, kE> SourceE;
// The warp's own rows as a left factor.
template <int depth>
EBB void load_rows(u32 (&x)[kSlices][depth / 16][4], const u16* tile) {
  const int row = first_of_warp() + (lane_of() & 15);
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int k = 0; k < depth / 16; ++k)
      load_matrices(x[s][k], tile + place<depth>(row + s * 16, 2 * k + (lane_of() >> 4)));
  }
}
// Columns [16 i, 16 i + 16) of a product as a left factor.
template <int wide>
EBB void pack(u32 (&to)[kSlices][4], const f32 (&c)[kSlices][wide / 8][4], int i) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      to[s][2 * half] = pair_of(c[s][2 * i + half][0], c[s][2 * i + half][1]);
      to[s][2 * half + 1] = pair_of(c[s][2 * i + half][2], c[s][2 * i + half][3]);
    }
  }
}
template <int wide>
EBB void clear(f32 (&c)[kSlices][wide / 8][4]) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int n = 0; n < wide / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) c[s][n][i] = 0;
    }
  }
}
// The warp's rows, by way of the tile that had its own: 16 bytes a lane.
template <int width, int padded>
EBB void write(u16* to, i64 row, u16* tile, const f32 (&c)[kSlices][padded / 8][4], const f32 (&factor)[kSlices][2],
               int live) {
  u16* const mine = tile + first_of_warp() * row_step(padded);
  const int lane = lane_of();
  __syncwarp();
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int n = 0; n < padded / 8; ++n) {
#pragma unroll
      for (int h = 0; h < 2; ++h)
        *(u32*)(mine + place<padded>(s * 16 + h * 8 + (lane >> 2), n) + (lane & 3) * 2) =
            pair_of(c[s][n][2 * h] * factor[s][h], c[s][n][2 * h + 1] * factor[s][h]);
    }
  }
  __syncwarp();
  constexpr int kChunks = width / 8;
  for (int chunk = lane; chunk < 16 * kSlices * kChunks; chunk += 32) {
    const int r = chunk / kChunks, piece = chunk % kChunks;
    if (first_of_warp() + r < live)
      *(Words4*)(to + (first_of_warp() + r) * row + 8 * piece) = *(const Words4*)(mine + place<padded>(r, piece));
  }
}

// Takes scores of columns away that are not there or that a row must not see; `row`, the warp's first, and `columns`
// are counted from the first column here.
template <int wide>
EBB void apply_mask(f32 (&p)[kSlices][wide / 8][4], bool causal, int row, int columns) {
  const int lane = lane_of();
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = row + s * 16 + h * 8 + (lane >> 2);
      const int end = (causal && i < columns ? i + 1 : columns) - (lane & 3) * 2;
#pragma unroll
      for (int n = 0; n < wide / 8; ++n) {
        if (n * 8 >= end) p[s][n][2 * h] = neg_inf();
        if (n * 8 + 1 >= end) p[s][n][2 * h + 1] = neg_inf();
      }
    }
  }
}

// Weights of `wide` columns from their scores; what was added before is scaled down where one of these is larger.
template <int wide>
EBB void online_softmax(f32 (&p)[kSlices][wide / 8][4], f32 (&o)[kSlices][kE / 8][4], f32 (&top)[kSlices][2],
                        f32 (&total)[kSlices][2], f32 factor) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      f32 most = larger(p[s][0][2 * h], p[s][0][2 * h + 1]);
#pragma unroll
      for (int n = 1; n < wide / 8; ++n) most = larger(larger(most, p[s][n][2 * h]), p[s][n][2 * h + 1]);
      most = larger(top[s][h], largest_of_quad(most));
      const f32 shift = most == neg_inf() ? 0 : most * factor;
      const f32 rescale = power_of_two(top[s][h] * factor - shift);  // 1 where the largest is the same
      top[s][h] = most;
      f32 sum = 0;
#pragma unroll
      for (int n = 0; n < wide / 8; ++n) {
        p[s][n][2 * h] = power_of_two(fmaf(p[s][n][2 * h], factor, -shift));
        p[s][n][2 * h + 1] = power_of_two(fmaf(p[s][n][2 * h + 1], factor, -shift));
        sum += p[s][n][2 * h] + p[s][n][2 * h + 1];
      }
      total[s][h] = fmaf(total[s][h], rescale, sum);
#pragma unroll
      for (int n = 0; n < kE / 8; ++n) {
        o[s][n][2 * h] *= rescale;
        o[s][n][2 * h + 1] *= rescale;
      }
    }
  }
}

// A row's lse for powers of two; rows that attend to nothing have weights of 0, and so have those that are not
// there.
EBB f32 shift_of(f32 lse) { return lse == neg_inf() ? 0 : lse * 1.4426950408889634f; }

}  // namespace ebb::cuda
