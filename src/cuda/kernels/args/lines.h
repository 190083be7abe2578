#pragma once
#include "cuda/kernels/args/view.h"

namespace ebb::cuda {

struct BestArgs {
  KernelView x;
  i64* out;
  i64 length, step;
};
EBB_ARGS(21, BestArgs);

struct ScanArgs {
  KernelView x, out;
  i64 length, x_step, out_step, start;
};
EBB_ARGS(40, ScanArgs);

}  // namespace ebb::cuda
