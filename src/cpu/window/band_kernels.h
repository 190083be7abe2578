// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cpu/window/grid_kernels.h"

// The inner loops of banded matrices (calls/banded.h), compiled for every Highway target. T is float or double.
namespace ebb::cpu {

template <class T>
struct BandKernels {
  // y[i] = Σ_k weight[k·step + i]·x[first[i] + k] over k < many[i] ≤ taps; tables have room for whole vectors.
  void (*gather)(std::int64_t count, std::int64_t taps, std::int64_t step, const GridIndex<T>* first,
                 const GridIndex<T>* many, const T* weight, const T* x, T* y);
  // y[i] = Σ_k weight[k]·x[k·step + i]
  void (*combine)(std::int64_t count, std::int64_t taps, const T* weight, const T* x, std::int64_t step, T* y);
  // Σ a[i]·b[i]
  T (*dot)(std::int64_t count, const T* a, const T* b);
};
template <class T>
const BandKernels<T>& band_kernels();

}  // namespace ebb::cpu
