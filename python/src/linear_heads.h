// SPDX-License-Identifier: MIT
#pragma once
#include "bind.h"

namespace ebb::python {

// For PyTorch, which may write into what it is given: the same elements in memory that nothing else uses.
Tensor exclusive(const Tensor& x);

// Log-probabilities and losses from hidden states and an LM head.
void bind_linear_heads(const Api& api);

}  // namespace ebb::python
