#pragma once
#include <cstddef>
#include <cstdint>

// The inner loops of convolutions, compiled for every Highway target. T is float or double.
namespace ebb::cpu {

// rows × vectors of a result: c[m][v·lanes + l] += Σ_k a[k·rows + m] · x[offset[k] + base[v] + l].
// The window of an image lies where it lies: `offset` walks through channels and taps, `base` through positions, and no
// matrix of windows is ever made.
template <class T>
struct WindowTile {
  int rows, vectors;
  void (*run)(std::int64_t depth, const T* a, const T* x, const std::int64_t* offset, const std::int64_t* base, T* c,
              std::int64_t c_stride);
};

// Sums along positions, for the gradient to the windows. For lines p < lines of `length` positions each:
//   c[k][m] += Σ_p Σ_j g[(p·length + j)·channels + m] · x[offset[k] + p·pitch + j],   m < channels = vectors·lanes.
template <class T>
struct CorrelationTile {
  int taps, channels;
  void (*run)(std::int64_t lines, std::int64_t length, const T* g, const T* x, std::int64_t pitch,
              const std::int64_t* offset, T* c, std::int64_t c_stride);
};

template <class T>
struct WindowKernels {
  int lanes;
  WindowTile<T> tiles[4];  // by rows, the highest first
  CorrelationTile<T> correlation;
  // Σ_p Σ_j g[p·length + j]·x[p·pitch + j]: what is left when there is one channel.
  T (*dot)(std::int64_t lines, std::int64_t length, const T* g, const T* x, std::int64_t pitch);
};

template <class T>
const WindowKernels<T>& window_kernels();

}  // namespace ebb::cpu
