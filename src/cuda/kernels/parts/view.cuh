// SPDX-License-Identifier: MIT
// Views, and elements one after the other.
#pragma once
#include "cuda/kernels/args/view.h"
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

// n / d of n below 2^31, by what the host knows of d: see core/divisor.h.
EBB u32 divided_by(u32 n, u32 factor, u32 shift) { return (u32)((u64)n * factor >> 32) >> shift; }

// Where the i-th element of the view lies.
EBB i64 at(const KernelView& v, i64 i) {
  i64 offset = 0;
  if (v.n >> 31 == 0) {
    u32 rest = (u32)i;
#pragma unroll
    for (int d = 7; d > 0; --d) {
      if (v.size[d - 1] == 1) return offset + (i64)rest * v.stride[d];  // it is the first
      const u32 next = divided_by(rest, v.factor[d], v.shift[d]);
      offset += (i64)(rest - next * (u32)v.size[d]) * v.stride[d];
      rest = next;
    }
    return offset + (i64)rest * v.stride[0];
  }
#pragma unroll
  for (int d = 7; d >= 0; --d) {
    if (v.size[d] == 1) continue;
    if (i < v.size[d]) return offset + i * v.stride[d];  // all coordinates before it are 0
    const i64 next = quotient(i, v.size[d]);
    offset += (i - next * v.size[d]) * v.stride[d];
    i = next;
  }
  return offset;
}

// One thread per element, as often as needed.
#define EACH(i, count) \
  for (i64 i = (i64)blockIdx.x * kThreads + threadIdx.x; i < (count); i += (i64)gridDim.x * kThreads)

// The compiler makes four stores of one of 16 bytes.
template <class T>
EBB void put(T* to, T x) {
  *to = x;
}
EBB void put(Words4* to, const Words4& x) { store16(to, x.x[0], x.x[1], x.x[2], x.x[3]); }

}  // namespace ebb::cuda
