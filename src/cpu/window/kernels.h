// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

// The inner loops of convolutions, compiled for every Highway target. T is float or double.
namespace ebb::cpu {

// rows × vectors of a result: c[m][v·lanes + l] = start[m] + Σ_k a[k·rows + m] · x[offset[k] + base[v] + l], or, if
// there is no start, with the present content of c in its place.
// Windows of an image are read in place: `offset` runs over channels and taps, `base` over positions, and no matrix of
// windows is ever built.
template <class T>
struct WindowTile {
  using Run = void (*)(std::int64_t depth, const T* a, const T* x, const std::int64_t* offset, const std::int64_t* base,
                       const T* start, T* c, std::int64_t c_stride);
  static constexpr int kMost = 12;
  int rows, vectors;  // the most at a time
  Run run[kMost];     // [n − 1]: of n vectors; `exact` not set: of a few more
  bool exact;
};

// Sums along positions, for the gradient to the windows. For lines p < lines of `length` positions each:
//   c[k][m] += Σ_p Σ_j g[(p·length + j)·channels + m] · x[offset[k] + p·pitch + j],   m < channels = vectors·lanes.
// The taps may have to lie in columns: where `column` is not 1, offset[i·column + k] − offset[i·column] is the same for
// every i.
template <class T>
struct CorrelationTile {
  int taps, channels, column;
  void (*run)(std::int64_t lines, std::int64_t length, const T* g, const T* x, std::int64_t pitch,
              const std::int64_t* offset, T* c, std::int64_t c_stride);
};

// As wide as T, so that they share a mask.
template <class T>
using PoolIndex = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <class T>
struct WindowKernels {
  int lanes;
  WindowTile<T> tiles[4];          // by rows, the highest first
  CorrelationTile<T> correlation;  // of two vectors of channels
  CorrelationTile<T> one_vector;   // of one; not on all targets
  // Σ_p Σ_j g[p·length + j]·x[p·pitch + j]: the case of a single channel.
  T (*dot)(std::int64_t lines, std::int64_t length, const T* g, const T* x, std::int64_t pitch);

  // Rows between zeros: to[i·pitch + left + j] = x[i·row + j·step] for j < count, and zero in the rest of `pitch`.
  void (*pad_rows)(std::int64_t rows, const T* x, std::int64_t row, std::int64_t step, std::int64_t left,
                   std::int64_t count, std::int64_t pitch, T* to);
  // to[j·to_stride + m] = x[m·stride + j], m < rows, j < count.
  void (*transpose)(std::int64_t rows, std::int64_t count, const T* x, std::int64_t stride, T* to,
                    std::int64_t to_stride);

  // Where x[i·stride] is larger than largest[i], or the first NaN, or there was no element yet (where[i] < 0): it
  // becomes largest[i], and where[i] = tap. May read as far as x[count·stride).
  void (*take_larger)(std::int64_t count, const T* x, std::int64_t stride, PoolIndex<T> tap, T* largest,
                      PoolIndex<T>* where);
};

template <class T>
const WindowKernels<T>& window_kernels();

}  // namespace ebb::cpu
