// SPDX-License-Identifier: MIT
// Shared by the three kernels of attention by warpgroups. A block has a warpgroup that copies (the producer) and
// others that multiply (consumers), 64 of the block's own rows each. Blocks stay and take tile after tile: `own` rows
// of one head, which they hold, and of other matrices `step` rows at a time, which come through rings in shared memory.
// A consumer waits for a stage to be full and says when it is empty; consumers do not wait for each other, so that one
// exponentiates while another multiplies.
#pragma once
#include "cuda/kernels/args/attention.h"
#include "cuda/kernels/parts/mbarrier.cuh"
#include "cuda/kernels/parts/warpgroup_products.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kMasked = true, kDocuments = true;
constexpr int kNumbers[] = {128, 128, 2, 128, 2, 2, 240, 1};  // of AttentionTiling
#endif
constexpr AttentionTiling kTiling{kNumbers[0], kNumbers[1], kNumbers[2], kNumbers[3],
                                  kNumbers[4], kNumbers[5], kNumbers[6], kNumbers[7]};
using Args = PipelinedAttentionArgs;

constexpr int kConsumers = kTiling.consumers, kThreadsOfBlock = 128 * (kConsumers + 1);
constexpr int kOwn = 64 * kConsumers, kStep = kTiling.step;
constexpr int kStages = kTiling.stages, kMoreStages = kTiling.more_stages;
constexpr int kWidth = kTiling.width, kValues = kTiling.values;
// Depth of products, panels of tiles, and columns of sums, for which there are instructions: up to 128 in steps of 16,
// then of 32.
EBB constexpr int deep(int n) { return (n + 15) / 16 * 16; }
EBB constexpr int wide(int n) { return n > 128 ? (n + 31) / 32 * 32 : deep(n); }
EBB constexpr int panels(int n) { return (n + 63) / 64; }
constexpr int kPanelsD = panels(kWidth), kPanelsE = panels(kValues);
constexpr int kOwnPanel = kOwn * 64, kStepPanel = kStep * 64;  // elements
constexpr int kOwnD = kPanelsD * kOwnPanel, kOwnE = kPanelsE * kOwnPanel;
constexpr int kStepD = kPanelsD * kStepPanel, kStepE = kPanelsE * kStepPanel;
constexpr f64 kToTwo = 1.4426950408889634;
// Launches have as many registers for each thread as 65536 suffice for; the producer has what consumers leave of them.
constexpr int kLaunchRegisters = 65536 / (kThreadsOfBlock * kTiling.blocks) / 8 * 8;
constexpr int kProducerRegisters = kLaunchRegisters * (kConsumers + 1) - kTiling.registers * kConsumers;

