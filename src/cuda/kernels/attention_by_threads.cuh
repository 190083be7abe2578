// SPDX-License-Identifier: MIT
// Attention of single numbers in one kernel forward and two backward: of f32, and of halves where tensor cores cannot
// take the rows. Tiles lie in shared memory as f32; a thread has 8 rows by 4 columns of the scores, and 8 rows by every
// sixteenth number of the results, so that it loads 3 numbers for 8 products.
//   forward    a block has some rows and goes through the columns, 64 at a time. A row keeps its largest score m
//              and its share of Σ e^(s − m); a larger score scales what was added before.
//   backward   P = e^(s − lse) is made again, twice: by blocks of rows for δ = Σ do·o and dq = scale·ds·k, then by
//              blocks of columns, of Pᵀ and dsᵀ, for dv = Pᵀ·do and dk = scale·dsᵀ·q, with ds = P∘(do·vᵀ − δ).
// A warp reads only those weights that its own lanes have made. A row's results depend on its own columns alone, in an
// order that no other size changes.
#pragma once
#include "cuda/kernels/args/attention.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/functions.cuh"
#include "cuda/kernels/parts/packs.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr int kWidth = 64, kValues = 64;
constexpr bool kMasked = false, kDocuments = false;
#endif

using Args = FusedAttentionArgs;

// By trial: short products do not gain from loads ahead, wide ones want the registers of half a multiprocessor.
constexpr bool kShort = kWidth <= 48 && kValues <= 48;
constexpr int kAhead = kShort ? 1 : 2, kBlocks = kShort ? 3 : 2;

constexpr int kOwn = kAttentionOwn, kStep = kAttentionStep;
constexpr int kLanes = 16, kHigh = kAttentionThreads / kLanes;  // threads beside each other, and below
constexpr int kRows = kOwn / kHigh, kColumns = kStep / kLanes;
static_assert(kRows == 8 && kColumns == 4);
// Rows in shared memory: eight of them begin in different banks.
EBB constexpr int padded_of(int n) { return (n + kLanes - 1) / kLanes * kLanes; }
constexpr int kD = padded_of(kWidth), kE = padded_of(kValues);
constexpr int kStrideD = kD + 4, kStrideE = kE + 4, kStrideP = kStep + 4;
constexpr int kOwnD = kOwn * kStrideD, kOwnE = kOwn * kStrideE, kStepD = kStep * kStrideD, kStepE = kStep * kStrideE;
constexpr f32 kLog2e = 1.4426950408889634f;

EBB int lane_of() { return threadIdx.x % kLanes; }
EBB int high_of() { return threadIdx.x / kLanes; }
EBB f32 neg_inf() { return __uint_as_float(0xff800000u); }
EBB f32 largest_of_lanes(f32 x) {
#pragma unroll
  for (int other = kLanes / 2; other > 0; other /= 2) x = larger(x, __shfl_xor_sync(0xffffffffu, x, other));
  return x;
}
EBB f32 sum_of_lanes(f32 x) {
#pragma unroll
  for (int other = kLanes / 2; other > 0; other /= 2) x += __shfl_xor_sync(0xffffffffu, x, other);
  return x;
}
// The matrix of one head of q (groups = 1), or of the k or v that `groups` heads share.
EBB T* matrix_of(const AttentionMatrix& m, const Args& a, int batch, int groups = 1) {
  const int heads = (int)a.heads / groups;
  return (T*)m.data + batch / heads * m.outer + batch % heads * m.inner;
}

