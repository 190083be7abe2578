// SPDX-License-Identifier: MIT
// The index of lines of an output, one behind the other, as rows of one matrix: line · size + index. What is
// outside is said here, and taken for 0.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef i32 R;  // of rows
#endif

extern "C" __global__ void __launch_bounds__(kThreads) line_rows(const LineRowsArgs<R> a) {
  EACH(i, a.index.n) {
    const i64 line = quotient(i, a.length), where = ((const I*)a.index.data)[at(a.index, i)];
    const bool inside = (u64)where < (u64)a.size;
    if (!inside) {  // the position in the index as it was given
      const i64 outer = quotient(line, a.inner);
      complain(a.complaints, (outer * a.length + i - line * a.length) * a.inner + line - outer * a.inner, 0,
               bits_of(where));
    }
    a.rows[i] = (R)(line * a.size + (inside ? where : 0));
  }
}

}  // namespace ebb::cuda
