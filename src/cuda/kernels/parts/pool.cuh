// SPDX-License-Identifier: MIT
// Windows of an axis.
#pragma once
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

struct Range {
  i64 first, last;  // included
};

// The elements that window i covers.
EBB Range elements_of(const PoolSide& s, i64 i) {
  if (s.adaptive) return {quotient(i * s.size, s.outputs), quotient((i + 1) * s.size + s.outputs - 1, s.outputs) - 1};
  const i64 begin = i * s.stride - s.padding, end = begin + s.window;
  return {begin > 0 ? begin : 0, (end < s.size ? end : s.size) - 1};
}

// The windows that cover element h. Adaptive: (i + 1)*size > h*outputs and i*size < (h + 1)*outputs.
EBB Range windows_of(const PoolSide& s, i64 h) {
  if (s.adaptive) return {quotient(h * s.outputs, s.size), quotient((h + 1) * s.outputs + s.size - 1, s.size) - 1};
  const i64 end = h + s.padding, begin = end - s.window + 1;
  const i64 last = quotient(end, s.stride);
  if (s.window <= s.stride) {  // one at most
    const bool covered = end - last * s.stride < s.window && last < s.outputs;
    return {last, covered ? last : last - 1};
  }
  return {begin > 0 ? quotient(begin + s.stride - 1, s.stride) : 0, last < s.outputs ? last : s.outputs - 1};
}

// The elements that a window looks at, of those inside.
struct Taps {
  i64 first;
  int count;
};
EBB Taps taps_of(const PoolSide& s, i64 i) {
  if (s.adaptive) {
    const Range r = elements_of(s, i);
    return {r.first, (int)(r.last - r.first + 1)};
  }
  const i64 begin = i * s.stride - s.padding, end = begin + (s.window - 1) * s.dilation;
  const i64 before = begin < 0 ? quotient(s.dilation - 1 - begin, s.dilation) : 0;
  const i64 after = end >= s.size ? quotient(end - s.size, s.dilation) + 1 : 0;
  return {begin + before * s.dilation, (int)(s.window - before - after)};
}

// The windows that may look at element h, and others.
EBB Range windows_near(const PoolSide& s, i64 h) {
  PoolSide wide = s;
  wide.window = (s.window - 1) * s.dilation + 1;
  return windows_of(wide, h);
}

// Which window an element of the result belongs to.
struct Window {
  i64 plane, row, column;
};
EBB Window window_at(i64 i, i64 rows, i64 columns) {
  const i64 line = quotient(i, columns), plane = quotient(line, rows);
  return {plane, line - plane * rows, i - line * columns};
}

template <class Args>
EBB i64 plane_offset(const Args& a, i64 plane) {
  const i64 image = quotient(plane, a.channels);
  return image * a.step_n + (plane - image * a.channels) * a.step_c;
}

}  // namespace ebb::cuda