struct alignas(16) Four {
  f32 x[4];
};
#ifdef __CUDACC_RTC__
EBB void copy16_or_zeros(void* to, const void* from, bool live) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from),
               "r"(live ? 16 : 0)
               : "memory");
}
#endif
// Begins to copy `count` rows; what is beyond the live ones becomes 0, and so do numbers up to a multiple of 4.
// `wide`: 16 bytes at a time.
template <int count, int width, int stride>
EBB void fetch(f32* to, const T* from, i64 row_stride, int live, bool wide) {
  constexpr int kPieces = (width + 3) / 4, kAll = count * kPieces;
#pragma unroll 4
  for (int i = threadIdx.x; i < kAll; i += kAttentionThreads) {
    const int row = i / kPieces, at = i % kPieces * 4;
    f32* const there = to + row * stride + at;
    const T* const here = from + row * row_stride + at;
    if (sizeof(T) == 4 && width % 4 == 0 && wide) {
      copy16_or_zeros(there, here, row < live);
    } else {
      Four x;
#pragma unroll
      for (int e = 0; e < 4; ++e) x.x[e] = row < live && at + e < width ? load(here[e]) : 0;
      *(Four*)there = x;
    }
  }
}
EBB void fetched() {
  copies_begun();
  wait_for_copies<0>();
  __syncthreads();
}

// The number of a row that is a thread's m-th: neighbours where that makes wide loads.
template <int padded>
EBB int place(int m) {
  constexpr int kTogether = padded % 64 == 0 ? 4 : padded % 32 == 0 ? 2 : 1;
  return m / kTogether * kTogether * kLanes + m % kTogether + lane_of() * kTogether;
}
template <int count>
EBB void clear(f32 (&c)[kRows][count]) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int m = 0; m < count; ++m) c[i][m] = 0;
  }
}
// c[i][j] = own row high + kHigh·i, times row lane + 16·j of the tile.
template <int width, int stride>
EBB void multiply_transposed(f32 (&c)[kRows][kColumns], const f32* own, const f32* tile) {
  clear(c);
  own += high_of() * stride, tile += lane_of() * stride;
#pragma unroll kAhead
  for (int d = 0; d < width; d += 4) {
    Four right[kColumns];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) right[j] = *(const Four*)(tile + j * kLanes * stride + d);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const Four left = *(const Four*)(own + i * kHigh * stride + d);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) c[i][j] = fmaf(left.x[e], right[j].x[e], c[i][j]);
      }
    }
  }
}
EBB void put(f32* weights, const f32 (&p)[kRows][kColumns]) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) weights[(high_of() + kHigh * i) * kStrideP + lane_of() + kLanes * j] = p[i][j];
  }
}
// c += weights·tile.
template <int padded>
EBB void add_product(f32 (&c)[kRows][padded / kLanes], const f32* weights, const f32* tile) {
  weights += high_of() * kStrideP;
#pragma unroll 1
  for (int at = 0; at < kStep; at += 4) {
    Four left[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) left[i] = *(const Four*)(weights + i * kHigh * kStrideP + at);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      f32 right[padded / kLanes];
#pragma unroll
      for (int m = 0; m < padded / kLanes; ++m) right[m] = tile[(at + e) * (padded + 4) + place<padded>(m)];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int m = 0; m < padded / kLanes; ++m) c[i][m] = fmaf(left[i].x[e], right[m], c[i][m]);
      }
    }
  }
}
template <int width, int padded>
EBB void write(T* to, i64 row_stride, const f32 (&c)[kRows][padded / kLanes], const f32 (&factor)[kRows], int live) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = high_of() + kHigh * i;
    if (row >= live) continue;
#pragma unroll
    for (int m = 0; m < padded / kLanes; ++m) {
      if (place<padded>(m) < width) to[row * row_stride + place<padded>(m)] = store(c[i][m] * factor[i]);
    }
  }
}
template <int width, int padded>
EBB void write(T* to, i64 row_stride, const f32 (&c)[kRows][padded / kLanes], f32 factor, int live) {
  f32 factors[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) factors[i] = factor;
  write<width, padded>(to, row_stride, c, factors, live);
}

