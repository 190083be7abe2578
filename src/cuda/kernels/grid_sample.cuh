// SPDX-License-Identifier: MIT
// grid_sample and its gradients: taps are found from the grid in registers, see calls/grid_sample.h. The gradient of
// the image is gathered by its elements, from points sorted by the cell between elements that they lie in: those of a
// cell in the order of the grid.
#pragma once
#include "cuda/kernels/args/grid_sample.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i32 K;
constexpr int kAxes = 2, kTaps = 2, kLanes = 1, kRows = kGridChannels;
constexpr bool kReflects = false, kClamps = false;
#endif

using Args = GridArgs<T, A, K>;
constexpr int kAll = kAxes == 3 ? kTaps * kTaps * kTaps : kTaps * kTaps;

EBB f32 rint_of(f32 x) { return rintf(x); }
EBB f64 rint_of(f64 x) { return rint(x); }
EBB f32 fused(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
EBB f64 fused(f64 a, f64 b, f64 c) { return fma(a, b, c); }

EBB f32 number(const GridNumber& x, f32) { return x.narrow; }
EBB f64 number(const GridNumber& x, f64) { return x.wide; }
EBB A number(const GridNumber& x) { return number(x, (A)0); }

// Taps along one axis: places, weights, and derivatives of the weights to the coordinate.
struct Line {
  A place[kTaps], weight[kTaps], slope[kTaps];
};
// Its places as integers; -1 outside.
struct Places {
  K at[kTaps];
};

// A place brought into the picture, as the padding says; slope: times its derivative. NaN stays.
EBB A inside(const GridSide& side, A x, A& slope) {
  if (kReflects) {
    const A span = number(side.span), shift = number(side.shift);
    if (span == 0) {
      slope = 0;
      return x * 0;
    }
    const A from_low = x - shift, far = from_low < 0 ? -from_low : from_low;
    const A turns = floor_of(far / span), rest = fused(-turns, span, far), half = turns * (A)0.5;
    const bool odd = floor_of(half) != half;
    x = (odd ? span - rest : rest) + shift;
    if (odd != (from_low < 0)) slope = -slope;
  }
  if (kClamps) {
    const A last = number(side.last);
    if (x <= 0 || x >= last) slope = 0;
    x = x <= 0 ? (A)0 : x >= last ? last : x;
  }
  return x;
}

EBB Line line_at(const GridSide& side, A g) {
  Line line;
  A x = fused(g + 1, number(side.scale), number(side.shift)), slope = number(side.scale);
  if (!kReflects) {
    const A least = (A)-kGridReach, most = number(side.last) + (A)kGridReach;
    x = x < least ? least : x > most ? most : x;
  }
  if (kTaps < 4) x = inside(side, x, slope);
  if (kTaps == 1) {
    line.place[0] = rint_of(x);
    line.weight[0] = x == x ? (A)1 : x;
    line.slope[0] = 0;
  } else if (kTaps == 2) {
    const A low = floor_of(x), t = x - low;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      line.place[k] = low + (A)k;
      line.weight[k] = k == 0 ? 1 - t : t;
      line.slope[k] = k == 0 ? -slope : slope;
    }
  } else {
    // Keys' kernel with a = -0.75 at the distances 1 + t, t, 1 - t and 2 - t.
    const A a = (A)-0.75, low = floor_of(x), t = x - low;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      const A s = k < 2 ? t + (A)(1 - k) : (A)(k - 1) - t;
      const bool far = k == 0 || k == 3;
      const A cube = far ? a : a + 2, square = far ? -5 * a : -(a + 3), linear = far ? 8 * a : (A)0;
      line.weight[k] = fused(fused(fused(cube, s, square), s, linear), s, far ? -4 * a : (A)1);
      line.slope[k] = fused(fused(3 * cube, s, 2 * square), s, linear) * (k < 2 ? slope : -slope);
      A unused = 0;
      line.place[k] = inside(side, low + (A)(k - 1), unused);
    }
  }
  return line;
}

