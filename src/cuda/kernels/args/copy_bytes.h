// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

struct ByteCopy {
  char* to;
  const char* from;
  i64 bytes;
};
template <int most>
struct CopyBytesArgs {
  i64 count;
  ByteCopy of[most];
};
EBB_ARGS(1 + 3 * 8, CopyBytesArgs<8>);

}  // namespace ebb::cuda