// The columns that rows of one head may attend to.
struct Sight {
  const i32* documents;  // of the outer batch
  const f32* mask;
  i64 mask_row, mask_column;
  int rows, columns;
  bool causal;
  f32 scale;
  __device__ __forceinline__ Sight(const Args& a, int batch)
      : documents(kDocuments ? a.documents + batch / (int)a.heads * 2 * a.rows : 0),
        mask(kMasked ? a.mask + batch / (int)a.heads * a.mask_outer + batch % (int)a.heads * a.mask_head : 0),
        mask_row(a.mask_row),
        mask_column(a.mask_column),
        rows((int)a.rows),
        columns((int)a.columns),
        causal(a.causal),
        scale((f32)a.scale) {}
  __device__ __forceinline__ int first_column(int row) const { return kDocuments ? documents[row] : 0; }
  __device__ __forceinline__ int end_column(int row) const {
    const int end = kDocuments ? documents[rows + row] : columns;
    return causal && row + 1 < end ? row + 1 : end;
  }
  __device__ __forceinline__ bool sees(int row, int column) const {
    return row < rows && column >= first_column(row) && column < end_column(row);
  }
  // A score of a product.
  __device__ __forceinline__ f32 score(f32 product, int row, int column) const {
    if (!sees(row, column)) return neg_inf();
    const f32 s = product * scale;
    return kMasked ? s + mask[row * mask_row + column * mask_column] : s;
  }
};
// The rows of a block. Rows that see the most columns come first, so that the last blocks to run are short.
struct RowBlock {
  int batch, first, live, begin, end;
  __device__ __forceinline__ explicit RowBlock(const Args& a)
      : batch(blockIdx.x % (int)a.batches),
        first(((int)(gridDim.x / (int)a.batches) - 1 - (int)(blockIdx.x / (int)a.batches)) * kOwn),
        live((int)a.rows - first) {
    const Sight sight(a, batch);
    begin = sight.first_column(first) / kStep * kStep;
    end = sight.end_column(live < kOwn ? (int)a.rows - 1 : first + kOwn - 1);
  }
};

extern "C" __global__ void __launch_bounds__(kAttentionThreads, kBlocks) attend(const Args a) {
  DYNAMIC_SHARED(memory);
  f32 *const q = (f32*)memory, *const k = q + kOwnD, *const v = k + kStepD, *const weights = v + kStepE;
  const RowBlock own(a);
  const Sight sight(a, own.batch);
  const int groups = (int)a.groups, columns = (int)a.columns;
  const bool wide = a.wide;
  const T *const keys = matrix_of(a.k, a, own.batch / groups, groups),
                 *const values = matrix_of(a.v, a, own.batch / groups, groups);
  fetch<kOwn, kWidth, kStrideD>(q, matrix_of(a.q, a, own.batch) + own.first * a.q.row, a.q.row, own.live, wide);
  fetch<kStep, kWidth, kStrideD>(k, keys + own.begin * a.k.row, a.k.row, columns - own.begin, wide);
  f32 o[kRows][kE / kLanes], top[kRows], total[kRows];
  clear(o);
#pragma unroll
  for (int i = 0; i < kRows; ++i) top[i] = neg_inf(), total[i] = 0;
  for (int at = own.begin; at < own.end; at += kStep) {
    fetched();
    fetch<kStep, kValues, kStrideE>(v, values + at * a.v.row, a.v.row, columns - at, wide);
    f32 p[kRows][kColumns];
    multiply_transposed<kWidth, kStrideD>(p, q, k);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = own.first + high_of() + kHigh * i;
      f32 most = neg_inf();
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        p[i][j] = sight.score(p[i][j], row, at + lane_of() + kLanes * j);
        most = larger(most, p[i][j]);
      }
      most = larger(top[i], largest_of_lanes(most));
      const f32 shift = most == neg_inf() ? 0 : most;
      const f32 rescale = power_of_two((top[i] - shift) * kLog2e);  // 1 where the largest is the same
      top[i] = most;
      f32 sum = 0;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sum += p[i][j] = power_of_two((p[i][j] - shift) * kLog2e);
      total[i] = fmaf(total[i], rescale, sum);
#pragma unroll
      for (int m = 0; m < kE / kLanes; ++m) o[i][m] *= rescale;
    }
    put(weights, p);
    fetched();
    const int next = at + kStep;
    if (next < own.end) fetch<kStep, kWidth, kStrideD>(k, keys + next * a.k.row, a.k.row, columns - next, wide);
    add_product<kE>(o, weights, v);
  }
  f32 inverse[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const f32 all = sum_of_lanes(total[i]);
    const int row = own.first + high_of() + kHigh * i;
    inverse[i] = all == 0 ? 0 : 1 / all;
    if (lane_of() == 0 && row < sight.rows)
      a.lse[(i64)own.batch * sight.rows + row] = all == 0 ? neg_inf() : top[i] + logf(all);
  }
  write<kValues, kE>(matrix_of(a.o, a, own.batch) + own.first * a.o.row, a.o.row, o, inverse, own.live);
}

