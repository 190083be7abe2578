// SPDX-License-Identifier: MIT
// A libcuda.so.1 that cannot be used: every call is refused, or it is too old to have most of them.
#include "cuda/runtime/driver.h"

using namespace ebb::cuda;

#define EBB_REFUSE(name, symbol, parameters) \
  extern "C" Result symbol parameters { return 100; }
#ifdef EBB_TOO_OLD
EBB_REFUSE(init, cuInit, (unsigned))
#else
EBB_CUDA_DRIVER(EBB_REFUSE)
#endif
