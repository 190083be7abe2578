// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/ops.h"

// Shared by dft_loss and its form with an LM head.
namespace ebb {

// −sg(p)·log p of log-probabilities; 0 where p is 0, whatever its logarithm.
inline Tensor dft_terms(const Tensor& log_p) {
  const Tensor p = exp(stop_gradient(log_p));
  return -(p * where(p == 0, 0, log_p));
}

}  // namespace ebb
