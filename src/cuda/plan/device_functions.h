// SPDX-License-Identifier: MIT
#pragma once
#include "sweep/program.h"

// Names of functions of the prelude: a plan asks whether one exists, the printer for its name.
namespace ebb::cuda {

constexpr bool is_real(RegType t) { return t == RegType::f32 || t == RegType::f64; }
constexpr bool is_mask(RegType t) { return t == RegType::m32 || t == RegType::m64; }

// Computes op on f32 to 2^-16 in few instructions; null if there is none.
const char* quick_function(Op op);
// Computes op on Halves, rounded once; null if there is none.
const char* halves_function(Op op);

}  // namespace ebb::cuda
