// SPDX-License-Identifier: MIT
#include "cpu/window/grid_kernels.h"

#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/window/grid_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Side = typename GridSides<T>::Side;

constexpr int power(int base, int exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }

// Maps a place into the picture according to the padding; slope: multiplied by its derivative. NaN stays NaN.
template <class D, class V, class T>
HWY_INLINE V inside(D d, const GridSides<T>& sides, const Side<T>& side, V x, V& slope) {
  if (sides.reflects) {
    if (side.span == 0) {
      slope = hn::Zero(d);
      return hn::Mul(x, hn::Zero(d));
    }
    const V from_low = hn::Sub(x, hn::Set(d, side.shift)), far = hn::Abs(from_low), span = hn::Set(d, side.span);
    const V turns = hn::Floor(hn::Div(far, span)), half = hn::Mul(turns, hn::Set(d, T{0.5}));
    const V rest = hn::NegMulAdd(turns, span, far);
    const auto odd = hn::Ne(hn::Floor(half), half), before = hn::Lt(from_low, hn::Zero(d));
    x = hn::Add(hn::IfThenElse(odd, hn::Sub(span, rest), rest), hn::Set(d, side.shift));
    slope = hn::IfThenElse(hn::Xor(odd, before), hn::Neg(slope), slope);
  }
  if (sides.clamps) {
    const V zero = hn::Zero(d), last = hn::Set(d, side.last);
    const auto low = hn::Le(x, zero), high = hn::Ge(x, last);
    x = hn::IfThenElse(low, zero, hn::IfThenElse(high, last, x));
    slope = hn::IfThenElse(hn::Or(low, high), zero, slope);
  }
  return x;
}

// Taps along one axis: places, weights, and derivatives of the weights to the coordinate.
template <int kTaps, class V>
struct Line {
  V place[kTaps], weight[kTaps], slope[kTaps];
  HWY_INLINE Line() {}
};

template <int kTaps, class D, class T, class V>
HWY_INLINE void find_line(D d, const GridSides<T>& sides, const Side<T>& side, V g, Line<kTaps, V>& line) {
  const V one = hn::Set(d, T{1});
  V x = hn::MulAdd(hn::Add(g, one), hn::Set(d, side.scale), hn::Set(d, side.shift));
  V slope = hn::Set(d, side.scale), unused = slope;
  if (!sides.reflects) {
    const V least = hn::Set(d, side.least), most = hn::Set(d, side.most);
    x = hn::IfThenElse(hn::Lt(x, least), least, hn::IfThenElse(hn::Gt(x, most), most, x));
  }
  if constexpr (kTaps < 4) x = inside(d, sides, side, x, slope);
  if constexpr (kTaps == 1) {
    line.place[0] = hn::Round(x);
    line.weight[0] = hn::IfThenElse(hn::IsNaN(x), x, one);
    line.slope[0] = hn::Zero(d);
  } else if constexpr (kTaps == 2) {
    const V low = hn::Floor(x), t = hn::Sub(x, low);
    line.place[0] = low;
    line.place[1] = hn::Add(low, one);
    line.weight[0] = hn::Sub(one, t);
    line.weight[1] = t;
    line.slope[0] = hn::Neg(slope);
    line.slope[1] = slope;
  } else {
    // Keys' kernel with a = −0.75 at the distances 1 + t, t, 1 − t and 2 − t.
    constexpr T a = T(-0.75);
    const V low = hn::Floor(x), t = hn::Sub(x, low);
    const V distance[4] = {hn::Add(one, t), t, hn::Sub(one, t), hn::Sub(hn::Set(d, T{2}), t)};
    for (int k = 0; k < 4; ++k) {
      const V s = distance[k];
      const bool far = k == 0 || k == 3;
      const V cube = hn::Set(d, far ? a : a + 2), square = hn::Set(d, far ? -5 * a : -(a + 3));
      const V linear = hn::Set(d, far ? 8 * a : T{0}), constant = hn::Set(d, far ? -4 * a : T{1});
      line.weight[k] = hn::MulAdd(hn::MulAdd(hn::MulAdd(cube, s, square), s, linear), s, constant);
      const V w = hn::MulAdd(hn::MulAdd(hn::Mul(hn::Set(d, T{3}), cube), s, hn::Add(square, square)), s, linear);
      line.slope[k] = hn::Mul(w, k < 2 ? slope : hn::Neg(slope));
      line.place[k] = inside(d, sides, side, hn::Add(low, hn::Set(d, T(k - 1))), unused);
    }
  }
}

// The coordinates of a vector of points.
template <int kAxes, class D, class T, class V>
HWY_INLINE void load_points(D d, const T* HWY_RESTRICT grid, V (&g)[kAxes]) {
  if constexpr (kAxes == 2) {
    hn::LoadInterleaved2(d, grid, g[0], g[1]);
  } else {
    hn::LoadInterleaved3(d, grid, g[0], g[1], g[2]);
  }
}

