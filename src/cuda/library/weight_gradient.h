// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "backend/call.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// How the gradient of a convolution's windows is added up by a kernel of our own: tiles of the matrix [outputs,
// channels times taps], for parts of all positions that are added in order.
struct WeightGradientPlan {
  int tile_m = 64, tile_n = 64;
  std::int64_t each = 0, parts = 1;  // positions of a part

  bool operator==(const WeightGradientPlan&) const = default;
};
// For factors of f32 that keep their digits; empty where cuDNN or a product is used. Shapes alone decide.
std::optional<WeightGradientPlan> plan_weight_gradient(const LibraryCall& call, const GpuModel& model);
std::string describe(const WeightGradientPlan& plan);  // "tiles of 16 by 64, 512 parts of 2048 positions"

void run_weight_gradient(const LibraryCall& call, Gpu& gpu, const WeightGradientPlan& plan);

// out = the sum of parts [count, ...] in order; f32, dense.
void add_gradients(Gpu& gpu, const View& parts, const View& out);

}  // namespace ebb::cuda
