// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>

#include "ebb/tensor.h"

namespace ebb {

// One number for both axes, or {along H, along W}.
struct SizePair {
  std::array<std::int64_t, 2> of;
  SizePair(int both) : of{both, both} {}
  SizePair(std::int64_t both) : of{both, both} {}
  SizePair(std::int64_t h, std::int64_t w) : of{h, w} {}
  std::int64_t operator[](int axis) const { return of[static_cast<std::size_t>(axis)]; }
  bool operator==(const SizePair&) const = default;
};

// Zeros around the input: a number, {H, W}, kValid (none) or kSame (as many as keep the size; stride 1 only, and where
// the number is odd the extra one comes after the last element, as in PyTorch).
struct Padding {
  enum class Mode { sizes, same, valid };
  enum class Name { same, valid };
  SizePair sizes{0};
  Mode mode = Mode::sizes;
  Padding(int both) : sizes(both) {}
  Padding(std::int64_t both) : sizes(both) {}
  Padding(std::int64_t h, std::int64_t w) : sizes(h, w) {}
  Padding(Name name) : mode(name == Name::same ? Mode::same : Mode::valid) {}
};
inline constexpr Padding::Name kSame = Padding::Name::same, kValid = Padding::Name::valid;

struct ConvOptions {
  SizePair stride = 1;
  Padding padding = 0;
  SizePair dilation = 1;
  std::int64_t groups = 1;
};
// x [N, C, H, W] with windows [K, C/groups, R, S] and bias [K] (or Tensor{}): [N, K, P, Q],
//   P = ⌊(H + 2·padding − dilation·(R − 1) − 1)/stride⌋ + 1.  x may lack its first axis; then so does the result.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
// x [N, C, L], windows [K, C/groups, R]. Of the options, the number for W is used.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});

struct ConvTransposeOptions {
  SizePair stride = 1;
  SizePair padding = 0;
  SizePair output_padding = 0;  // more rows and columns at the end; less than the stride or the dilation
  std::int64_t groups = 1;
  SizePair dilation = 1;
};
// The gradient of a convolution with respect to its input, as an operation: x [N, C, H, W], weight [C, K/groups, R, S],
// bias [K]: [N, K, P, Q],   P = (H − 1)·stride − 2·padding + dilation·(R − 1) + output_padding + 1.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});

}  // namespace ebb
