// SPDX-License-Identifier: MIT
#pragma once
#include "sweep/program.h"

// Names of functions of the prelude: a plan asks whether there is one, the printer what it is called.
namespace ebb::cuda {

constexpr bool is_real(RegType t) { return t == RegType::f32 || t == RegType::f64; }
constexpr bool is_mask(RegType t) { return t == RegType::m32 || t == RegType::m64; }

// Computes op on f32 to 2^-16 in few instructions; null where there is none.
const char* quick_function(Op op);
// Computes op on Halves, rounded once; null where there is none.
const char* halves_function(Op op);

}  // namespace ebb::cuda