// Calls body(k, tap of each axis) for every tap of a point, the first axis of the grid fastest.
template <int kAxes, int kTaps, class Body>
HWY_INLINE void each_tap(Body&& body) {
  constexpr int kAll = power(kTaps, kAxes);
#pragma GCC unroll 64
  for (int k = 0; k < kAll; ++k) body(k, k % kTaps, k / kTaps % kTaps, kAxes == 3 ? k / (kTaps * kTaps) : 0);
}

template <class T, int kAxes, int kTaps>
void find(const GridSides<T>& sides, const T* HWY_RESTRICT grid, std::int64_t count, GridIndex<T>* HWY_RESTRICT at,
          T* HWY_RESTRICT weight) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using V = hn::Vec<decltype(d)>;
  using I = hn::Vec<decltype(di)>;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  for (std::int64_t i = 0; i < count; i += kLanes) {
    V g[kAxes];
    load_points(d, grid + i * kAxes, g);
    Line<kTaps, V> line[kAxes];
    I offset[kAxes][kTaps];  // in a plane; very negative outside
    for (int a = 0; a < kAxes; ++a) {
      const Side<T>& side = sides.side[a];
      find_line(d, sides, side, g[a], line[a]);
      for (int k = 0; k < kTaps; ++k) {
        const V place = line[a].place[k];
        const auto here = hn::And(hn::Ge(place, hn::Zero(d)), hn::Le(place, hn::Set(d, side.last)));
        const V safe = hn::IfThenElseZero(here, place);
        I steps;
        if constexpr (sizeof(T) == 4) {  // f32 could not count them
          steps = hn::Mul(hn::ConvertTo(di, safe), hn::Set(di, side.step));
        } else {
          steps = hn::ConvertTo(di, hn::Mul(safe, hn::Set(d, static_cast<T>(side.step))));
        }
        offset[a][k] = hn::IfThenElse(hn::RebindMask(di, here), steps, hn::Set(di, GridIndex<T>{-1}));
      }
    }
    each_tap<kAxes, kTaps>([&](int k, int kx, int ky, int kz) HWY_ATTR {
      I sum = hn::Add(offset[0][kx], offset[1][ky]), signs = hn::Or(offset[0][kx], offset[1][ky]);
      V w = hn::Mul(line[0].weight[kx], line[1].weight[ky]);
      if constexpr (kAxes == 3) {
        sum = hn::Add(sum, offset[2][kz]);
        signs = hn::Or(signs, offset[2][kz]);
        w = hn::Mul(w, line[2].weight[kz]);
      }
      hn::StoreU(hn::IfThenElse(hn::Lt(signs, hn::Zero(di)), hn::Set(di, GridIndex<T>{-1}), sum), di,
                 at + k * kGridBlock + i);
      hn::StoreU(w, d, weight + k * kGridBlock + i);
    });
  }
}

// x[at], 0 where that is −1
template <class D, class T, class I>
HWY_INLINE hn::Vec<D> taken(D d, const T* HWY_RESTRICT x, I at) {
  const hn::RebindToSigned<D> di;
  const auto here = hn::Gt(at, hn::Set(di, GridIndex<T>{-1}));
  return hn::IfThenElseZero(hn::RebindMask(d, here), hn::GatherIndex(d, x, hn::IfThenElseZero(here, at)));
}

// Calls body(i) for vectors of numbers; for a shorter rest, body(i, how many).
template <class D, class Body>
HWY_INLINE void each_vector(D d, std::int64_t count, Body&& body) {
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, kLanes);
  if (i < count) body(i, count - i);
}
template <class D, class T>
HWY_INLINE hn::Vec<D> load_some(D d, const T* HWY_RESTRICT from, std::int64_t count) {
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  if (count == kLanes) return hn::LoadU(d, from);
  HWY_ALIGN T few[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) few[i] = from[i];
  return hn::Load(d, few);
}
template <class D, class V, class T>
HWY_INLINE void store_some(D d, V v, T* HWY_RESTRICT to, std::int64_t count) {
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  if (count == kLanes) {
    hn::StoreU(v, d, to);
    return;
  }
  HWY_ALIGN T few[kLanes];
  hn::Store(v, d, few);
  for (std::int64_t i = 0; i < count; ++i) to[i] = few[i];
}

template <class T, int kAll>
void gather(std::int64_t count, const GridIndex<T>* HWY_RESTRICT at, const T* HWY_RESTRICT weight,
            const T* HWY_RESTRICT x, T* HWY_RESTRICT y) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  each_vector(d, count, [&](std::int64_t i, std::int64_t some) HWY_ATTR {
    auto sum = hn::Zero(d);
#pragma GCC unroll 16
    for (int k = 0; k < kAll; ++k) {
      const auto w = hn::LoadU(d, weight + k * kGridBlock + i);
      sum = hn::MulAdd(w, taken(d, x, hn::LoadU(di, at + k * kGridBlock + i)), sum);
    }
    store_some(d, sum, y + i, some);
  });
}

