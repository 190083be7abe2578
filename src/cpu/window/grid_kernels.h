// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <type_traits>

// The inner loops of grid_sample, compiled for every Highway target: points of a block one after the other, taps of a
// point in planes of a block each. T is float or double.
namespace ebb::cpu {

inline constexpr std::int64_t kGridBlock = 256;  // points at a time, a multiple of all lanes; chosen, not measured

// As wide as T: a gather takes one of each.
template <class T>
using GridIndex = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

// See GridAxis in calls/grid_sample.h; in the order of a grid, the last axis of the image first.
template <class T>
struct GridSides {
  struct Side {
    T last, scale, shift, span;
    T least, most;  // places are clamped to this
    GridIndex<T> step;
  };
  Side side[3];
  bool reflects, clamps;
};

template <class T>
struct GridKernels {
  // at[k·kGridBlock + i] and weight[…], the taps k of points i < count; −1 for a tap outside. `grid` and both results
  // have room for whole vectors.
  void (*find)(const GridSides<T>& sides, const T* grid, std::int64_t count, GridIndex<T>* at, T* weight);
  // y[i] = Σ_k weight[k][i]·x[at[k][i]], x[−1] = 0
  void (*gather)(std::int64_t count, const GridIndex<T>* at, const T* weight, const T* x, T* y);
  // x[at[k][i]] += weight[k][i]·y[i], in the order of i
  void (*scatter)(std::int64_t count, const GridIndex<T>* at, const T* weight, const T* y, T* x);
  // dots[k][i] += y[i]·x[at[k][i]]
  void (*add_dots)(std::int64_t count, const GridIndex<T>* at, const T* x, const T* y, T* dots);
  // gradient[i][a] = Σ_k dots[k][i]·∂weight[k][i]/∂grid[i][a]
  void (*combine)(const GridSides<T>& sides, const T* grid, std::int64_t count, const T* dots, T* gradient);
};

// Points along 2 or 3 axes that read 1, 2 or 4 elements along each.
template <class T>
const GridKernels<T>& grid_kernels(std::int64_t axes, std::int64_t taps);

}  // namespace ebb::cpu
