// SPDX-License-Identifier: MIT
#pragma once
#include "backend/call.h"
#include "cuda/library/cudnn_convolution.h"

namespace ebb::cuda {

// A convolution, or a gradient of one, whose windows lie side by side and cover the image, as the patches of a vision
// transformer do: one product, of images whose channels lie last (ConvCall::last). The bias, where there is one (data
// not null), is added before y is rounded. Returns false, with nothing done, for other windows.
bool run_as_patches(Gpu& gpu, ConvolutionResult result, const ConvCall& call, const View& x, const View& w,
                    const View& y, const View& bias, const char* what);

}  // namespace ebb::cuda
