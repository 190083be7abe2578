// SPDX-License-Identifier: MIT
#include "cpu/sweep/layout.h"

namespace ebb::cpu {

Layout layout_of(const std::vector<std::int64_t>& dims, std::size_t from, std::size_t to, const Strides& strides) {
  Layout l;
  for (std::size_t d = from; d < to; ++d) {
    const std::int64_t size = dims[d], stride = strides[static_cast<int>(d)];
    if (size == 1) continue;
    if (l.rank > 0 && l.strides[l.rank - 1] == stride * size) {
      l.sizes[l.rank - 1] *= size;
      l.strides[l.rank - 1] = stride;
      continue;
    }
    l.sizes[l.rank] = size;
    l.strides[l.rank++] = stride;
  }
  return l;
}

}  // namespace ebb::cpu
