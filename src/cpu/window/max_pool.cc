// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <vector>

#include "calls/convolution.h"
#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/model/cpu_model.h"
#include "cpu/tile/elements.h"
#include "cpu/window/kernels.h"
#include "cpu/window/planes_beside.h"

namespace ebb::cpu {
namespace {

// The position in its plane of each window's first largest element; NaN is larger than any number. Every window covers
// at least one element, which the shapes ensure.

template <class T>
void find_largest_adaptive(const LibraryCall& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const PoolCall p = options_as<PoolCall>(call.attrs);
  const std::int64_t height = x.shape[2], width = x.shape[3], rows = out.shape[2], cols = out.shape[3];
  const PoolAxis of_rows(p, 0, height, rows), of_cols(p, 1, width, cols);
  const LoadFn load = tile_kernels().load(x.dtype, std::is_same_v<T, double> ? RegType::f64 : RegType::f32);
  const std::int64_t planes = x.shape[0] * x.shape[1];
  const std::int64_t together = std::clamp<std::int64_t>(
      cpu_model().pool_elements / std::max<std::int64_t>(1, height * width), 1, std::max<std::int64_t>(1, planes));
  const bool in_place = x.dtype == dtype_of_type<T>::value && x.strides[3] == 1;
  std::vector<PoolAxis::Range> windows;
  for (std::int64_t c = 0; c < cols; ++c) windows.push_back(of_cols.elements(c));
  parallel_for((planes + together - 1) / together, [&](std::int64_t task) {
    std::vector<T> copied(static_cast<std::size_t>(in_place ? 0 : width)), largest(static_cast<std::size_t>(cols));
    for (std::int64_t i = task * together; i < std::min(planes, (task + 1) * together); ++i) {
      const std::int64_t plane = i / x.shape[1] * x.strides[0] + i % x.shape[1] * x.strides[1];
      std::int64_t* to = static_cast<std::int64_t*>(out.data) + i * rows * cols;
      for (std::int64_t r = 0; r < rows; ++r, to += cols) {
        const PoolAxis::Range lines = of_rows.elements(r);
        for (std::int64_t h = lines.first; h <= lines.last; ++h) {
          const std::byte* from = element_at(x, plane + h * x.strides[2]);
          if (!in_place) load(copied.data(), from, x.strides[3], static_cast<std::size_t>(width));
          const T* line = in_place ? reinterpret_cast<const T*>(from) : copied.data();
          for (std::int64_t c = 0; c < cols; ++c) {
            const PoolAxis::Range& window = windows[static_cast<std::size_t>(c)];
            T best = h == lines.first ? line[window.first] : largest[static_cast<std::size_t>(c)];
            std::int64_t at = h == lines.first ? h * width + window.first : to[c];
            for (std::int64_t w = window.first; w <= window.last; ++w) {
              if (line[w] <= best) [[likely]]  // one comparison for almost all; false where either is NaN, too
                continue;
              if (best == best) best = line[w], at = h * width + w;
            }
            largest[static_cast<std::size_t>(c)] = best, to[c] = at;
          }
        }
      }
    }
  });
}

// All windows of a row process the same tap at a time: no branch depends on the numbers.
template <class T>
void find_largest(const LibraryCall& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const PoolCall p = options_as<PoolCall>(call.attrs);
  const std::int64_t stride_h = p.conv.stride[0], stride_w = p.conv.stride[1];
  const std::int64_t padding_h = p.conv.padding[0], padding_w = p.conv.padding[1];
  const std::int64_t dilation_h = p.conv.dilation[0], dilation_w = p.conv.dilation[1];
  const std::int64_t height = x.shape[2], width = x.shape[3], rows = out.shape[2], cols = out.shape[3];
  const LoadFn load = tile_kernels().load(x.dtype, std::is_same_v<T, double> ? RegType::f64 : RegType::f32);
  const WindowKernels<T>& kernels = window_kernels<T>();
  const std::int64_t planes = x.shape[0] * x.shape[1];
  const std::int64_t together = std::clamp<std::int64_t>(
      cpu_model().pool_elements / std::max<std::int64_t>(1, height * width), 1, std::max<std::int64_t>(1, planes));
  // Lines are read in place if possible, except for the last: take_larger may read beyond its end.
  const bool in_place = x.dtype == dtype_of_type<T>::value && x.strides[3] == 1;
  const std::int64_t copied = in_place ? 1 : height;
  parallel_for((planes + together - 1) / together, [&](std::int64_t task) {
    std::vector<T> plane(static_cast<std::size_t>(copied * width + stride_w)), largest(static_cast<std::size_t>(cols));
    std::vector<PoolIndex<T>> where(static_cast<std::size_t>(cols));  // relative to the window's start
    for (std::int64_t i = task * together; i < std::min(planes, (task + 1) * together); ++i) {
      const auto line_at = [&](std::int64_t h) {
        return element_at(x, i / x.shape[1] * x.strides[0] + i % x.shape[1] * x.strides[1] + h * x.strides[2]);
      };
      for (std::int64_t h = height - copied; h < height; ++h)
        load(plane.data() + (h - height + copied) * width, line_at(h), x.strides[3], static_cast<std::size_t>(width));
      const auto line = [&](std::int64_t h) {
        return h < height - copied ? reinterpret_cast<const T*>(line_at(h))
                                   : plane.data() + (h - height + copied) * width;
      };
      std::int64_t* to = static_cast<std::int64_t*>(out.data) + i * rows * cols;
      for (std::int64_t r = 0; r < rows; ++r, to += cols) {
        std::fill(where.begin(), where.end(), PoolIndex<T>{-1});
        const std::int64_t top = r * stride_h - padding_h;
        for (std::int64_t h = 0; h < p.window[0]; ++h) {
          const std::int64_t y = top + h * dilation_h;
          if (y < 0 || y >= height) continue;
          for (std::int64_t w = 0; w < p.window[1]; ++w) {
            // Windows [first, end) that contain this element: 0 <= c·stride + shift < width.
            const std::int64_t shift = w * dilation_w - padding_w;
            const std::int64_t first = shift < 0 ? (-shift + stride_w - 1) / stride_w : 0;
            const std::int64_t end = shift < width ? std::min(cols, (width - 1 - shift) / stride_w + 1) : 0;
            if (first >= end) continue;
            kernels.take_larger(end - first, line(y) + first * stride_w + shift, stride_w,
                                static_cast<PoolIndex<T>>(h * dilation_h * width + w * dilation_w),
                                largest.data() + first, where.data() + first);
          }
        }
        const std::int64_t origin = top * width - padding_w;
        for (std::int64_t c = 0; c < cols; ++c) to[c] = origin + c * stride_w + where[static_cast<std::size_t>(c)];
      }
    }
  });
}

// Windows of many small planes at a time.
template <class T>
void find_largest_beside(const LibraryCall& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const PoolCall p = options_as<PoolCall>(call.attrs);
  const std::int64_t height = x.shape[2], width = x.shape[3], outputs = out.shape[2] * out.shape[3];
  struct Taps {
    std::int64_t first, last, step;
  };
  const auto taps_of = [&](int d, std::int64_t size, std::int64_t count) {
    const auto axis = static_cast<std::size_t>(d);
    const std::int64_t step = p.conv.dilation[axis];
    std::vector<Taps> taps;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t begin = i * p.conv.stride[axis] - p.conv.padding[axis];
      const PoolAxis::Range range = PoolAxis(p, d, size, count).elements(i);
      taps.push_back(p.adaptive ? Taps{range.first, range.last, 1}
                                : Taps{begin < 0 ? begin + (-begin + step - 1) / step * step : begin,
                                       std::min(begin + (p.window[axis] - 1) * step, size - 1), step});
    }
    return taps;
  };
  const std::vector<Taps> of_rows = taps_of(0, height, out.shape[2]), of_cols = taps_of(1, width, out.shape[3]);
  const auto take_larger = window_kernels<T>().take_larger;
  const PlanesBeside beside(x.shape[0] * x.shape[1], height * width);
  const std::int64_t pitch = beside.pitch;
  beside.each_block([&](std::int64_t first, std::int64_t many) {
    std::vector<std::byte> scratch;
    std::vector<T> planes(static_cast<std::size_t>(height * width * pitch)), largest(static_cast<std::size_t>(pitch));
    std::vector<PoolIndex<T>> where(static_cast<std::size_t>(outputs * pitch), PoolIndex<T>{-1});
    load_beside(x, first, many, planes.data(), pitch, scratch);
    PoolIndex<T>* at = where.data();
    for (const Taps& rows : of_rows) {
      for (const Taps& cols : of_cols) {
        for (std::int64_t h = rows.first; h <= rows.last; h += rows.step) {
          for (std::int64_t w = cols.first; w <= cols.last; w += cols.step) {
            const std::int64_t tap = h * width + w;
            take_larger(pitch, planes.data() + tap * pitch, 1, static_cast<PoolIndex<T>>(tap), largest.data(), at);
          }
        }
        at += pitch;
      }
    }
    std::int64_t* to = static_cast<std::int64_t*>(out.data) + first * outputs;
    for (std::int64_t i = 0; i < many; ++i) {
      for (std::int64_t k = 0; k < outputs; ++k) *to++ = where[static_cast<std::size_t>(k * pitch + i)];
    }
  });
}

}  // namespace

void run_max_pool_index(const LibraryCall& call) {
  if (call.outputs[0].shape.numel() == 0) return;
  const Shape &image = call.inputs[0].shape, &output = call.outputs[0].shape;
  if (PlanesBeside::pays(image, output, output[3]))
    return call.inputs[0].dtype == DType::f64 ? find_largest_beside<double>(call) : find_largest_beside<float>(call);
  // Indices are as wide as numbers meanwhile; and numbers of f32 are as large in f64.
  const View& x = call.inputs[0];
  if (options_as<PoolCall>(call.attrs).adaptive)
    return x.dtype == DType::f64 ? find_largest_adaptive<double>(call) : find_largest_adaptive<float>(call);
  const bool huge = x.shape[2] * x.shape[3] > std::numeric_limits<std::int32_t>::max();
  if (huge || x.dtype == DType::f64) return find_largest<double>(call);
  return find_largest<float>(call);
}

}  // namespace ebb::cpu
