// SPDX-License-Identifier: MIT
// P·a = L·U with partial pivoting, a block per matrix, and beside U L⁻¹·P·b, or all of L. Columns of a panel are
// factored in shared memory, by rows of which each thread has its own; then come the rows of U that the panel has
// found, and its products are taken from the rows that are left. Rows stay where they are: `order` says which of them
// has which place.
#pragma once
#include "cuda/kernels/args/linalg.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/fused.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

using Args = FactorArgs<T, A>;

constexpr int kTile = kFactorTile, kSide = 16, kEach = kTile / kSide, kWarps = kThreads / 32;
constexpr int kTogether = 8;  // loads before the first store: the compiler cannot tell that they differ
static_assert(kSide * kSide == kThreads);

// A row, after its place: the first of the largest is the pivot.
struct Candidate {
  f64 size;
  u64 place;
  EBB Candidate better(Candidate x, Candidate y) {
    return y.size > x.size || (y.size == x.size && y.place < x.place) ? y : x;
  }
};
EBB Candidate best_of_warp(Candidate x) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2)
    x = Candidate::better(x,
                          {__shfl_xor_sync(0xffffffffu, x.size, other), __shfl_xor_sync(0xffffffffu, x.place, other)});
  return x;
}

extern "C" __global__ void __launch_bounds__(kThreads) factor(const Args a) {
  DYNAMIC_SHARED(memory);
  __shared__ Candidate best[2][kWarps];
  __shared__ f64 products[kThreads], logarithms[kThreads], signs[kThreads];
  const i64 n = a.n, width = a.n + a.k, stride = n | 1;
  A* const panel = (A*)memory;                          // by columns
  A* const tile = panel + a.panel * stride;             // [kTile][kPanel + 1]
  A* const beside = tile + kTile * (kPanel + 1);        // [kPanel][kTile]
  i32* const places = (i32*)(beside + kPanel * kTile);  // of rows; each thread keeps those of its own
  i32* const order = places + n;
  const int side = threadIdx.x % kSide, high = threadIdx.x / kSide, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (i64 m = blockIdx.x; m < a.a.n; m += gridDim.x) {
    const T* const from = (const T*)a.a.data + at(a.a, m);
    const T* const right = (const T*)a.b.data + at(a.b, m);
    A* const work = a.work + m * n * width;
    A* const upper = a.upper + m * n * width;
    for (i64 i = warp; i < n; i += kWarps) {
      for (i64 c = lane; c < width; c += 32)
        work[i * width + c] =
            c < n ? load(from[i * a.a_row + c * a.a_column]) : load(right[i * a.b_row + (c - n) * a.b_column]);
    }
    for (i64 i = threadIdx.x; i < n; i += kThreads) places[i] = order[i] = (i32)i;
    __syncthreads();
    bool exchanged = false, singular = false;
    for (i64 left = 0; left < n && !singular; left += a.panel) {
      const int count = n - left < a.panel ? (int)(n - left) : (int)a.panel;
      for (i64 p = left + warp; p < n; p += kWarps) {
        const i64 i = order[p];
        for (int c = lane; c < count; c += 32) panel[c * stride + i] = work[i * width + left + c];
      }
      __syncthreads();
      for (int r = 0; r < count; ++r) {
        Candidate own{-1, ~0ull};
        for (i64 i = threadIdx.x; i < n; i += kThreads) {
          if (places[i] < left + r) continue;
          const A x = panel[r * stride + i];
          own = Candidate::better(own, {x != x ? infinity() : fabs((f64)x), (u64)places[i] << 32 | (u64)i});
        }
        own = best_of_warp(own);
        if (lane == 0) best[r % 2][warp] = own;
        __syncthreads();
        own = best[r % 2][0];
#pragma unroll
        for (int w = 1; w < kWarps; ++w) own = Candidate::better(own, best[r % 2][w]);
        const i32 place = (i32)(own.place >> 32);
        const i64 row = (i64)(u32)own.place;
        const A pivot = panel[r * stride + row];
        if (a.needs_inverse && pivot == 0) {
          if (threadIdx.x == 0) complain(a.complaints, m, 0, bits_of(left + r + 1));
          singular = true;
          break;
        }
        exchanged ^= place != left + r;
        for (i64 i = threadIdx.x; i < n; i += kThreads) {
          if (i == row) {
            places[i] = (i32)left + r;
            continue;
          }
          if (places[i] < left + r) continue;
          if (places[i] == left + r) places[i] = place;
          const A factor = pivot != 0 ? panel[r * stride + i] / pivot : (A)0;
          panel[r * stride + i] = factor;
          for (int c = r + 1; c < count; c += kTogether) {
            A x[kTogether];
#pragma unroll
            for (int e = 0; e < kTogether; ++e) {
              const i64 column = (c + e < count ? c + e : c) * stride;
              x[e] = fused(-factor, panel[column + row], panel[column + i]);
            }
#pragma unroll
            for (int e = 0; e < kTogether; ++e) {
              if (c + e < count) panel[(c + e) * stride + i] = x[e];
            }
          }
        }
      }
      if (singular) break;
      for (i64 i = threadIdx.x; i < n; i += kThreads) {
        order[places[i]] = (i32)i;
        // What is left of L stays in the row, which keeps its columns.
        for (int c = 0; c < count && a.packed && places[i] >= left; ++c)
          work[i * width + left + c] = panel[c * stride + i];
      }
      __syncthreads();
      // The panel's own rows: U on and above the diagonal, below it the factors of these rows.
      for (int e = threadIdx.x; e < kPanel * kPanel; e += kThreads) {
        const int i = e / kPanel, c = e % kPanel;
        if (i >= count || c >= count) continue;
        const A x = panel[c * stride + order[left + i]];
        tile[i * (kPanel + 1) + c] = x;
        if (c >= i) upper[(left + i) * width + left + c] = x;
      }
      __syncthreads();
      const i64 next = left + count;
      for (i64 c = next + threadIdx.x; c < width; c += kThreads) {
        A x[kPanel];
#pragma unroll
        for (int r = 0; r < kPanel; ++r) x[r] = r < count ? work[order[left + r] * width + c] : (A)0;
#pragma unroll
        for (int r = 0; r < kPanel; ++r) {
          if (r >= count) break;
          upper[(left + r) * width + c] = x[r];
#pragma unroll
          for (int q = r + 1; q < kPanel; ++q) {
            if (q < count) x[q] = fused(-tile[q * (kPanel + 1) + r], x[r], x[q]);
          }
        }
      }
      __syncthreads();
      for (i64 top = next; top < n; top += kTile) {
        for (int e = threadIdx.x; e < kTile * kPanel; e += kThreads) {
          const int i = e % kTile, r = e / kTile;
          tile[i * (kPanel + 1) + r] = r < count && top + i < n ? panel[r * stride + order[top + i]] : (A)0;
        }
        for (i64 first = next; first < width; first += kTile) {
          for (int e = threadIdx.x; e < kPanel * kTile; e += kThreads) {
            const int r = e / kTile, c = e % kTile;
            beside[e] = r < count && first + c < width ? upper[(left + r) * width + first + c] : (A)0;
          }
          A sums[kEach][kEach];
          A* of_row[kEach];
#pragma unroll
          for (int g = 0; g < kEach; ++g) {
            const i64 p = top + high + g * kSide;
            of_row[g] = p < n ? work + order[p] * width + first + side : nullptr;
#pragma unroll
            for (int h = 0; h < kEach; ++h)
              sums[g][h] = p < n && first + side + h * kSide < width ? of_row[g][h * kSide] : (A)0;
          }
          __syncthreads();
#pragma unroll 4
          for (int r = 0; r < kPanel; ++r) {
            A x[kEach], y[kEach];
#pragma unroll
            for (int g = 0; g < kEach; ++g)
              x[g] = tile[(high + g * kSide) * (kPanel + 1) + r], y[g] = beside[r * kTile + side + g * kSide];
#pragma unroll
            for (int g = 0; g < kEach; ++g) {
#pragma unroll
              for (int h = 0; h < kEach; ++h) sums[g][h] = fused(-x[g], y[h], sums[g][h]);
            }
          }
#pragma unroll
          for (int g = 0; g < kEach; ++g) {
#pragma unroll
            for (int h = 0; h < kEach; ++h) {
              if (of_row[g] && first + side + h * kSide < width) of_row[g][h * kSide] = sums[g][h];
            }
          }
          __syncthreads();
        }
      }
    }
    __syncthreads();
    if (a.packed) {
      A* const packed = a.packed + m * (n + 1) * n;
      for (i64 p = warp; p < n; p += kWarps) {
        const A* const lower = work + (i64)order[p] * width;
        for (i64 c = lane; c < n; c += 32) packed[p * n + c] = c < p ? lower[c] : upper[p * width + c];
        if (lane == 0) packed[n * n + p] = (A)(p == 0 && exchanged ? -(order[p] + 1) : order[p] + 1);
      }
      __syncthreads();
    }
    if (!a.determinant) continue;
    f64 product = 1, logarithm = 0, sign = 1;
    for (i64 j = threadIdx.x; j < n; j += kThreads) {
      const f64 pivot = (f64)upper[j * (width + 1)];
      product *= pivot;
      logarithm += log(fabs(pivot));
      if (pivot < 0) sign = -sign;
      if (pivot == 0) sign = 0;
    }
    products[threadIdx.x] = product, logarithms[threadIdx.x] = logarithm, signs[threadIdx.x] = sign;
    __syncthreads();
    if (threadIdx.x == 0) {
      if (exchanged) product = -product, sign = -sign;
      for (int t = 1; t < kThreads; ++t) product *= products[t], logarithm += logarithms[t], sign *= signs[t];
      a.determinant[m] = store((A)(a.logarithm ? (sign < 0 ? not_a_number() : logarithm) : product));
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
