// SPDX-License-Identifier: MIT
#pragma once
#include "cpu/tile/kernels.h"

namespace ebb::cpu {

// Functions of one number, scalar double code shared by all targets: those without a vector form (lgamma and digamma of
// f64, polygamma), and the lanes that a vector form skips (math_gamma-inl.h).
double log_gamma(double x);
double digamma(double x);
double polygamma(double n, double x);

ElementwiseFn special_kernel(Op op, RegType type, unsigned scalar_mask);

}  // namespace ebb::cpu
