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

// Positions of a step of weight_gradient.cuh, one per lane.
constexpr int kGradientStep = 32;

// Part i has positions i·each and following; parts [i, groups, outputs, channels·taps].
struct WeightGradientArgs {
  const f32* x;
  const f32* y;
  f32* parts;
  i64 positions, each, outputs, tiles_m, tiles_n;
  i64 x_n, x_c, x_h, x_w, y_n, y_c, y_h, y_w;
  Windows windows;
};
EBB_ARGS(30, WeightGradientArgs);

struct AddGradientsArgs {
  const f32* parts;
  f32* out;
  i64 n, count;
};
EBB_ARGS(4, AddGradientsArgs);

// One axis of the windows of a pool; adaptive: window i is [i*size/outputs, ((i + 1)*size + outputs - 1)/outputs).
// by_: a divisor_word (core/divisor.h).
struct PoolSide {
  i64 size, outputs, window, stride, padding, dilation, adaptive;
  i64 by_size, by_outputs, by_stride;
};

constexpr int kSpreadEach = 4;  // neighbours of a thread that adds up windows (chosen, not measured)

// T: of the image, A: of sums. `image` has steps, or is dense where it is the result; the other one is dense.
template <class T, class A>
struct PoolArgs {
  T* image;
  A* sums;
  i64* places;                                      // of largest elements
  i64 n, channels, step_n, step_c, step_h, step_w;  // n: elements of the result
  PoolSide rows, columns;
};
EBB_ARGS(29, PoolArgs<u8, u8>);

// Gradients of windows, which go to their first largest elements: x and places have their channels last.
template <class T>
struct SpreadToLargestArgs {
  const T* g;
  const i64* places;
  T* x;
  i64 n, channels, step_n, step_h, step_w, step_c;  // of g; n: elements of x
  PoolSide rows, columns;
};
EBB_ARGS(29, SpreadToLargestArgs<u8>);

// The same of planes, all dense.
template <class T>
struct SpreadInPlanesArgs {
  const T* g;
  const i64* places;
  T* x;
  i64 n;
  PoolSide rows, columns;
};
EBB_ARGS(24, SpreadInPlanesArgs<u8>);

}  // namespace ebb::cuda
