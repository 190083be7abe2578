// SPDX-License-Identifier: MIT
// scatter and its sums: a thread per line of the index along the axis, in order.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef u16 T;  // of src
typedef f32 O;  // of out
EBB void update(O& to, T x) { to += from_bf16(x); }
#endif

extern "C" __global__ void __launch_bounds__(kThreads) scatter(const ScatterArgs a) {
  EACH(line, a.index.n) {
    const I* const index = (const I*)a.index.data + at(a.index, line);
    const T* const src = (const T*)a.src.data + at(a.src, line);
    O* const out = (O*)a.out.data + at(a.out, line);
    const i64 outer = quotient(line, a.inner);
    for (i64 i = 0; i < a.length; ++i) {
      const i64 where = index[i * a.index_step];
      if ((u64)where >= (u64)a.size) {
        complain(a.complaints, (outer * a.length + i) * a.inner + line - outer * a.inner, 0, bits_of(where));
        continue;
      }
      O& to = out[where * a.out_step];
      const T x = src[i * a.src_step];
      update(to, x);
    }
  }
}

}  // namespace ebb::cuda
