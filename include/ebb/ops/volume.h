// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "ebb/tensor.h"

// Windows of volumes [N, C, D, H, W]; N may be left out. Formulas of the operations on planes.
namespace ebb {

// One number for all three axes, or {along D, along H, along W}.
struct SizeTriple {
  std::array<std::int64_t, 3> of;
  SizeTriple(int all) : of{all, all, all} {}
  SizeTriple(std::int64_t all) : of{all, all, all} {}
  SizeTriple(std::int64_t d, std::int64_t h, std::int64_t w) : of{d, h, w} {}
  std::int64_t operator[](int axis) const { return of[static_cast<std::size_t>(axis)]; }
};

struct Conv3dOptions {
  SizeTriple stride = 1;
  SizeTriple padding = 0;
  SizeTriple dilation = 1;
  std::int64_t groups = 1;
};
// weight [O, C/groups, kd, kh, kw], bias [O] or left out: [N, O, D', H', W'].
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv3dOptions& options = {});

struct ConvTranspose3dOptions {
  SizeTriple stride = 1;
  SizeTriple padding = 0;
  SizeTriple output_padding = 0;  // more planes, rows and columns at the end; less than the stride or the dilation
  std::int64_t groups = 1;
  SizeTriple dilation = 1;
};
// The gradient of conv3d with respect to its input, as an operation: weight [C, O/groups, kd, kh, kw], bias [O].
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dOptions& options = {});

struct Pool3dOptions {
  std::optional<SizeTriple> stride = {};  // the window's size unless given
  SizeTriple padding = 0;                 // at most half the window
  bool ceil_mode = false;                 // a last window that reaches over the end counts too
  SizeTriple dilation = 1;                // of max_pool3d
  bool count_include_pad = true;          // of avg_pool3d; false: a mean of the elements that exist
};
Tensor max_pool3d(const Tensor& x, SizeTriple window, const Pool3dOptions& options = {});
// The position of each largest element, too, i64: its number in the volume, (d·H + h)·W + w.
std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& x, SizeTriple window,
                                                  const Pool3dOptions& options = {});
Tensor avg_pool3d(const Tensor& x, SizeTriple window, const Pool3dOptions& options = {});

// Windows chosen so that the result has this many planes, rows and columns.
Tensor adaptive_max_pool3d(const Tensor& x, SizeTriple output);
std::pair<Tensor, Tensor> adaptive_max_pool3d_with_indices(const Tensor& x, SizeTriple output);
Tensor adaptive_avg_pool3d(const Tensor& x, SizeTriple output);

}  // namespace ebb
