// SPDX-License-Identifier: MIT
#pragma once
#include <array>

#include "backend/call.h"

namespace ebb {

// Where a call of attention_gradient writes dq, dk and dv, [B, T, H, D]: one output each, or side by side in the rows
// of a single output.
inline std::array<View, 3> attention_results(const LibraryCall& call) {
  if (call.outputs.size() == 3) return {call.outputs[0], call.outputs[1], call.outputs[2]};
  std::array<View, 3> results;
  const View& all = call.outputs[0];
  const std::int64_t rows = all.shape[1], width = all.shape[2];
  std::int64_t at = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    const Shape& like = call.inputs[k + 1].shape;  // [B, H, T, D]
    View& r = results[k];
    r.data = static_cast<std::byte*>(all.data) + at * static_cast<std::int64_t>(size_of(all.dtype));
    r.dtype = all.dtype;
    r.shape = {like[0], like[2], like[1], like[3]};
    r.strides[0] = rows * width, r.strides[1] = width, r.strides[2] = like[3], r.strides[3] = 1;
    at += like[1] * like[3];
  }
  return results;
}

}  // namespace ebb
