// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

// The inner loops of distances, compiled for every Highway target. T is float or double.
namespace ebb::cpu {

inline constexpr std::int64_t kDistanceRows = 4, kDistanceColumns = 64;  // of a block
inline constexpr std::int64_t kDistanceRun = 256;   // terms of a sum that are added in T one after the other
inline constexpr std::int64_t kDistanceWidth = 16;  // rows of gradients are padded to a multiple of this

template <class T>
struct DistanceKernels {
  // out[i][j] = Σ_k |a[i·depth + k] − panel[k·kDistanceColumns + j]| (p = 1), for rows i < rows <= kDistanceRows and
  // all columns; or √Σ_k (...)² (p = 2). False where a sum of squares may have left the range in which it is exact.
  using Block = bool (*)(std::int64_t rows, std::int64_t depth, const T* a, const T* panel, T* out);
  Block block[2];  // by p
  // As for p = 2, at any range: differences whose squares overflow or underflow T are scaled first.
  Block any_range;

  // sums[i·width + k] += Σ_j weight[i·stride + j]·(a − b), p = 2, or Σ_j weight·sign(a − b), p = 1; a and b are
  // [.., width], dense. Calls for one row have multiples of kDistanceRun columns, the last one any number.
  using Pull = void (*)(std::int64_t rows, std::int64_t width, const T* a, const T* b, const T* weight,
                        std::int64_t stride, std::int64_t count, double* sums);
  Pull pull[2];
  // w[i] /= d[i], and 0 where the reciprocal of d would be infinite.
  void (*divide)(std::int64_t count, const T* d, T* w);
};

template <class T>
const DistanceKernels<T>& distance_kernels();

}  // namespace ebb::cpu
