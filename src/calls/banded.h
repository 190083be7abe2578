// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>

#include "graph/node.h"

// weighted_gather whose weights are products of a banded matrix per axis, as other sizes of images have: x
// [P, n_1, ..., n_k, inner] -> y [P, m_1, ..., m_k, inner],
//   y[p, i_1, ..., c] = Σ w_1[i_1, t_1]···w_k[i_k, t_k]·x[p, first_1[i_1] + t_1, ..., c]   over t_a < count_a[i_a].
// The index (i64) has pairs (first, count), the weights (in the compute dtype of x) `taps` numbers per row, zeros
// behind its own: for each axis those of all rows of the matrix, then of its transpose. So a call and its gradient
// differ in one flag.
namespace ebb {

struct BandedCall {
  using Pair = std::array<std::int64_t, 2>;  // of the matrix, of its transpose
  std::int64_t axes = 0;
  std::array<Pair, 3> taps{};
  bool transposed = false;  // x and y change places

  bool operator==(const BandedCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("axes", axes);
    visit("taps", taps[0]);
    visit("taps_1", taps[1]);
    visit("taps_2", taps[2]);
    visit("transposed", transposed);
  }
};
inline bool is_banded(const Attrs& weighted_gather) { return weighted_gather.options != nullptr; }

// The matrix of an axis as it is applied to x, and where in the index and the weights it is.
struct BandedAxis {
  std::int64_t rows, columns, taps, index_at, weight_at;
};
inline BandedAxis banded_axis(const BandedCall& call, int axis, const Shape& x, const Shape& y) {
  BandedAxis found{};
  std::int64_t index_at = 0, weight_at = 0;
  for (int a = 0; a <= axis; ++a) {
    for (const bool back : {false, true}) {
      const bool of_y = back == call.transposed;
      const std::int64_t rows = (of_y ? y : x)[a + 1], taps = call.taps[static_cast<std::size_t>(a)][back];
      if (of_y) found = {rows, x[a + 1], taps, index_at, weight_at};
      index_at += 2 * rows;
      weight_at += rows * taps;
    }
  }
  return found;
}

}  // namespace ebb
