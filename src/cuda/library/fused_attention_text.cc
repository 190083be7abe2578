// Attention of halves in one kernel forward and two backward: scores live in registers, products are those of warps
// (mma.sync) or, with rows of 64 or 128 on Hopper, of warpgroups (wgmma).
//   forward    a block has some rows and goes through the columns, 64 at a time. A row keeps its largest score m
//              and its share of Σ e^(s − m); a larger score scales what was added before.
//   backward   P = e^(s − lse) is made again, twice: by blocks of rows for δ = Σ do·o and dq = scale·ds·k, then by
//              blocks of columns, which take P and ds transposed, for dv = Pᵀ·do and dk = scale·dsᵀ·q, with
//              ds = P∘(do·vᵀ − δ). That is 7 products where atomic additions to dq would do with 5, but everything
//              is added in order.
// Registers of one product are those of a factor of the next: nothing but inputs goes through shared memory. Weights
// and ds are rounded to the dtype of the inputs for products; everything else is f32. A row's results depend on its own
// columns alone, in an order that no other size changes.
#include <fmt/format.h>

#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

// Before this come kWidth and kValues, multiples of 8 (rows in shared memory have zeros up to a multiple of 16), kSlices (a
// warp has so many times 16 rows), kGroups (warpgroups multiply) and kBf16.
const char* const kParts = R"cuda(
constexpr int kOwn = 64 * kSlices;  // rows of a block; columns, of the kernel that has those
constexpr int kStep = 64;           // of the other ones, which it goes through
constexpr int kD = (kWidth + 15) / 16 * 16, kE = (kValues + 15) / 16 * 16;
// Of rows in shared memory: eight of them begin in different banks, or their pieces of 16 bytes are exchanged so that they
// do. For warpgroups a tile of 64 rows is one of rows of 64 after the other.
EBB constexpr int stride_of(int padded) { return kGroups ? padded : padded + 8; }
EBB constexpr int row_step(int padded) { return kGroups ? 64 : padded + 8; }
template <int padded> EBB int place(int row, int piece) {
  return row * row_step(padded) + (kGroups ? piece / 8 * (64 * 64) + 8 * (piece % 8 ^ (row & 7)) : 8 * piece);
}
constexpr int kOwnD = kOwn * stride_of(kD), kOwnE = kOwn * stride_of(kE);
constexpr int kStepD = kStep * stride_of(kD), kStepE = kStep * stride_of(kE), kStepBoth = kStepD + kStepE;
struct Rows {
  u16* data;
  i64 outer, inner, row;  // strides
};
struct Args {
  Rows q, k, v, o, g, dq, dk, dv;
  f32* lse;
  f32* delta;
  i64 rows, columns, batches, heads, causal;
  f64 scale;
};
EBB u16* matrix_of(const Rows& m, const Args& a, int batch) {
  return m.data + batch / (int)a.heads * m.outer + batch % (int)a.heads * m.inner;
}

