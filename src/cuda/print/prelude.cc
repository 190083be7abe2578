// SPDX-License-Identifier: MIT
#include "cuda/kernels/texts.h"
#include "cuda/print/sweep_text.h"

namespace ebb::cuda {

const char* prelude() { return texts::prelude; }

}  // namespace ebb::cuda