EBB int lane_of() { return threadIdx.x & 31; }
EBB int group_of() { return threadIdx.x / 128; }  // 0: the producer
EBB f32 neg_inf() { return __uint_as_float(0xff800000u); }
EBB u32 pair_of(f32 low, f32 high) { return kBf16 ? to_bf16x2(low, high) : to_f16x2(low, high); }
EBB f32 half_of(u32 pair, int which) {
  const u16 h = (u16)(pair >> 16 * which);
  return kBf16 ? from_bf16(h) : from_f16(h);
}
EBB f32 sum_of_quad(f32 x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
EBB f32 largest_of_quad(f32 x) {
  x = larger(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return larger(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
// A row's lse for powers of two; rows that attend to nothing have weights of 0.
EBB f32 shift_of(f32 lse) { return lse == neg_inf() ? 0 : lse * (f32)kToTwo; }

#ifdef __CUDACC_RTC__
EBB u32 address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
EBB void init_barrier(u64* b, int arrivals) { mbarrier_init(address(b), arrivals); }
EBB void wait_at(u64* b, int phase) { mbarrier_wait(address(b), phase); }
EBB void arrive_at(u64* b) { mbarrier_arrive(address(b)); }
EBB void expect_at(u64* b, int bytes) { mbarrier_expect(address(b), bytes); }
// Consumers take turns: one begins its products when the one before it has.
EBB void wait_for_turn(int group) { asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory"); }
EBB void give_turn(int group) { asm volatile("bar.arrive %0, 256;" ::"r"(1 + group) : "memory"); }
// `high` rows from `row` on to panels in shared memory; what is beyond the matrix becomes 0.
template <int high, int width>
EBB void copy_rows(u16* to, const TensorMap& map, const AttentionMatrix&, u64* barrier, int row, i64, int head,
                   int outer) {
#pragma unroll
  for (int p = 0; p < panels(width); ++p) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(address(to + p * high * 64)),
        "l"(&map), "r"(address(barrier)), "r"(p * 64), "r"(row), "r"(head), "r"(outer)
        : "memory");
  }
}
#else
template <int high, int width>
EBB void copy_rows(u16* to, const TensorMap&, const AttentionMatrix& m, u64* barrier, int row, i64 rows, int head,
                   int outer) {
  const u16* const from = m.data + outer * m.outer + head * m.inner;
  for (int r = 0; r < high; ++r) {
    for (int c = 0; c < 64 * panels(width); ++c)
      to[c / 64 * high * 64 + r * 64 + (c % 64 / 8 ^ (r & 7)) * 8 + c % 8] =
          row + r < rows && c < width ? from[(row + r) * m.row + c] : 0;
  }
  bytes_have_come(barrier, panels(width) * high * 128);
}
#endif

// Stages of a matrix that blocks go through, and where in them a warp is.
template <int stages>
struct Ring {
  u16* tiles;
  int size;  // elements of a stage
  u64 *full, *empty;
  int stage = 0, phase = 0;
  __device__ __forceinline__ u16* tile() const { return tiles + stage * size; }
  __device__ __forceinline__ void next() {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
  // By the producer: the stage is empty, and so many elements will come.
  __device__ __forceinline__ u64* begin(int elements) const {
    wait_empty();
    expect_at(full + stage, elements * 2);
    return full + stage;
  }
  __device__ __forceinline__ void wait_full() const { wait_at(full + stage, phase); }
  __device__ __forceinline__ void wait_empty() const { wait_at(empty + stage, phase ^ 1); }
};
// By a warp that has read the stage.
EBB void leave_stage(u64* empty) {
  __syncwarp();
  if (lane_of() == 0) arrive_at(empty);
}

// Shared memory: own rows, both rings, numbers of a step's rows for each stage, barriers.
template <bool two_own, bool has_numbers>
struct Memory {
  u16 *own, *more_own;
  Ring<kStages> first;
  Ring<kMoreStages> second;
  f32* numbers;
  u64 *own_full, *own_empty;
  __device__ __forceinline__ Memory(char* memory) {
    own = (u16*)(memory + (-(u32)__cvta_generic_to_shared(memory) & 1023));
    more_own = own + kOwnD;
    u16* at = more_own + (two_own ? kOwnE : 0);
    first.tiles = at, first.size = kStepD, at += kStages * kStepD;
    second.tiles = at, second.size = kStepE, at += kMoreStages * kStepE;
    numbers = (f32*)at, at += has_numbers ? kStages * kStep * 4 : 0;
    u64* const barriers = (u64*)at;
    own_full = barriers, own_empty = own_full + 1;
    first.full = own_empty + 1, first.empty = first.full + kStages;
    second.full = first.empty + kStages, second.empty = second.full + kMoreStages;
  }
  // By all threads; `more` arrive with the copies of the first ring's stages.
  __device__ __forceinline__ void begin(int more) {
    if (threadIdx.x == 0) {
      init_barrier(own_full, 1), init_barrier(own_empty, 4 * kConsumers);
      for (int s = 0; s < kStages; ++s)
        init_barrier(first.full + s, 1 + more), init_barrier(first.empty + s, 4 * kConsumers);
      for (int s = 0; s < kMoreStages; ++s)
        init_barrier(second.full + s, 1), init_barrier(second.empty + s, 4 * kConsumers);
      mbarriers_are_made();
    }
    __syncthreads();
  }
};

EBB u16* matrix_of(const AttentionMatrix& m, int outer, int head) { return m.data + outer * m.outer + head * m.inner; }

// c = own·tᵀ: the group's own rows by those of a step's tile.
template <int depth>
EBB void multiply_own(f32 (&c)[kStep / 8][4], const u16* own, const u16* tile) {
  products_begin();
  begin_product(c, own, kOwnPanel, tile, kStepPanel, 0);
#pragma unroll
  for (int k = 1; k < depth / 16; ++k) add_product(c, own, kOwnPanel, tile, kStepPanel, k);
  products_end();
}
// c += x·t, of rows of a step's tile.
template <int parts>
EBB void add_step(f32 (&c)[parts][4], const u32 (&x)[kStep / 16][4], const u16* tile) {
  products_begin();
#pragma unroll
  for (int k = 0; k < kStep / 16; ++k) add_rows(c, x[k], tile, kStepPanel, k);
  products_end();
}
// Numbers as a left factor.
EBB void pack(u32 (&to)[kStep / 16][4], const f32 (&c)[kStep / 8][4]) {
#pragma unroll
  for (int k = 0; k < kStep / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[k][i] = pair_of(c[2 * k + i / 2][2 * (i & 1)], c[2 * k + i / 2][2 * (i & 1) + 1]);
  }
}
template <int parts>
EBB void clear(f32 (&c)[parts][4]) {
#pragma unroll
  for (int n = 0; n < parts; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) c[n][i] = 0;
  }
}
// Takes scores away of columns that are not there or that a row must not see. `row`, the thread's first, and `columns`
// are counted from the first column here.
EBB void apply_mask(f32 (&p)[kStep / 8][4], bool causal, int row, int columns) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = row + h * 8, end = (causal && i < columns ? i + 1 : columns) - (lane_of() & 3) * 2;
#pragma unroll
    for (int n = 0; n < kStep / 8; ++n) {
      if (n * 8 >= end) p[n][2 * h] = neg_inf();
      if (n * 8 + 1 >= end) p[n][2 * h + 1] = neg_inf();
    }
  }
}
// The bounds of the documents of a thread's two rows (or columns), 8 apart.
struct Bounds {
  int first[2], end[2];
  __device__ __forceinline__ Bounds(const Args& a, int outer, int row) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = row + h * 8;
      const i32* const at = a.documents + (i64)outer * 2 * a.rows + i;
      first[h] = kDocuments && i < (int)a.rows ? at[0] : 0;
      end[h] = kDocuments && i < (int)a.rows ? at[a.rows] : 0;
    }
  }
  // Takes scores away of a step's columns (or rows) from j on that lie outside.
  __device__ __forceinline__ void apply(f32 (&p)[kStep / 8][4], int j) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (first[h] <= j && j + kStep <= end[h]) continue;
      const int low = first[h] - j - (lane_of() & 3) * 2, high = end[h] - j - (lane_of() & 3) * 2;
