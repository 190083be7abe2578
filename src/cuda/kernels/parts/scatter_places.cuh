// SPDX-License-Identifier: MIT
// Where elements of an index go: a thread per element, in any order.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
#endif

template <class Args>
EBB void complain_of(const Args& a, i64 i, i64 where) {
  const i64 slice = a.inner ? quotient(i, a.inner) : i;
  complain(a.complaints, a.inner ? slice - quotient(slice, a.length) * a.length : i, 0, bits_of(where));
}
// Where in the output element i goes; -1: its index is outside, which is said once.
template <class Args>
EBB i64 place_of(const Args& a, i64 i, bool says_so = true) {
  const i64 where = ((const I*)a.index.data)[at(a.index, i)];
  if ((u64)where < (u64)a.size) return at(a.out, i) + where * a.out_step;
  if (says_so) complain_of(a, i, where);
  return -1;
}

}  // namespace ebb::cuda