#ifdef __CUDACC_RTC__
// Four 8×8 matrices; lane l says where row l % 8 of matrix l / 8 is and gets elements 2·(l % 4) and the next of row l / 4
// of each, or of its transpose.
EBB void load_matrices(u32 (&x)[4], const u16* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"((u32)__cvta_generic_to_shared(at)));
}
EBB void copy16_or_zeros(void* to, const void* from, bool live) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from), "r"(live ? 16 : 0) : "memory");
}
#endif
EBB u32 pair_of(f32 low, f32 high) { return kBf16 ? to_bf16x2(low, high) : to_f16x2(low, high); }
EBB f32 half_of(u32 pair, int which) {
  const u16 h = (u16)(pair >> 16 * which);
  return kBf16 ? from_bf16(h) : from_f16(h);
}
EBB f32 never() { return __uint_as_float(0xff800000u); }
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
template <int width, int padded> struct Source {
  static constexpr int kLanes = padded > 64 ? 16 : padded > 32 ? 8 : padded > 16 ? 4 : 2, kRows = 128 / kLanes;  // at once
  const u16* at;
  i64 step;  // of kRows
  __device__ __forceinline__ Source(const Rows& m, const Args& a, int batch, int first)
      : at(matrix_of(m, a, batch) + (first + row()) * m.row + column()), step(m.row * kRows) {}
  static __device__ __forceinline__ int row() { return threadIdx.x / kLanes; }
  static __device__ __forceinline__ int column() { return threadIdx.x % kLanes * 8; }
  // Begins to copy `count` rows; what is beyond the live ones or the width becomes 0.
  template <int count> __device__ __forceinline__ void fetch(u16* to, int live) {
    to += place<padded>(row(), column() / 8);
#pragma unroll
    for (int i = 0; i < count / kRows; ++i) {
      if (padded == 8 * kLanes || column() < padded)
        copy16_or_zeros(to + i * kRows * row_step(padded), at, row() + i * kRows < live && (width == padded || column() < width));
      at += step;
    }
  }
};
typedef Source<kWidth, kD> SourceD;
typedef Source<kValues, kE> SourceE;
// The warp's own rows as a left factor.
template <int depth> EBB void load_rows(u32 (&x)[kSlices][depth / 16][4], const u16* tile) {
  const int row = first_of_warp() + (lane_of() & 15);
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int k = 0; k < depth / 16; ++k) load_matrices(x[s][k], tile + place<depth>(row + s * 16, 2 * k + (lane_of() >> 4)));
  }
}
// Columns [16 i, 16 i + 16) of a product as a left factor.
template <int wide> EBB void pack(u32 (&to)[kSlices][4], const f32 (&c)[kSlices][wide / 8][4], int i) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      to[s][2 * half] = pair_of(c[s][2 * i + half][0], c[s][2 * i + half][1]);
      to[s][2 * half + 1] = pair_of(c[s][2 * i + half][2], c[s][2 * i + half][3]);
    }
  }
}
template <int wide> EBB void clear(f32 (&c)[kSlices][wide / 8][4]) {
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
EBB void write(u16* to, i64 row, u16* tile, const f32 (&c)[kSlices][padded / 8][4], const f32 (&factor)[kSlices][2], int live) {
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

// Takes scores of columns away that are not there or that a row must not see; `row`, the warp's first, and `columns` are
// counted from the first column here.
template <int wide> EBB void hide(f32 (&p)[kSlices][wide / 8][4], bool causal, int row, int columns) {
  const int lane = lane_of();
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = row + s * 16 + h * 8 + (lane >> 2);
      const int end = (causal && i < columns ? i + 1 : columns) - (lane & 3) * 2;
#pragma unroll
      for (int n = 0; n < wide / 8; ++n) {
        if (n * 8 >= end) p[s][n][2 * h] = never();
        if (n * 8 + 1 >= end) p[s][n][2 * h + 1] = never();
      }
    }
  }
}

// Weights of `wide` columns from their scores; what was added before fades where one of these is larger.
template <int wide> EBB void weigh(f32 (&p)[kSlices][wide / 8][4], f32 (&o)[kSlices][kE / 8][4], f32 (&top)[kSlices][2],
                                   f32 (&total)[kSlices][2], f32 factor) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      f32 most = larger(p[s][0][2 * h], p[s][0][2 * h + 1]);
#pragma unroll
      for (int n = 1; n < wide / 8; ++n) most = larger(larger(most, p[s][n][2 * h]), p[s][n][2 * h + 1]);
      most = larger(top[s][h], largest_of_quad(most));
      const f32 shift = most == never() ? 0 : most * factor;
      const f32 fade = power_of_two(top[s][h] * factor - shift);  // 1 where the largest is the same
      top[s][h] = most;
      f32 sum = 0;
#pragma unroll
      for (int n = 0; n < wide / 8; ++n) {
        p[s][n][2 * h] = power_of_two(fmaf(p[s][n][2 * h], factor, -shift));
        p[s][n][2 * h + 1] = power_of_two(fmaf(p[s][n][2 * h + 1], factor, -shift));
        sum += p[s][n][2 * h] + p[s][n][2 * h + 1];
      }
      total[s][h] = fmaf(total[s][h], fade, sum);
#pragma unroll
      for (int n = 0; n < kE / 8; ++n) {
        o[s][n][2 * h] *= fade;
        o[s][n][2 * h + 1] *= fade;
      }
    }
  }
}

// Of a row's lse for powers of two; rows that attend to nothing have weights of 0, and so have those that are not there.
EBB f32 shift_of(f32 lse) { return lse == never() ? 0 : lse * 1.4426950408889634f; }

)cuda";

