// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "ebb/dtype.h"

namespace ebb::cpu {

// Rows of a matrix by their numbers: row k begins at data + number[k]·stride.
template <class T>
struct NumberedRows {
  const T* data;
  std::int64_t stride;
  const std::int64_t* number;
  std::size_t count;
};

// Their sum over `columns` columns, in order and from zero. f32 is added in f64 and rounded once, bf16 in f32.
void sum_rows(float* to, const NumberedRows<float>& rows, std::size_t columns);
void sum_rows(float* to, const NumberedRows<BFloat16>& rows, std::size_t columns);

}  // namespace ebb::cpu
