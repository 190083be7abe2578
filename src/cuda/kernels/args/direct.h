// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

// One axis of a direct convolution. Results `up` apart have the same taps, a class each; their own position p reads
// elements p·down + sign·(i + padding − r·dilation)/up of class i, for every r that `up` divides it for.
struct DirectAxis {
  i64 taps, up, down, sign, padding, dilation;
  i64 period;  // from one tap of a class to its next
  i64 source, result;
};

// T: in memory. Channels are those of a group; steps are in elements.
template <class T>
struct DirectArgs {
  const T* source;
  const T* weights;
  const T* bias;  // or null
  T* result;
  i64 blocks, images, source_channels, result_channels, tiles, blocks_of_positions, bias_step;
  i64 source_n, source_c, source_h, source_w;
  i64 weight_g, weight_to, weight_from, weight_h, weight_w;
  i64 result_n, result_c, result_h, result_w;
  DirectAxis rows, columns;
};
EBB_ARGS(42, DirectArgs<u8>);

// Part i has positions i·each and following; parts [i, outputs, taps].
template <class T>
struct DepthwiseArgs {
  const T* x;
  const T* y;
  f32* parts;
  i64 positions, each, outputs, per_channel, chunks;  // outputs of a channel; chunks of taps
  i64 x_n, x_c, x_h, x_w, y_n, y_c, y_h, y_w;
  i64 height, width, rows, columns, taps_h, taps_w;
  i64 stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
};
EBB_ARGS(28, DepthwiseArgs<u8>);

}  // namespace ebb::cuda