const char* const kKernels = R"cuda(
extern "C" __global__ void __launch_bounds__(128, kBlocks) attend(const Args a) {
  DYNAMIC_SHARED(memory);
  u16* const own = tiles_in(memory);
  u16* const ring = own + kOwnD;
  // Rows that see most columns first: what is left at the end is short.
  const int tiles = gridDim.x / (int)a.batches, batch = blockIdx.x % (int)a.batches;
  const int first = (tiles - 1 - (int)(blockIdx.x / (int)a.batches)) * kOwn, rows = (int)a.rows, columns = (int)a.columns;
  const bool causal = a.causal;
  const int seen = causal && first + kOwn < columns ? first + kOwn : columns;
  SourceD k(a.k, a, batch, 0);
  SourceE v(a.v, a, batch, 0);
  const auto fetch_step = [&](int j) {
    u16* const to = ring + (j / kStep & 1) * kStepBoth;
    k.fetch<kStep>(to, columns - j);
    v.fetch<kStep>(to + kStepD, columns - j);
    copies_begun();
  };
  SourceD(a.q, a, batch, first).fetch<kOwn>(own, rows - first);
  fetch_step(0);
  const f32 factor = (f32)(a.scale * 1.4426950408889634);  // powers of two
  const int lane = lane_of(), mine = first + first_of_warp(), first_of_unit = kGroups ? first : mine;
  f32 o[kSlices][kE / 8][4], top[kSlices][2], total[kSlices][2];
  clear<kE>(o);
#pragma unroll
  for (int s = 0; s < kSlices; ++s) top[s][0] = top[s][1] = never(), total[s][0] = total[s][1] = 0;
  wait_for_copies<0>();
  copies_are_seen();
  __syncthreads();
  const Own<kD> q = own_rows<kD>(own);
  for (int j = 0; j < seen; j += kStep) {
    if (j > 0) {
      wait_for_copies<0>();
      copies_are_seen();
    }
    __syncthreads();
    if (j + kStep < seen) fetch_step(j + kStep);
    if (causal && j >= first_of_unit + kUnit) continue;
    const u16 *const keys = ring + (j / kStep & 1) * kStepBoth, *const values = keys + kStepD;
    f32 p[kSlices][kStep / 8][4];
    multiply_transposed<kStep, kD>(p, q, keys);
    wait_for(p);
    if (j + kStep > columns || (causal && j + kStep > mine + 1)) hide<kStep>(p, causal, mine - j, columns - j);
    weigh<kStep>(p, o, top, total, factor);
    add_product<kStep, kE>(o, p, values);
    wait_for(o);
  }
  f32 inverse[kSlices][2];
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const f32 all = sum_of_quad(total[s][h]);
      inverse[s][h] = all == 0 ? 0 : 1 / all;
      const int row = mine + s * 16 + h * 8 + (lane >> 2);
      if ((lane & 3) == 0 && row < rows)
        a.lse[(i64)batch * rows + row] = all == 0 ? never() : top[s][h] * (f32)a.scale + logf(all);
    }
  }
  // Rows of another length are not where the warp's own were; a group has read its rows together.
  if (kE != kD || kGroups) __syncthreads();
  write<kValues, kE>(matrix_of(a.o, a, batch) + first * a.o.row, a.o.row, kE > kD ? ring : own, o, inverse, rows - first);
}

