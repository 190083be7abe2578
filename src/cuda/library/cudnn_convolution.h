// SPDX-License-Identifier: MIT
#pragma once
#include "backend/call.h"
#include "calls/convolution.h"
#include "cuda/library/cudnn.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// Which of x, w and y of a convolution is computed from the other two.
enum class ConvolutionResult : std::uint8_t { y, x, w };

// Runs it by cuDNN, with deterministic algorithms only; factors of f32 are not rounded unless set_tf32. w is dense, x and y
// have any strides, and y may be f32 where the others are halves. Returns false, having done nothing, if there is no
// cuDNN or it has no algorithm for it.
bool run_by_cudnn(Gpu& gpu, ConvolutionResult result, const ConvCall& call, const View& x, const View& w,
                  const View& y);

}  // namespace ebb::cuda
