// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

// The inner loop of multilabel_margin_loss, compiled for every Highway target. T is float or double.
namespace ebb::cpu {

inline constexpr int kMostOffsets = 4;  // of one pass over the numbers

// Hinges max(0, x_i + b_k) of n numbers x and a few offsets b. A hinge that is NaN counts as open.
template <class T>
struct HingePass {
  const T* x = nullptr;
  std::size_t n = 0;  // up to 1024: summed in T before being summed in double
  const T* offsets = nullptr;
  // For the gradient (null: none): how many hinges of x_i are open, added to the count of earlier passes unless this is
  // the first, and multiplied by the scale if it is the last; 0 stays 0 whatever the scale.
  T* slopes = nullptr;
  bool first = true, last = true;
  T scale = 1;
  std::int64_t* open = nullptr;  // of each offset: how many hinges are open, added
};
// Σ of the hinges, [k - 1] for k offsets. Summed in 16 lanes, whatever the width of vectors.
template <class T>
using HingePassFn = double (*)(const HingePass<T>& pass);

template <class T>
struct HingeKernels {
  HingePassFn<T> value[kMostOffsets], with_slopes[kMostOffsets];
};
template <class T>
const HingeKernels<T>& hinge_kernels();

}  // namespace ebb::cpu