template <class T, int kAll>
void scatter(std::int64_t count, const GridIndex<T>* HWY_RESTRICT at, const T* HWY_RESTRICT weight,
             const T* HWY_RESTRICT y, T* HWY_RESTRICT x) {
  for (std::int64_t i = 0; i < count; ++i) {
#pragma GCC unroll 16
    for (int k = 0; k < kAll; ++k) {
      const GridIndex<T> to = at[k * kGridBlock + i];
      if (to >= 0) x[to] += weight[k * kGridBlock + i] * y[i];
    }
  }
}

template <class T, int kAll>
void add_dots(std::int64_t count, const GridIndex<T>* HWY_RESTRICT at, const T* HWY_RESTRICT x, const T* HWY_RESTRICT y,
              T* HWY_RESTRICT dots) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  each_vector(d, count, [&](std::int64_t i, std::int64_t some) HWY_ATTR {
    const auto g = load_some(d, y + i, some);
#pragma GCC unroll 16
    for (int k = 0; k < kAll; ++k) {
      T* const to = dots + k * kGridBlock + i;
      hn::StoreU(hn::MulAdd(g, taken(d, x, hn::LoadU(di, at + k * kGridBlock + i)), hn::LoadU(d, to)), d, to);
    }
  });
}

template <class T, int kAxes, int kTaps>
void combine(const GridSides<T>& sides, const T* HWY_RESTRICT grid, std::int64_t count, const T* HWY_RESTRICT dots,
             T* HWY_RESTRICT gradient) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  for (std::int64_t i = 0; i < count; i += kLanes) {
    V g[kAxes];
    load_points(d, grid + i * kAxes, g);
    Line<kTaps, V> line[kAxes];
    V sum[kAxes];
    for (int a = 0; a < kAxes; ++a) {
      find_line(d, sides, sides.side[a], g[a], line[a]);
      sum[a] = hn::Zero(d);
    }
    each_tap<kAxes, kTaps>([&](int k, int kx, int ky, int kz) HWY_ATTR {
      const V dot = hn::LoadU(d, dots + k * kGridBlock + i);
      const V weights[3] = {line[0].weight[kx], line[1].weight[ky], line[kAxes - 1].weight[kz]};
      const V slopes[3] = {line[0].slope[kx], line[1].slope[ky], line[kAxes - 1].slope[kz]};
      for (int a = 0; a < kAxes; ++a) {
        V w = slopes[a];
        for (int b = 0; b < kAxes; ++b) {
          if (b != a) w = hn::Mul(w, weights[b]);
        }
        sum[a] = hn::MulAdd(dot, w, sum[a]);
      }
    });
    if constexpr (kAxes == 2) {
      hn::StoreInterleaved2(sum[0], sum[1], d, gradient + i * kAxes);
    } else {
      hn::StoreInterleaved3(sum[0], sum[1], sum[2], d, gradient + i * kAxes);
    }
  }
}

template <class T, int kAxes, int kTaps>
const GridKernels<T>& kernels() {
  constexpr int kAll = power(kTaps, kAxes);
  static constexpr GridKernels<T> table{&find<T, kAxes, kTaps>, &gather<T, kAll>, &scatter<T, kAll>, &add_dots<T, kAll>,
                                        &combine<T, kAxes, kTaps>};
  return table;
}
template <class T>
const GridKernels<T>& kernels_of(std::int64_t axes, std::int64_t taps) {
  if (axes == 2) return taps == 1 ? kernels<T, 2, 1>() : taps == 2 ? kernels<T, 2, 2>() : kernels<T, 2, 4>();
  return taps == 1 ? kernels<T, 3, 1>() : taps == 2 ? kernels<T, 3, 2>() : kernels<T, 3, 4>();
}

}  // namespace

const GridKernels<float>& grid_kernels_f32(std::int64_t axes, std::int64_t taps) {
  return kernels_of<float>(axes, taps);
}
const GridKernels<double>& grid_kernels_f64(std::int64_t axes, std::int64_t taps) {
  return kernels_of<double>(axes, taps);
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::cpu {

HWY_EXPORT(grid_kernels_f32);
HWY_EXPORT(grid_kernels_f64);

template <>
const GridKernels<float>& grid_kernels<float>(std::int64_t axes, std::int64_t taps) {
  return HWY_DYNAMIC_DISPATCH(grid_kernels_f32)(axes, taps);
}
template <>
const GridKernels<double>& grid_kernels<double>(std::int64_t axes, std::int64_t taps) {
  return HWY_DYNAMIC_DISPATCH(grid_kernels_f64)(axes, taps);
}

}  // namespace ebb::cpu
#endif