// A row's lse; rows that attend to nothing have weights of 0, and so have those that are not there.
EBB f32 shift_of(f32 lse) { return lse == neg_inf() ? 0 : lse; }

extern "C" __global__ void __launch_bounds__(kAttentionThreads, kBlocks) differentiate_rows(const Args a) {
  DYNAMIC_SHARED(memory);
  f32 *const q = (f32*)memory, *const g = q + kOwnD, *const k = g + kOwnE, *const v = k + kStepD,
             *const weights = v + kStepE;
  const RowBlock own(a);
  const Sight sight(a, own.batch);
  const int groups = (int)a.groups, columns = (int)a.columns;
  const bool wide = a.wide;
  const T *const keys = matrix_of(a.k, a, own.batch / groups, groups),
                 *const values = matrix_of(a.v, a, own.batch / groups, groups);
  fetch<kOwn, kWidth, kStrideD>(q, matrix_of(a.q, a, own.batch) + own.first * a.q.row, a.q.row, own.live, wide);
  fetch<kOwn, kValues, kStrideE>(g, matrix_of(a.g, a, own.batch) + own.first * a.g.row, a.g.row, own.live, wide);
  fetch<kStep, kWidth, kStrideD>(k, keys + own.begin * a.k.row, a.k.row, columns - own.begin, wide);
  fetch<kStep, kValues, kStrideE>(v, values + own.begin * a.v.row, a.v.row, columns - own.begin, wide);
  fetched();
  f32 shift[kRows], delta[kRows], dq[kRows][kD / kLanes];
  clear(dq);
  const T* const o = matrix_of(a.o, a, own.batch) + own.first * a.o.row;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = high_of() + kHigh * i;
    f32 sum = 0;
    if (row < own.live) {
      for (int e = lane_of(); e < kValues; e += kLanes)
        sum = fmaf(g[row * kStrideE + e], load(o[row * a.o.row + e]), sum);
    }
    delta[i] = sum_of_lanes(sum);
    const i64 number = (i64)own.batch * sight.rows + own.first + row;
    shift[i] = row < own.live ? shift_of(a.lse[number]) : 0;
    if (lane_of() == 0 && row < own.live) a.delta[number] = delta[i];
  }
  for (int at = own.begin; at < own.end; at += kStep) {
    if (at > own.begin) fetched();
    f32 p[kRows][kColumns], dp[kRows][kColumns];
    multiply_transposed<kWidth, kStrideD>(p, q, k);
    multiply_transposed<kValues, kStrideE>(dp, g, v);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = own.first + high_of() + kHigh * i;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const f32 s = sight.score(p[i][j], row, at + lane_of() + kLanes * j);
        p[i][j] = power_of_two((s - shift[i]) * kLog2e) * (dp[i][j] - delta[i]);
      }
    }
    put(weights, p);
    __syncthreads();
    const int next = at + kStep;
    if (next < own.end) fetch<kStep, kValues, kStrideE>(v, values + next * a.v.row, a.v.row, columns - next, wide);
    add_product<kD>(dq, weights, k);
    __syncthreads();
    if (next < own.end) fetch<kStep, kWidth, kStrideD>(k, keys + next * a.k.row, a.k.row, columns - next, wide);
  }
  write<kWidth, kD>(matrix_of(a.dq, a, own.batch) + own.first * a.dq.row, a.dq.row, dq, sight.scale, own.live);
}

