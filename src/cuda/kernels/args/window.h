// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

struct Windows {
  i64 groups, channels, height, width, rows, columns, taps_h, taps_w;
  i64 stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
};

template <class T>
struct ColumnsArgs {
  const T* x;
  T* col;
  i64 n, images, images_inside, step_n, step_c, step_h, step_w;
  Windows windows;
};
EBB_ARGS(23, ColumnsArgs<u8>);

template <class T, class A>
struct AddBiasArgs {
  T* to;
  const A* from;
  const T* bias;
  i64 n, channels, inner, bias_step;
};
EBB_ARGS(7, AddBiasArgs<u8, u8>);

template <class T, class A>
struct AddUpArgs {
  T* x;
  const A* col;
  i64 n;
  Windows windows;
};
EBB_ARGS(17, AddUpArgs<u8, u8>);

template <class T>
struct MaxPoolArgs {
  const T* x;
  i64* out;
  i64 n, channels, height, width, rows, columns, step_n, step_c, step_h, step_w;
  i64 taps_h, taps_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
};
EBB_ARGS(20, MaxPoolArgs<u8>);

}  // namespace ebb::cuda
