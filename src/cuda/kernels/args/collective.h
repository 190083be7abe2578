// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

template <class T>
struct AddRanksArgs {
  T* to;
  const T* a;
  const T* b;
  i64 n;
};
EBB_ARGS(4, AddRanksArgs<u8>);

}  // namespace ebb::cuda