EBB void lines_at(const Args& a, i64 point, Line (&lines)[kAxes]) {
#pragma unroll
  for (int d = 0; d < kAxes; ++d) lines[d] = line_at(a.sides[d], load(a.grid[point * kAxes + d]));
}

// The tap of each axis that tap k of a point is made of, the grid's first axis fastest.
EBB int tap_of(int k, int axis) { return axis == 0 ? k % kTaps : axis == 1 ? k / kTaps % kTaps : k / (kTaps * kTaps); }

EBB void places_at(const Args& a, const Line (&lines)[kAxes], Places (&places)[kAxes]) {
#pragma unroll
  for (int d = 0; d < kAxes; ++d) {
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      const A place = lines[d].place[k];
      places[d].at[k] = place >= 0 && place <= number(a.sides[d].last) ? (K)place : (K)-1;
    }
  }
}

// Where in a plane tap k is; -1 outside.
EBB K place_of(const Args& a, const Places (&places)[kAxes], int k) {
  K at = 0;
  bool here = true;
#pragma unroll
  for (int d = kAxes - 1; d >= 0; --d) {
    const K place = places[d].at[tap_of(k, d)];
    here = here && place >= 0;
    at = at * (K)a.sides[d].size + place;
  }
  return here ? at : (K)-1;
}
EBB A weight_of(const Line (&lines)[kAxes], int k) {
  A w = lines[0].weight[tap_of(k, 0)];
#pragma unroll
  for (int d = 1; d < kAxes; ++d) w *= lines[d].weight[tap_of(k, d)];
  return w;
}

// Some channels of an image, and one point or element of each.
struct RowsAt {
  i64 image, row, place;
  int live;
};
EBB RowsAt rows_at(const Args& a, i64 i, i64 length) {
  const i64 groups = (a.channels + kRows - 1) / kRows, task = quotient(i, length), image = quotient(task, groups);
  const i64 first = (task - image * groups) * kRows, left = a.channels - first;
  return {image, image * a.channels + first, i - task * length, (int)(left < kRows ? left : kRows)};
}

extern "C" __global__ void __launch_bounds__(kThreads) sample(const Args a) {
  EACH(i, a.images * ((a.channels + kRows - 1) / kRows) * a.points) {
    const RowsAt to = rows_at(a, i, a.points);
    Line lines[kAxes];
    lines_at(a, to.image * a.points + to.place, lines);
    Places places[kAxes];
    places_at(a, lines, places);
    A sum[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] = 0;
#pragma unroll
    for (int k = 0; k < kAll; ++k) {
      const K at = place_of(a, places, k);
      const A weight = weight_of(lines, k);
      const T* const from = a.x + to.row * a.elements + at;
      A x[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) x[r] = at >= 0 && r < to.live ? load(from[r * a.elements]) : (A)0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] = fused(weight, x[r], sum[r]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < to.live) a.y[(to.row + r) * a.points + to.place] = store(sum[r]);
    }
  }
}