#pragma unroll
      for (int n = 0; n < kStep / 8; ++n) {
        if (n * 8 < low || n * 8 >= high) p[n][2 * h] = neg_inf();
        if (n * 8 + 1 < low || n * 8 + 1 >= high) p[n][2 * h + 1] = neg_inf();
      }
    }
  }
};
// Adds the mask to products, divided by what these are multiplied with. Of a step's columns of two rows, 8 apart, or
// (`transposed`) of a step's rows of two columns.
template <bool transposed>
EBB void add_mask(f32 (&p)[kStep / 8][4], const Args& a, int outer, int head, int row, int column) {
  const f32 inverse = (f32)(1 / a.scale);
  const i64 along = transposed ? a.mask_row : a.mask_column, across = transposed ? a.mask_column : a.mask_row;
  const int first = (transposed ? row : column) + (lane_of() & 3) * 2, other = transposed ? column : row;
  const int end = (int)(transposed ? a.rows : a.columns), other_end = (int)(transposed ? a.columns : a.rows);
  const f32* const mask = a.mask + outer * a.mask_outer + head * a.mask_head;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (other + h * 8 >= other_end) continue;
    const f32* at = mask + (other + h * 8) * across + first * along;
#pragma unroll
    for (int n = 0; n < kStep / 8; ++n, at += 8 * along) {
      if (first + n * 8 < end) p[n][2 * h] = fmaf(at[0], inverse, p[n][2 * h]);
      if (first + n * 8 + 1 < end) p[n][2 * h + 1] = fmaf(at[along], inverse, p[n][2 * h + 1]);
    }
  }
}
// The thread's two rows; lanes of four exchange pairs so that each writes 16 bytes.
template <int width, int parts>
EBB void write_rows(u16* to, i64 step, int row, int rows, const f32 (&c)[parts][4], const f32 (&factor)[2]) {
  const int lane = lane_of() & 3;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const bool live = row + h * 8 < rows;
    u16* const at = to + (i64)(row + h * 8) * step;
#pragma unroll
    for (int n = 0; n < width / 8; n += 4) {
      u32 w[4];
#pragma unroll
      for (int i = 0; i < 4 && n + i < width / 8; ++i)
        w[i] = pair_of(c[n + i][2 * h] * factor[h], c[n + i][2 * h + 1] * factor[h]);
      if (n + 4 > width / 8) {
#pragma unroll
        for (int i = 0; i < 4 && n + i < width / 8; ++i) {
          if (live) *(u32*)(at + (n + i) * 8 + lane * 2) = w[i];
        }
        continue;
      }
      // A transpose of 4 by 4: pairs, then pairs of pairs.
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const u32 other = __shfl_xor_sync(0xffffffffu, lane & 1 ? w[i] : w[i + 1], 1);
        if (lane & 1) {
          w[i] = other;
        } else {
          w[i + 1] = other;
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const u32 other = __shfl_xor_sync(0xffffffffu, lane & 2 ? w[i] : w[i + 2], 2);
        if (lane & 2) {
          w[i] = other;
        } else {
          w[i + 2] = other;
        }
      }
      if (live) store16(at + (n + lane) * 8, w[0], w[1], w[2], w[3]);
    }
  }
}

}  // namespace ebb::cuda
