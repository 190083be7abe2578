// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "cuda/plan/device_functions.h"
#include "sweep/program.h"

// Fragments of CUDA C++ for single instructions.
namespace ebb::cuda {

const char* type_text(RegType type);   // of a value: masks are bool
const char* memory_text(DType dtype);  // of an element in memory
const char* wide_text(RegType type);   // reductions are computed in f64 or i64
const char* reduction_text(Op op);     // Plus, Times, Most, Least

std::string converted(const std::string& x, RegType from, RegType to);
std::string loaded(const std::string& element, DType dtype, RegType type);
std::string stored(const std::string& x, RegType type, DType dtype);
std::string rounded(const std::string& x, DType dtype);
// op of a, b, c, which are of type `type` (for where: b and c are, and a is a mask).
std::string computed(Op op, RegType type, const std::string& a, const std::string& b, const std::string& c);

}  // namespace ebb::cuda