extern "C" __global__ void __launch_bounds__(128, kBlocksOfRows) differentiate_rows(const Args a) {
  DYNAMIC_SHARED(memory);
  u16 *const own_q = tiles_in(memory), *const own_g = own_q + kOwnD, *const ring = own_g + kOwnE;
  u16* const own_o = ring + kStepBoth;  // until the second step's columns come there
  const int tiles = gridDim.x / (int)a.batches, batch = blockIdx.x % (int)a.batches;
  const int first = (tiles - 1 - (int)(blockIdx.x / (int)a.batches)) * kOwn, rows = (int)a.rows, columns = (int)a.columns;
  const bool causal = a.causal;
  const int seen = causal && first + kOwn < columns ? first + kOwn : columns;
  SourceD k(a.k, a, batch, 0);
  SourceE v(a.v, a, batch, 0);
  const auto fetch_step = [&](int j) {
    u16* const to = ring + (j / kStep & 1) * kStepBoth;
    k.fetch<kStep>(to, columns - j);
    v.fetch<kStep>(to + kStepD, columns - j);
    copies_begun();
  };
  SourceD(a.q, a, batch, first).fetch<kOwn>(own_q, rows - first);
  SourceE(a.g, a, batch, first).fetch<kOwn>(own_g, rows - first);
  SourceE(a.o, a, batch, first).fetch<kOwn>(own_o, rows - first);
  fetch_step(0);
  const f32 factor = (f32)(a.scale * 1.4426950408889634);
  const int lane = lane_of(), mine = first + first_of_warp(), first_of_unit = kGroups ? first : mine;
  f32 shift[kSlices][2], delta[kSlices][2];
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = mine + s * 16 + h * 8 + (lane >> 2);
      shift[s][h] = row < rows ? shift_of(a.lse[(i64)batch * rows + row]) : -never();
    }
  }
  f32 dq[kSlices][kD / 8][4];
  clear<kD>(dq);
  wait_for_copies<0>();
  copies_are_seen();
  __syncthreads();
  const Own<kD> q = own_rows<kD>(own_q);
  const Own<kE> g = own_rows<kE>(own_g);
  {
    u32 dy[kSlices][kE / 16][4], o[kSlices][kE / 16][4];
    load_rows<kE>(dy, own_g);
    load_rows<kE>(o, own_o);
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        f32 sum = 0;
#pragma unroll
        for (int n = 0; n < kE / 16; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            sum = fmaf(half_of(dy[s][n][h + (i & 2)], i & 1), half_of(o[s][n][h + (i & 2)], i & 1), sum);
        }
        delta[s][h] = sum_of_quad(sum);
        const int row = mine + s * 16 + h * 8 + (lane >> 2);
        if ((lane & 3) == 0 && row < rows) a.delta[(i64)batch * rows + row] = delta[s][h];
      }
    }
  }
  for (int j = 0; j < seen; j += kStep) {
    if (j > 0) {
      wait_for_copies<0>();
      copies_are_seen();
    }
    __syncthreads();
    if (j + kStep < seen) fetch_step(j + kStep);
    const u16* const tile = ring + (j / kStep & 1) * kStepBoth;
    constexpr int kPart = kPartOfRows;
#pragma unroll
    for (int part = 0; part < kStep; part += kPart) {
      const int column = j + part;
      if (column >= columns || (causal && column >= first_of_unit + kUnit)) continue;
      f32 p[kSlices][kPart / 8][4], dp[kSlices][kPart / 8][4];
      multiply_transposed<kPart, kD>(p, q, tile + part * stride_of(kD));
      multiply_transposed<kPart, kE>(dp, g, tile + kStepD + part * stride_of(kE));
      wait_for(p, dp);
      if (column + kPart > columns || (causal && column + kPart > mine + 1)) hide<kPart>(p, causal, mine - column, columns - column);
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
#pragma unroll
        for (int n = 0; n < kPart / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const f32 w = power_of_two(fmaf(p[s][n][i], factor, -shift[s][i / 2]));
            p[s][n][i] = w * (dp[s][n][i] - delta[s][i / 2]);
          }
        }
      }
      add_product<kPart, kD>(dq, p, tile + part * stride_of(kD));
      wait_for(dq);
    }
  }
  f32 scale[kSlices][2];
#pragma unroll
  for (int s = 0; s < kSlices; ++s) scale[s][0] = scale[s][1] = (f32)a.scale;
  if (kGroups) __syncthreads();
  write<kWidth, kD>(matrix_of(a.dq, a, batch) + first * a.dq.row, a.dq.row, own_q, dq, scale, rows - first);
}