// kLanes lanes have the channels of a point in turns; neighbouring lanes have neighbouring points.
extern "C" __global__ void __launch_bounds__(kThreads) grid_gradient(const Args a) {
  constexpr int kPoints = 32 / kLanes;  // of a warp
  const int in_warp = threadIdx.x & 31, lane = in_warp / kPoints;
  const i64 count = a.images * a.points, warps = (i64)gridDim.x * (kThreads / 32);
  for (i64 warp = (i64)blockIdx.x * (kThreads / 32) + (threadIdx.x >> 5); warp * kPoints < count; warp += warps) {
    const i64 i = warp * kPoints + in_warp % kPoints;
    const bool live = i < count;
    const i64 point = live ? i : 0, image = quotient(point, a.points);
    Line lines[kAxes];
    lines_at(a, point, lines);
    const T* const x = a.x + image * a.channels * a.elements;
    const T* const y = a.y + image * a.channels * a.points + (point - image * a.points);
    Places places[kAxes];
    places_at(a, lines, places);
    K at[kAll];
    A dots[kAll];
#pragma unroll
    for (int k = 0; k < kAll; ++k) {
      at[k] = place_of(a, places, k);
      dots[k] = 0;
    }
#pragma unroll 2
    for (i64 c = lane; c < a.channels; c += kLanes) {
      const A g = load(y[c * a.points]);
#pragma unroll
      for (int k = 0; k < kAll; ++k) dots[k] = fused(g, at[k] >= 0 ? load(x[c * a.elements + at[k]]) : (A)0, dots[k]);
    }
    A sum[kAxes];
#pragma unroll
    for (int d = 0; d < kAxes; ++d) sum[d] = 0;
#pragma unroll
    for (int k = 0; k < kAll; ++k) {
#pragma unroll
      for (int d = 16; d >= kPoints; d /= 2) dots[k] += __shfl_xor_sync(0xffffffffu, dots[k], d);
#pragma unroll
      for (int d = 0; d < kAxes; ++d) {
        A w = lines[d].slope[tap_of(k, d)];
#pragma unroll
        for (int e = 0; e < kAxes; ++e) {
          if (e != d) w *= lines[e].weight[tap_of(k, e)];
        }
        sum[d] = fused(dots[k], w, sum[d]);
      }
    }
    if (!live || lane != 0) continue;
#pragma unroll
    for (int d = 0; d < kAxes; ++d) a.gradient[point * kAxes + d] = store(sum[d]);
  }
}

// ---- the gradient of the image --------------------------------------------------------------------------------------

// The cell of a point begins at the first element that it reads, or before the image's first one; it reads kTaps along
// an axis at most, also where padding turns it around. Of one tap cells are elements.
extern "C" __global__ void __launch_bounds__(kThreads) find_cells(const Args a) {
  EACH(point, a.images * a.points) {
    Line lines[kAxes];
    lines_at(a, point, lines);
    i64 cell = 0;
    bool here = true;
#pragma unroll
    for (int d = kAxes - 1; d >= 0; --d) {
      A low = lines[d].place[0];
#pragma unroll
      for (int k = 1; k < kTaps; ++k) low = lines[d].place[k] < low ? lines[d].place[k] : low;
      here = here && low >= (A)(1 - kTaps) && low <= number(a.sides[d].last);
      cell = cell * (a.sides[d].size + kTaps - 1) + (here ? (i64)low + kTaps - 1 : 0);
    }
    a.keys[point] = (K)(here ? cell : a.cells);
  }
}

// A point is where all cells begin behind that of the point before it, up to its own; a gap of many cells is the whole
// block's.
constexpr i64 kShortGap = 16;
extern "C" __global__ void __launch_bounds__(kThreads) find_starts(const Args a) {
  __shared__ i64 from[kThreads], to[kThreads], value[kThreads];
  __shared__ u32 gaps;
  const i64 items = a.points + 1, count = a.images * items;
  for (i64 begin = (i64)blockIdx.x * kThreads; begin < count; begin += (i64)gridDim.x * kThreads) {
    if (threadIdx.x == 0) gaps = 0;
    __syncthreads();
    const i64 i = begin + threadIdx.x;
    if (i < count) {
      const i64 image = quotient(i, items), point = i - image * items;
      const K* const cells = a.sorted + image * a.points + point;
      const i64 start = image * (a.cells + 1);
      const i64 first = start + (point > 0 ? (i64)cells[-1] + 1 : 0);
      const i64 last = start + (point < a.points ? (i64)cells[0] : a.cells);
      if (last - first < kShortGap) {
        for (i64 c = first; c <= last; ++c) a.starts[c] = point;
      } else {
        const u32 gap = atomicAdd(&gaps, 1u);
        from[gap] = first;
        to[gap] = last;
        value[gap] = point;
      }
    }
    __syncthreads();
    for (u32 gap = 0; gap < gaps; ++gap) {
      for (i64 c = from[gap] + threadIdx.x; c <= to[gap]; c += kThreads) a.starts[c] = value[gap];
    }
    __syncthreads();
  }
}

