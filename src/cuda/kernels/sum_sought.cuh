// SPDX-License-Identifier: MIT
// Sums at many places of short lines: a thread looks through its line's index for the elements of one place and adds
// them in their order. No thread waits for another.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef f32 S;  // of sums
#endif

// One line among its neighbours.
struct Line {
  const I* index;
  const T* src;
  i64 outer, column;
};
EBB Line line_of(const SoughtSumsArgs& a, i64 outer, i64 column) {
  return {(const I*)a.index.data + at(a.index, outer) + column * a.index_column,
          (const T*)a.src.data + at(a.src, outer) + column * a.src_column, outer, column};
}
EBB i64 index_at(const SoughtSumsArgs& a, const Line& line, i64 i) { return line.index[i * a.index_step]; }
// From element `first` on.
EBB T sum_at(const SoughtSumsArgs& a, const Line& line, i64 first, i64 place) {
  S total = 0;
#pragma unroll 4
  for (i64 i = first; i < a.length; ++i) {
    if (index_at(a, line, i) == place) total += (S)load(line.src[i * a.src_step]);
  }
  return store((A)total);
}
EBB void check(const SoughtSumsArgs& a, const Line& line, i64 i) {
  const i64 where = index_at(a, line, i);
  if ((u64)where >= (u64)a.size)
    complain(a.complaints, a.slices ? i : (line.outer * a.length + i) * a.inner + line.column, 0, bits_of(where));
}

// A thread per element of the index: the first of a place adds all of them. The output begins with zeros.
extern "C" __global__ void __launch_bounds__(kThreads) sum_from_firsts(const SoughtSumsArgs a) {
  EACH(e, a.src.n * a.length * a.inner) {
    const i64 row = a.inner == 1 ? e : quotient(e, a.inner), outer = quotient(row, a.length),
              i = row - outer * a.length;
    const Line line = line_of(a, outer, e - row * a.inner);
    const i64 place = index_at(a, line, i);
    check(a, line, i);
    bool first = (u64)place < (u64)a.size;
    for (i64 before = 0; before < i && first; ++before) first = index_at(a, line, before) != place;
    if (first) ((T*)a.out)[(outer * a.size + place) * a.inner + line.column] = sum_at(a, line, i, place);
  }
}

}  // namespace ebb::cuda