extern "C" __global__ void __launch_bounds__(kAttentionThreads, kBlocks) differentiate_columns(const Args a) {
  DYNAMIC_SHARED(memory);
  f32 *const k = (f32*)memory, *const v = k + kOwnD, *const q = v + kOwnE, *const g = q + kStepD,
             *const weights = g + kStepE;
  const int groups = (int)a.groups, batches = (int)a.batches / groups, batch = blockIdx.x % batches;  // of k and v
  const int first = (int)(blockIdx.x / batches) * kOwn, rows = (int)a.rows, columns = (int)a.columns;
  const int live = columns - first, last = live < kOwn ? columns - 1 : first + kOwn - 1;
  const bool wide = a.wide;
  // With documents there are as many rows as columns, and those of a document see it alone.
  const Sight any(a, batch * groups);
  int begin = kDocuments ? any.documents[first] : 0;
  if (a.causal && begin < first) begin = first;
  begin = begin / kStep * kStep;
  const int end = kDocuments ? any.documents[rows + last] : rows;
  fetch<kOwn, kWidth, kStrideD>(k, matrix_of(a.k, a, batch, groups) + first * a.k.row, a.k.row, live, wide);
  fetch<kOwn, kValues, kStrideE>(v, matrix_of(a.v, a, batch, groups) + first * a.v.row, a.v.row, live, wide);
  f32 dk[kRows][kD / kLanes], dv[kRows][kE / kLanes];
  clear(dk);
  clear(dv);
  for (int head = batch * groups; head < (batch + 1) * groups; ++head) {
    const Sight sight(a, head);
    const T *const queries = matrix_of(a.q, a, head), *const cotangents = matrix_of(a.g, a, head);
    for (int at = begin; at < end; at += kStep) {
      __syncthreads();
      fetch<kStep, kWidth, kStrideD>(q, queries + at * a.q.row, a.q.row, rows - at, wide);
      fetch<kStep, kValues, kStrideE>(g, cotangents + at * a.g.row, a.g.row, rows - at, wide);
      f32 shift[kColumns], delta[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const int row = at + lane_of() + kLanes * j;
        shift[j] = row < rows ? shift_of(a.lse[(i64)head * rows + row]) : 0;
        delta[j] = row < rows ? a.delta[(i64)head * rows + row] : 0;
      }
      fetched();
      f32 p[kRows][kColumns];  // of columns, by rows
      multiply_transposed<kWidth, kStrideD>(p, k, q);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          const f32 s = sight.score(p[i][j], at + lane_of() + kLanes * j, first + high_of() + kHigh * i);
          p[i][j] = power_of_two((s - shift[j]) * kLog2e);
        }
      }
      put(weights, p);
      __syncwarp();
      add_product<kE>(dv, weights, g);
      f32 dp[kRows][kColumns];
      multiply_transposed<kValues, kStrideE>(dp, v, g);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
          dp[i][j] = weights[(high_of() + kHigh * i) * kStrideP + lane_of() + kLanes * j] * (dp[i][j] - delta[j]);
      }
      __syncwarp();
      put(weights, dp);
      __syncwarp();
      add_product<kD>(dk, weights, q);
    }
  }
  write<kWidth, kD>(matrix_of(a.dk, a, batch, groups) + first * a.dk.row, a.dk.row, dk, (f32)a.scale, live);
  write<kValues, kE>(matrix_of(a.dv, a, batch, groups) + first * a.dv.row, a.dv.row, dv, 1.0f, live);
}

}  // namespace ebb::cuda