// The places of an element along the axes, and the points around it: runs of cells that are neighbours in the order.
constexpr int kRuns = kAxes == 3 ? kTaps * kTaps : kTaps;
struct Around {
  i64 place[kAxes], begin[kRuns], end[kRuns], count;
};
EBB Around points_around(const Args& a, i64 image, i64 element) {
  Around around;
  i64 rest = element;
#pragma unroll
  for (int d = 0; d < kAxes; ++d) {
    const i64 next = quotient(rest, a.sides[d].size);
    around.place[d] = rest - next * a.sides[d].size;
    rest = next;
  }
  const i64* const starts = a.starts + image * (a.cells + 1);
  around.count = 0;
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    i64 cell = kAxes == 3 ? around.place[kAxes - 1] + run / kTaps : 0;
    cell = cell * (a.sides[1].size + kTaps - 1) + around.place[1] + run % kTaps;
    cell = cell * (a.sides[0].size + kTaps - 1) + around.place[0];
    around.begin[run] = starts[cell];
    around.end[run] = starts[cell + kTaps];
    around.count += around.end[run] - around.begin[run];
  }
  return around;
}

// sum += points lane, lane + step, ... of each run around an element of some channels
EBB void add_points_around(const Args& a, const RowsAt& to, const Around& around, int lane, int step, A (&sum)[kRows]) {
  const i64 first = to.image * a.points;
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    for (i64 p = around.begin[run] + lane; p < around.end[run]; p += step) {
      const i64 point = a.order[first + p];
      Line lines[kAxes];
      lines_at(a, first + point, lines);
      A weight = 1;
#pragma unroll
      for (int d = 0; d < kAxes; ++d) {
        A of_axis = 0;
#pragma unroll
        for (int k = 0; k < kTaps; ++k)
          of_axis += (i64)lines[d].place[k] == around.place[d] ? lines[d].weight[k] : (A)0;
        weight *= of_axis;
      }
      const T* const from = a.y + to.row * a.points + point;
      A y[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) y[r] = r < to.live ? load(from[r * a.points]) : (A)0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] = fused(weight, y[r], sum[r]);
    }
  }
}
EBB void put_sums(const Args& a, const RowsAt& to, const A (&sum)[kRows]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r < to.live) a.x[(to.row + r) * a.elements + to.place] = store(sum[r]);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) add_points(const Args a) {
  EACH(i, a.images * ((a.channels + kRows - 1) / kRows) * a.elements) {
    const RowsAt to = rows_at(a, i, a.elements);
    const Around around = points_around(a, to.image, to.place);
    if (around.count > kManyGridPoints) {
      if (to.row == to.image * a.channels) a.many[atomicAdd(a.many_count, 1u)] = to.image * a.elements + to.place;
      continue;
    }
    A sum[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] = 0;
    add_points_around(a, to, around, 0, 1, sum);
    put_sums(a, to, sum);
  }
}
extern "C" __global__ void __launch_bounds__(kThreads) add_many_points(const Args a) {
  const i64 groups = (a.channels + kRows - 1) / kRows, tasks = *a.many_count * groups;
  const int lane = threadIdx.x & 31;
  const i64 warps = (i64)gridDim.x * (kThreads / 32);
  for (i64 task = (i64)blockIdx.x * (kThreads / 32) + (threadIdx.x >> 5); task < tasks; task += warps) {
    const i64 which = quotient(task, groups), group = task - which * groups,
              image = quotient(a.many[which], a.elements);
    const RowsAt to =
        rows_at(a, (image * groups + group) * a.elements + a.many[which] - image * a.elements, a.elements);
    A sum[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] = 0;
    add_points_around(a, to, points_around(a, image, to.place), lane, 32, sum);
#pragma unroll
    for (int d = 16; d > 0; d /= 2) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], d);
    }
    if (lane == 0) put_sums(a, to, sum);
  }
}

}  // namespace ebb::cuda
