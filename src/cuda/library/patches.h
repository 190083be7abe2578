// SPDX-License-Identifier: MIT
#pragma once
#include "backend/call.h"
#include "cuda/library/cudnn_convolution.h"

namespace ebb::cuda {

// Computes a convolution, or a gradient of one, whose windows are side by side and cover the image, like the patches of
// a vision transformer, as one product, for channels-last images (ConvCall::last). The bias, if any (data not null), is
// added before y is rounded. Returns false, having done nothing, for other windows.
bool run_as_patches(Gpu& gpu, ConvolutionResult result, const ConvCall& call, const View& x, const View& w,
                    const View& y, const View& bias, const char* what);

}  // namespace ebb::cuda
