// SPDX-License-Identifier: MIT
#pragma once
#include "bind.h"

// Options that an operation and its gradient rule share.
namespace ebb::python {

GeluForm gelu_form(const std::string& approximate);  // PyTorch's names: "none", "tanh"
PadMode pad_mode(const char* op, const std::string& name);

inline ConvTransposeOptions transposed(SizePair stride, SizePair padding, SizePair output_padding, std::int64_t groups,
                                       SizePair dilation) {
  return {
      .stride = stride, .padding = padding, .output_padding = output_padding, .groups = groups, .dilation = dilation};
}

inline AvgPoolOptions avg_pool(std::optional<SizePair> stride, SizePair padding, bool ceil_mode,
                               bool count_include_pad) {
  return {.stride = stride, .padding = padding, .ceil_mode = ceil_mode, .count_include_pad = count_include_pad};
}

}  // namespace ebb::python
