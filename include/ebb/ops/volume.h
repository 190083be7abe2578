#pragma once
#include <array>
#include <cstdint>
#include <optional>

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

struct Pool3dOptions {
  std::optional<SizeTriple> stride = {};  // the window's size unless given
  SizeTriple padding = 0;                 // at most half the window
  bool ceil_mode = false;                 // a last window that reaches over the end counts too
  SizeTriple dilation = 1;                // of max_pool3d
  bool count_include_pad = true;          // of avg_pool3d; false: a mean of the elements that exist
};
Tensor max_pool3d(const Tensor& x, SizeTriple window, const Pool3dOptions& options = {});
Tensor avg_pool3d(const Tensor& x, SizeTriple window, const Pool3dOptions& options = {});

}  // namespace ebb
