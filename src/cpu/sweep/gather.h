// SPDX-License-Identifier: MIT
#pragma once
#include "cpu/model/cpu_model.h"
#include "cpu/sweep/layout.h"

namespace ebb::cpu {

// Pieces so short that one loop call per piece costs more than the loop.
inline bool in_short_pieces(const Layout& l, std::int64_t n) {
  return l.rank > 1 && l.sizes[l.rank - 1] < CpuModel::sweep_short_piece && n > 2 * l.sizes[l.rank - 1];
}

// dst[i] = element first + i of the layout. Some of the innermost dimensions form a pattern of offsets; copies element
// k of all patterns along the dimension around them, then element k + 1: loops as long as that dimension.
template <class T>
void gather(T* dst, const T* src, const Layout& l, std::int64_t first, std::int64_t n) {
  constexpr std::int64_t kMost = 64;
  std::int64_t offsets[kMost], size = 1;
  Layout outer = l;
  offsets[0] = 0;
  do {
    const int d = --outer.rank;
    for (std::int64_t i = l.sizes[d]; i-- > 0;) {
      for (std::int64_t k = 0; k < size; ++k) offsets[i * size + k] = offsets[k] + i * l.strides[d];
    }
    size *= l.sizes[d];
  } while (outer.rank > 1 && size * l.sizes[outer.rank - 1] <= kMost);
  const auto copy = [&](std::int64_t pattern, std::int64_t patterns, std::int64_t from, std::int64_t to) {
    walk(outer, pattern, patterns,
         [&](std::int64_t address, std::int64_t stride, std::int64_t count, std::int64_t done) {
           for (std::int64_t k = from; k < to; ++k) {
             const T* s = src + address + offsets[k];
             T* d = dst + done * size + k - from;
             for (std::int64_t i = 0; i < count; ++i) d[i * size] = s[i * stride];
           }
         });
    dst += patterns * (to - from);
  };
  const std::int64_t last = first + n, begin = (first + size - 1) / size, end = last / size;
  if (begin > end) return copy(end, 1, first - end * size, last - end * size);  // within one pattern
  if (begin * size > first) copy(begin - 1, 1, first - (begin - 1) * size, size);
  copy(begin, end - begin, 0, size);
  if (end * size < last) copy(end, 1, 0, last - end * size);
}

}  // namespace ebb::cpu
