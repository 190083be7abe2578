// SPDX-License-Identifier: MIT
// Windows of an axis.
#pragma once
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 P;  // of places, sizes and numbers of elements: 32 bits where they fit, which need half the instructions
#endif

// n / d, of numbers that are not negative.
EBB P quotient_by(P n, P d, i64 word) {
  if (d == 1) return n;
  return sizeof(P) == 4 || (i64)n >> 31 == 0 ? (P)divided_by((u32)n, (u32)(word >> 32), (u32)word & 255) : n / d;
}

struct Range {
  P first, last;  // included
};

// The elements that window i covers.
EBB Range elements_of(const PoolSide& s, P i) {
  const P size = (P)s.size;
  if (s.adaptive) {
    const P outputs = (P)s.outputs;
    return {quotient_by(i * size, outputs, s.by_outputs),
            quotient_by((i + 1) * size + outputs - 1, outputs, s.by_outputs) - 1};
  }
  const P begin = i * (P)s.stride - (P)s.padding, end = begin + (P)s.window;
  return {begin > 0 ? begin : 0, (end < size ? end : size) - 1};
}

// The windows of so many elements that cover element h. Adaptive: (i + 1)*size > h*outputs and i*size < (h +
// 1)*outputs.
EBB Range windows_over(const PoolSide& s, P window, P h) {
  const P outputs = (P)s.outputs, stride = (P)s.stride;
  if (s.adaptive) {
    const P size = (P)s.size;
    return {quotient_by(h * outputs, size, s.by_size), quotient_by((h + 1) * outputs + size - 1, size, s.by_size) - 1};
  }
  const P end = h + (P)s.padding, begin = end - window + 1;
  const P last = quotient_by(end, stride, s.by_stride);
  if (window <= stride) {  // one at most
    const bool covered = end - last * stride < window && last < outputs;
    return {last, covered ? last : last - 1};
  }
  return {begin > 0 ? quotient_by(begin + stride - 1, stride, s.by_stride) : 0, last < outputs ? last : outputs - 1};
}
EBB Range windows_of(const PoolSide& s, P h) { return windows_over(s, (P)s.window, h); }
// Those that may look at element h, and others.
EBB Range windows_near(const PoolSide& s, P h) { return windows_over(s, ((P)s.window - 1) * (P)s.dilation + 1, h); }

// The elements that a window looks at, of those inside.
struct Taps {
  P first;
  int count;
};
EBB Taps taps_of(const PoolSide& s, P i) {
  if (s.adaptive) {
    const Range r = elements_of(s, i);
    return {r.first, (int)(r.last - r.first + 1)};
  }
  const P size = (P)s.size, dilation = (P)s.dilation, window = (P)s.window;
  const P begin = i * (P)s.stride - (P)s.padding, end = begin + (window - 1) * dilation;
  const P before = begin < 0 ? (dilation - 1 - begin) / dilation : 0;
  const P after = end >= size ? (end - size) / dilation + 1 : 0;
  return {begin + before * dilation, (int)(window - before - after)};
}

// Where an element of the result is: of windows, or of the image.
struct Window {
  P plane, row, column;
};
EBB Window window_at(P i, const PoolSide& rows, const PoolSide& columns) {
  const P line = quotient_by(i, (P)columns.outputs, columns.by_outputs);
  const P plane = quotient_by(line, (P)rows.outputs, rows.by_outputs);
  return {plane, line - plane * (P)rows.outputs, i - line * (P)columns.outputs};
}
EBB Window element_at(P i, const PoolSide& rows, const PoolSide& columns) {
  const P line = quotient_by(i, (P)columns.size, columns.by_size);
  const P plane = quotient_by(line, (P)rows.size, rows.by_size);
  return {plane, line - plane * (P)rows.size, i - line * (P)columns.size};
}

template <class Args>
EBB i64 plane_offset(const Args& a, P plane) {
  const i64 image = quotient(plane, a.channels);
  return image * a.step_n + (plane - image * a.channels) * a.step_c;
}

}  // namespace ebb::cuda
