// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "ebb/shape.h"

namespace ebb::cpu {

// An operand's or output's layout over the space: neighbouring dimensions that step as one are merged.
struct Layout {
  int rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  std::array<std::int64_t, Shape::kMaxRank> strides{};
};
Layout layout_of(const std::vector<std::int64_t>& dims, std::size_t from, std::size_t to, const Strides& strides);
// Adds a dimension inside those of a layout.
void append(Layout& layout, std::int64_t size, std::int64_t stride);

inline bool is_dense(const Layout& l) { return l.rank == 0 || (l.rank == 1 && l.strides[0] == 1); }
inline bool repeats(const Layout& l) {  // one element everywhere
  return std::all_of(l.strides.begin(), l.strides.begin() + l.rank, [](std::int64_t s) { return s == 0; });
}

// Calls run(first element's address, stride, count, done so far) for each piece of the range with one stride.
template <class Run>
void walk(const Layout& l, std::int64_t first, std::int64_t count, Run&& run) {
  if (count <= 0) return;
  if (l.rank == 0) {
    run(std::int64_t{0}, std::int64_t{0}, count, std::int64_t{0});
    return;
  }
  std::array<std::int64_t, Shape::kMaxRank> index{};
  std::int64_t rest = first, address = 0;
  for (int d = l.rank - 1; d > 0; --d) {
    index[d] = rest % l.sizes[d];
    rest /= l.sizes[d];
    address += index[d] * l.strides[d];
  }
  index[0] = rest;
  address += rest * l.strides[0];
  const int inner = l.rank - 1;
  std::int64_t done = 0;
  while (true) {
    const std::int64_t n = std::min(count - done, l.sizes[inner] - index[inner]);
    run(address, l.strides[inner], n, done);
    done += n;
    if (done == count) return;
    address += (n - 1) * l.strides[inner];
    index[inner] += n - 1;
    for (int d = inner; d >= 0; --d) {
      if (++index[d] < l.sizes[d] || d == 0) {
        address += l.strides[d];
        break;
      }
      address -= (l.sizes[d] - 1) * l.strides[d];
      index[d] = 0;
    }
  }
}

}  // namespace ebb::cpu