extern "C" __global__ void __launch_bounds__(128, kBlocksOfColumns) differentiate_columns(const Args a) {
  DYNAMIC_SHARED(memory);
  u16 *const own_k = tiles_in(memory), *const own_v = own_k + kOwnD, *const ring = own_v + kOwnE;
  f32* const numbers = (f32*)(ring + 2 * kStepBoth);  // shifts and δ of a step's rows, and of the next
  const int batch = blockIdx.x % (int)a.batches, first = (int)(blockIdx.x / (int)a.batches) * kOwn;
  const int rows = (int)a.rows, columns = (int)a.columns;
  const bool causal = a.causal;
  const int begin = causal ? first / kStep * kStep : 0;  // rows before it see nothing of this
  SourceD q(a.q, a, batch, begin);
  SourceE g(a.g, a, batch, begin);
  const auto fetch_step = [&](int i) {
    u16* const to = ring + (i / kStep & 1) * kStepBoth;
    q.fetch<kStep>(to, rows - i);
    g.fetch<kStep>(to + kStepD, rows - i);
    copies_begun();
  };
  // Threads up to 63 take the lse of a row, the others its δ. A row that is not there has weights of 0.
  const f32* const numbers_of_batch = (threadIdx.x < 64 ? a.lse : a.delta) + (i64)batch * rows;
  const auto number_of = [&](int i) {
    i += threadIdx.x & 63;
    return i < rows ? numbers_of_batch[i] : threadIdx.x < 64 ? -never() : 0.0f;
  };
  f32 next = 0;
  if (begin < rows) {
    SourceD(a.k, a, batch, first).fetch<kOwn>(own_k, columns - first);
    SourceE(a.v, a, batch, first).fetch<kOwn>(own_v, columns - first);
    fetch_step(begin);
    next = number_of(begin);
  }
  const f32 factor = (f32)(a.scale * 1.4426950408889634);
  const int lane = lane_of(), mine = first + first_of_warp(), first_of_unit = kGroups ? first : mine;
  f32 dk[kSlices][kD / 8][4], dv[kSlices][kE / 8][4];
  clear<kD>(dk);
  clear<kE>(dv);
  wait_for_copies<0>();
  copies_are_seen();
  __syncthreads();
  const Own<kD> k = own_rows<kD>(own_k);
  const Own<kE> v = own_rows<kE>(own_v);
  for (int i = begin; i < rows; i += kStep) {
    f32* const shifts = numbers + (i / kStep & 1) * 128;
    shifts[threadIdx.x] = threadIdx.x < 64 ? shift_of(next) : next;
    wait_for_copies<0>();
    copies_are_seen();
    __syncthreads();
    if (i + kStep < rows) {
      fetch_step(i + kStep);
      next = number_of(i + kStep);
    }
    const u16* const tile = ring + (i / kStep & 1) * kStepBoth;
    constexpr int kPart = kPartOfColumns;
#pragma unroll
    for (int part = 0; part < kStep; part += kPart) {
      const int row = i + part;
      if (row >= rows || (causal && row + kPart <= first_of_unit)) continue;
      f32 p[kSlices][kPart / 8][4], dp[kSlices][kPart / 8][4];  // a column's weights lie along a row here
      multiply_transposed<kPart, kD>(p, k, tile + part * stride_of(kD));
      multiply_transposed<kPart, kE>(dp, v, tile + kStepD + part * stride_of(kE));
      wait_for(p, dp);
      if (causal && row < mine + 16 * kSlices - 1) {
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
#pragma unroll
          for (int n = 0; n < kPart / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              if (mine + s * 16 + e / 2 * 8 + (lane >> 2) > row + n * 8 + (lane & 3) * 2 + (e & 1)) p[s][n][e] = never();
            }
          }
        }
      }
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n) {
        const int at = part + n * 8 + (lane & 3) * 2;
        const f32 shift[2] = {shifts[at], shifts[at + 1]}, delta[2] = {shifts[64 + at], shifts[65 + at]};
#pragma unroll
        for (int s = 0; s < kSlices; ++s) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            p[s][n][e] = power_of_two(fmaf(p[s][n][e], factor, -shift[e & 1]));
            dp[s][n][e] = p[s][n][e] * (dp[s][n][e] - delta[e & 1]);
          }
        }
      }
      add_product<kPart, kE>(dv, p, tile + kStepD + part * stride_of(kE));
      add_product<kPart, kD>(dk, dp, tile + part * stride_of(kD));
      wait_for(dk, dv);
    }
  }
  f32 scale[kSlices][2], one[kSlices][2];
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
    scale[s][0] = scale[s][1] = (f32)a.scale;
    one[s][0] = one[s][1] = 1;
  }
  if (kGroups) __syncthreads();
  write<kWidth, kD>(matrix_of(a.dk, a, batch) + first * a.dk.row, a.dk.row, own_k, dk, scale, columns - first);
  write<kValues, kE>(matrix_of(a.dv, a, batch) + first * a.dv.row, a.dv.row, own_v, dv, one, columns - first);
}
)cuda";

}  // namespace

std::string attention_text(const AttentionShape& a) {
  return fmt::format(
             "constexpr int kWidth = {}, kValues = {}, kSlices = {};\nconstexpr bool kGroups = {}, kBf16 = {};\n",
             a.width, a.values, a.slices, a.by_groups, a.dtype == DType::bf16) +
         kParts + attention_products_text(a) + kKernels;
}

}  // namespace ebb::cuda
