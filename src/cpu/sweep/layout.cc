// SPDX-License-Identifier: MIT
#include "cpu/sweep/layout.h"

namespace ebb::cpu {

void append(Layout& l, std::int64_t size, std::int64_t stride) {
  if (size == 1) return;
  if (l.rank > 0 && l.strides[l.rank - 1] == stride * size) {
    l.sizes[l.rank - 1] *= size;
    l.strides[l.rank - 1] = stride;
    return;
  }
  l.sizes[l.rank] = size;
  l.strides[l.rank++] = stride;
}

Layout layout_of(const std::vector<std::int64_t>& dims, std::size_t from, std::size_t to, const Strides& strides) {
  Layout l;
  for (std::size_t d = from; d < to; ++d) append(l, dims[d], strides[static_cast<int>(d)]);
  return l;
}

}  // namespace ebb::cpu
