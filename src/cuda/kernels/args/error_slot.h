// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

// A kernel's complaint about data: the lowest position of the first step. Host memory that the device can
// reach; nothing is written while all is well.
struct ErrorSlot {
  static constexpr u64 kNone = ~0ull;
  static constexpr int kCheckBits = 12, kPositionBits = 40;
  u64 key = kNone;  // step, position, number of the check, from the highest bit down
  u64 bits = 0;     // the number complained of: a double or an integer
  u32 lock = 0;
  u32 unused = 0;
};

// Where a kernel complains: its run's slot, and which step of the run it is.
struct Complaints {
  ErrorSlot* slot;
  i64 step;
};

}  // namespace ebb::cuda
