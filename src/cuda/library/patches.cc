// SPDX-License-Identifier: MIT
// With patches [N·P·Q, R·S·C], one row per window, and windows W [K, R·S·C]:
//   y = patches·Wᵀ [N·P·Q, K],   dW = yᵀ·patches,   patches of dx = y·W
// cuDNN reads a picture's three channels as eight, or without tensor cores; here no number of the product is padding.
#include "cuda/library/patches.h"

#include <utility>

#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

// [N, C, P·R, Q·S] -> [N, P, Q, R, S, C], in place.
View in_patches(const View& x, std::int64_t taps_h, std::int64_t taps_w) {
  const auto size = [&](int d) { return x.shape[d]; };
  const auto step = [&](int d) { return x.strides[d]; };
  View v = x;
  v.shape = Shape{size(0), size(2) / taps_h, size(3) / taps_w, taps_h, taps_w, size(1)};
  v.strides = Strides{step(0), taps_h * step(2), taps_w * step(3), step(2), step(3), step(1)};
  return v;
}

// [N, C, H, W] as the matrix [N, H·W·C] or, by pixels, [N·H·W, C], with channels last; copied if they are not.
View pixel_matrix(Gpu& gpu, const View& v, bool by_pixels, BufferPtr& keep, const char* what) {
  View last = v;
  last.shape = Shape{v.shape[0], v.shape[2], v.shape[3], v.shape[1]};
  last.strides = Strides{v.strides[0], v.strides[2], v.strides[3], v.strides[1]};
  const std::int64_t pixels = v.shape[2] * v.shape[3], channels = v.shape[1];
  return reshaped(packed(gpu, last, keep, what),
                  by_pixels ? Shape{v.shape[0] * pixels, channels} : Shape{v.shape[0], pixels * channels});
}

bool are_patches(const ConvCall& o, const View& x, const View& w, const View& y) {
  if (!o.last || o.groups != 1 || w.shape[2] * w.shape[3] == 1) return false;
  for (const int d : {2, 3}) {
    const auto axis = static_cast<std::size_t>(d - 2);
    if (o.padding[axis] != 0 || o.stride[axis] != w.shape[d] || (o.dilation[axis] != 1 && w.shape[d] != 1) ||
        x.shape[d] != y.shape[d] * w.shape[d])
      return false;
  }
  return true;
}

}  // namespace

bool run_as_patches(Gpu& gpu, ConvolutionResult result, const ConvCall& call, const View& x, const View& w,
                    const View& y, const View& bias, const char* what) {
  if (!are_patches(call, x, w, y)) return false;
  BufferPtr keep_patches, keep_w, keep_y, keep_bias;
  const View seen = in_patches(x, w.shape[2], w.shape[3]);
  const View patches = workspace(gpu, x.dtype, seen.shape, keep_patches, what);
  const View rows =
      reshaped(patches, Shape{y.shape[0] * y.shape[2] * y.shape[3], w.shape[1] * w.shape[2] * w.shape[3]});
  if (result != ConvolutionResult::x) copy_elements(gpu, patches, seen);
  const View windows = pixel_matrix(gpu, w, false, keep_w, what), pixels = pixel_matrix(gpu, y, true, keep_y, what);
  switch (result) {
    case ConvolutionResult::y: {
      View summand;
      if (bias.data) {  // products read it 16 bytes at a time
        summand = dense(bias, bias.dtype, keep_bias, gpu, what);
        copy_elements(gpu, summand, bias);
      }
      multiply_floats(gpu, rows, transposed(windows), pixels, false, summand.data);
      break;
    }
    case ConvolutionResult::w:
      multiply_floats(gpu, transposed(pixels), rows, windows);
      break;
    case ConvolutionResult::x:
      multiply_floats(gpu, pixels, windows, rows);
      copy_elements(gpu, seen, patches);
      break;
  }
  return true;
}

}  // namespace ebb::cuda
