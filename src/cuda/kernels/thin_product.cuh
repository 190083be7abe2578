// SPDX-License-Identifier: MIT
// Products that tiles are too large for: of few terms each, of long sums for few columns or few rows, and of many small
// matrices. The order of an element's terms depends on their number alone, in long sums for few rows also on the number
// of columns.
#pragma once
#include "cuda/kernels/args/matmul.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/fused.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u16 In;  // of the factors
EBB A term_of(In x) { return from_bf16(x); }
constexpr int kColumns = 3, kRows = 1;
#endif

using Args = ThinProductArgs<In, T>;

EBB void give(const Args& a, i64 batch, i64 row, i64 column, A x) {
  T* const to = a.c + batch * a.c_batch + row * a.c_row + column;
  if (a.add) x += load(*to);
  if (a.bias) x += load(a.bias[column]);
  *to = store(x);
}

// A thread has a few neighbours of a row.
extern "C" __global__ void __launch_bounds__(kThreads) multiply_few_terms(const Args a) {
  constexpr int kEach = 4;
  const i64 packs = (a.n + kEach - 1) / kEach;
  EACH(i, a.batches * a.m * packs) {
    const i64 line = quotient(i, packs), batch = a.batches == 1 ? 0 : quotient(line, a.m), row = line - batch * a.m,
              column = (i - line * packs) * kEach;
    const In* const x = a.a + batch * a.a_batch + row * a.a_row;
    const In* const y = a.b + batch * a.b_batch + column * a.b_column;
    f32 total[kEach] = {};
#pragma unroll
    for (int d = 0; d < kFewTerms; ++d) {
      if (d >= a.k) continue;
      const f32 factor = term_of(x[d * a.a_column]);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        if (column + j >= a.n) continue;
        const f32 other = term_of(y[d * a.b_row + j * a.b_column]);
        total[j] = d == 0 ? factor * other : fmaf(factor, other, total[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (column + j < a.n) give(a, batch, row, column + j, (A)total[j]);
    }
  }
}

// A warp has a part of a row's sums.
extern "C" __global__ void __launch_bounds__(kThreads) multiply_narrow(const Args a) {
  const int lane = threadIdx.x & 31;
  EACH(i, a.m * a.parts * 32) {
    const i64 task = i >> 5, part = a.parts == 1 ? 0 : quotient(task, a.m), row = task - part * a.m;
    const i64 end = (part + 1) * a.part < a.k ? (part + 1) * a.part : a.k;
    const In* const x = a.a + row * a.a_row;
    f32 total[kColumns] = {};
#pragma unroll 8
    for (i64 k = part * a.part + lane; k < end; k += 32) {
      const f32 factor = term_of(x[k * a.a_column]);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) total[j] = fmaf(factor, term_of(a.b[k * a.b_row + j * a.b_column]), total[j]);
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const f32 sum = over_lanes<Plus>(total[j]);
      if (lane == 0) a.sums[task * kColumns + j] = sum;
    }
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) add_narrow(const Args a) {
  const int lane = threadIdx.x & 31;
  const i64 sums = a.m * a.n;
  EACH(i, sums * 32) {
    const i64 element = i >> 5, row = quotient(element, a.n);
    f64 total = 0;
#pragma unroll 4
    for (i64 p = lane; p < a.parts; p += 32) total += (f64)a.sums[p * sums + element];
    total = over_lanes<Plus>(total);
    if (lane == 0) give(a, 0, row, element - row * a.n, (A)total);
  }
}

// A thread has a column's part of the sums of all rows.
extern "C" __global__ void __launch_bounds__(kThreads) multiply_few_rows(const Args a) {
  EACH(i, a.n * a.parts) {
    const i64 part = a.parts == 1 ? 0 : quotient(i, a.n), column = i - part * a.n;
    const i64 end = (part + 1) * a.part < a.k ? (part + 1) * a.part : a.k;
    f32 total[kRows] = {};
#pragma unroll 8
    for (i64 k = part * a.part; k < end; ++k) {
      const f32 factor = term_of(a.b[k * a.b_row + column * a.b_column]);
#pragma unroll
      for (int j = 0; j < kRows; ++j) total[j] = fmaf(term_of(a.a[j * a.a_row + k * a.a_column]), factor, total[j]);
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) a.sums[(part * kRows + j) * a.n + column] = total[j];
  }
}

// A thread has an element, whose sum is one chain.
extern "C" __global__ void __launch_bounds__(kThreads) multiply_small(const Args a) {
  EACH(i, a.batches * a.m * a.n) {
    const i64 line = quotient(i, a.n), batch = quotient(line, a.m), row = line - batch * a.m, column = i - line * a.n;
    const In* const x = a.a + batch * a.a_batch + row * a.a_row;
    const In* const y = a.b + batch * a.b_batch + column * a.b_column;
    A total = 0;
#pragma unroll 4
    for (int d = 0; d < (int)a.k; ++d) total = fused(term_of(x[d * a.a_column]), term_of(y[d * a.b_row]), total);
    give(a, batch, row, column, total);
  }
}

}  // namespace ebb::cuda
