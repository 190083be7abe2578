// SPDX-License-Identifier: MIT
// Views, and elements one after the other.
#pragma once
#include "cuda/kernels/args/view.h"
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

// Where the i-th element of the view lies.
EBB i64 at(const KernelView& v, i64 i) {
  i64 offset = 0;
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
