// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/tile/elements.h"

// Floats of any dtype as f64 and back, each rounded once; `step` in elements.
namespace ebb::cpu {

template <class T>
void read_wide(const T* from, std::int64_t step, double* to, std::int64_t n) {
  if (step == -1 && n > 0) {  // a flipped line: loops over neighbours are vectorised
    read_wide(from - (n - 1), 1, to, n);
    std::reverse(to, to + n);
    return;
  }
  tile_kernels().load(dtype_of_type<T>::value, RegType::f64)(to, from, step, static_cast<std::size_t>(n));
}
template <class T>
void write_wide(const double* from, T* to, std::int64_t step, std::int64_t n) {
  tile_kernels().store(RegType::f64, dtype_of_type<T>::value)(to, step, from, static_cast<std::size_t>(n));
}

}  // namespace ebb::cpu
