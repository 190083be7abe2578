// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "backend/call.h"
#include "calls/convolution.h"
#include "cuda/library/cudnn_convolution.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// A convolution or the gradient of its images by kernels/direct.cuh: channels and positions of the result per thread,
// and channels of the source at a time, which decide the order of sums.
struct DirectPlan {
  int channels = 4, positions = 4, deep = 4;

  bool operator==(const DirectPlan&) const = default;
};
// Windows of one channel each, which leave tensor cores and tiles of products empty, and gradients of images in exact
// f32 with strides or few channels. Empty: by cuDNN or products. Shapes alone decide.
std::optional<DirectPlan> plan_direct_convolution(ConvolutionResult result, const ConvCall& call, const View& x,
                                                  const View& w, const View& y, const GpuModel& model);
std::string describe(const DirectPlan& plan);  // "direct: 4 channels of 4 positions per thread"

// The bias, if it has data, is added to y.
void run_direct_convolution(Gpu& gpu, ConvolutionResult result, const ConvCall& call, const View& x, const View& w,
                            const View& y, const View& bias, const DirectPlan& plan);

// The gradient of windows of one channel each: taps per block, and parts of the positions, added in order.
struct DepthwisePlan {
  int taps = 9;
  std::int64_t each = 0, parts = 1;  // positions of a part

  bool operator==(const DepthwisePlan&) const = default;
};
std::optional<DepthwisePlan> plan_depthwise_gradient(const ConvCall& call, const View& x, const View& w, const View& y,
                                                     const GpuModel& model);
std::string describe(const DepthwisePlan& plan);  // "9 taps per block, 254 parts of 4096 positions"

void run_depthwise_gradient(Gpu& gpu, const ConvCall& call, const View& x, const View& w, const View& y,
                            const DepthwisePlan& plan);

}  // namespace ebb::cuda
