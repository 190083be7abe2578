// SPDX-License-Identifier: MIT
// Sums of windows and their transpose, one axis after the other: lines of a window are added, then the windows of the
// resulting line.
#include <algorithm>
#include <vector>

#include "calls/convolution.h"
#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/model/cpu_model.h"
#include "cpu/tile/elements.h"
#include "cpu/tile/kernels.h"
#include "cpu/window/planes_beside.h"

namespace ebb::cpu {
namespace {

template <class T>
struct WindowSums {
  PoolAxis rows, cols;
  std::int64_t height, width, outs_high, outs_wide, planes, together;
  LoadFn load;
  StoreFn store;
  std::vector<PoolAxis::Range> of_col;

  WindowSums(const LibraryCall& call, const View& image, const View& sums)
      : rows(options_as<PoolCall>(call.attrs), 0, image.shape[2], sums.shape[2]),
        cols(options_as<PoolCall>(call.attrs), 1, image.shape[3], sums.shape[3]),
        height(image.shape[2]),
        width(image.shape[3]),
        outs_high(sums.shape[2]),
        outs_wide(sums.shape[3]),
        planes(image.shape[0] * image.shape[1]),
        together(std::clamp<std::int64_t>(cpu_model().pool_elements / std::max<std::int64_t>(1, height * width), 1,
                                          std::max<std::int64_t>(1, planes))),
        load(tile_kernels().load(call.inputs[0].dtype, kReg)),
        store(tile_kernels().store(kReg, call.outputs[0].dtype)) {
    for (std::int64_t c = 0; c < outs_wide; ++c) of_col.push_back(cols.elements(c));
  }
  template <class Plane>
  void each_plane(Plane&& plane) const {
    parallel_for((planes + together - 1) / together, [&](std::int64_t task) {
      std::vector<T> in(static_cast<std::size_t>(std::max(width, outs_wide))), out(in.size());
      for (std::int64_t i = task * together; i < std::min(planes, (task + 1) * together); ++i)
        plane(i, in.data(), out.data());
    });
  }

 private:
  static constexpr RegType kReg = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;
};

std::byte* line_at(const View& v, std::int64_t plane, std::int64_t h) {
  return element_at(v, plane / v.shape[1] * v.strides[0] + plane % v.shape[1] * v.strides[1] + h * v.strides[2]);
}

template <class T>
void add(T* to, const T* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

template <class T>
void add_windows(const LibraryCall& call) {
  const View &x = call.inputs[0], &y = call.outputs[0];
  const WindowSums<T> z(call, x, y);
  const auto width = static_cast<std::size_t>(z.width);
  const bool in_place = x.dtype == dtype_of_type<T>::value && x.strides[3] == 1;
  z.each_plane([&](std::int64_t i, T* in, T* out) {
    std::vector<T> line(width);
    for (std::int64_t r = 0; r < z.outs_high; ++r) {
      const PoolAxis::Range lines = z.rows.elements(r);
      std::fill(line.begin(), line.end(), T{0});
      for (std::int64_t h = lines.first; h <= lines.last; ++h) {
        const std::byte* const from = line_at(x, i, h);
        if (!in_place) z.load(in, from, x.strides[3], width);
        const T* const added = in_place ? reinterpret_cast<const T*>(from) : in;
        for (std::size_t w = 0; w < width; ++w) line[w] += added[w];
      }
      for (std::int64_t c = 0; c < z.outs_wide; ++c) {
        const PoolAxis::Range window = z.of_col[static_cast<std::size_t>(c)];
        T sum = 0;
        for (std::int64_t w = window.first; w <= window.last; ++w) sum += line[static_cast<std::size_t>(w)];
        out[c] = sum;
      }
      z.store(line_at(y, i, r), 1, out, static_cast<std::size_t>(z.outs_wide));
    }
  });
}

// Lines of windows are spread along their columns once each, then added to the lines they cover.
template <class T>
void spread_windows(const LibraryCall& call) {
  const View &y = call.inputs[0], &x = call.outputs[0];
  const WindowSums<T> z(call, x, y);
  const auto width = static_cast<std::size_t>(z.width);
  z.each_plane([&](std::int64_t i, T* in, T*) {
    std::vector<T> plane(width * static_cast<std::size_t>(z.height)), line(width);
    for (std::int64_t r = 0; r < z.outs_high; ++r) {
      z.load(in, line_at(y, i, r), y.strides[3], static_cast<std::size_t>(z.outs_wide));
      std::fill(line.begin(), line.end(), T{0});
      for (std::int64_t c = 0; c < z.outs_wide; ++c) {
        const PoolAxis::Range window = z.of_col[static_cast<std::size_t>(c)];
        for (std::int64_t w = window.first; w <= window.last; ++w) line[static_cast<std::size_t>(w)] += in[c];
      }
      const PoolAxis::Range lines = z.rows.elements(r);
      for (std::int64_t h = lines.first; h <= lines.last; ++h) {
        T* const to = plane.data() + static_cast<std::size_t>(h) * width;
        for (std::size_t w = 0; w < width; ++w) to[w] += line[w];
      }
    }
    z.store(line_at(x, i, 0), 1, plane.data(), plane.size());
  });
}

// The same for many small planes at a time: their elements side by side, `pitch` apart. block(in, line, out, pitch)
// computes outputs, which are initially 0, from inputs; the line is one of an image.
template <class T, class Block>
void each_block_beside(const WindowSums<T>& z, const View& input, const View& output, const Block& block) {
  const PlanesBeside beside(z.planes, z.height * z.width);
  const std::int64_t pitch = beside.pitch;
  const auto room_for = [pitch](const View& v) {
    return std::vector<T>(static_cast<std::size_t>(v.shape[2] * v.shape[3] * pitch));
  };
  beside.each_block([&](std::int64_t first, std::int64_t many) {
    std::vector<std::byte> scratch;
    std::vector<T> in = room_for(input), line(static_cast<std::size_t>(z.width * pitch)), out = room_for(output);
    load_beside(input, first, many, in.data(), pitch, scratch);
    block(in.data(), line, out.data(), pitch);
    store_beside(output, first, many, out.data(), pitch, scratch);
  });
}

template <class T>
void add_windows_beside(const LibraryCall& call) {
  const View &x = call.inputs[0], &y = call.outputs[0];
  const WindowSums<T> z(call, x, y);
  each_block_beside(z, x, y, [&](const T* planes, std::vector<T>& line, T* sums, std::int64_t pitch) {
    for (std::int64_t r = 0; r < z.outs_high; ++r) {
      const PoolAxis::Range lines = z.rows.elements(r);
      std::fill(line.begin(), line.end(), T{0});
      for (std::int64_t h = lines.first; h <= lines.last; ++h)
        add(line.data(), planes + h * z.width * pitch, z.width * pitch);
      for (const PoolAxis::Range& window : z.of_col) {
        for (std::int64_t w = window.first; w <= window.last; ++w) add(sums, line.data() + w * pitch, pitch);
        sums += pitch;
      }
    }
  });
}

template <class T>
void spread_windows_beside(const LibraryCall& call) {
  const View &y = call.inputs[0], &x = call.outputs[0];
  const WindowSums<T> z(call, x, y);
  each_block_beside(z, y, x, [&](const T* windows, std::vector<T>& line, T* planes, std::int64_t pitch) {
    for (std::int64_t r = 0; r < z.outs_high; ++r) {
      std::fill(line.begin(), line.end(), T{0});
      for (const PoolAxis::Range& window : z.of_col) {
        for (std::int64_t w = window.first; w <= window.last; ++w) add(line.data() + w * pitch, windows, pitch);
        windows += pitch;
      }
      const PoolAxis::Range lines = z.rows.elements(r);
      for (std::int64_t h = lines.first; h <= lines.last; ++h)
        add(planes + h * z.width * pitch, line.data(), z.width * pitch);
    }
  });
}

bool are_small(const Shape& image, const Shape& sums) {
  return PlanesBeside::pays(image, sums, std::max(image[3], sums[3]));
}

// Where a tap of an axis looks: element first + i·stride for the windows i of [begin, end), outside for the others.
struct TapOfAxis {
  std::int64_t first, stride, begin, end;

  TapOfAxis(const PoolCall& p, std::size_t axis, std::int64_t tap, std::int64_t size, std::int64_t windows)
      : first(tap * p.conv.dilation[axis] - p.conv.padding[axis]), stride(p.conv.stride[axis]) {
    begin = std::clamp<std::int64_t>(first < 0 ? (stride - 1 - first) / stride : 0, 0, windows);
    end = std::clamp<std::int64_t>(first < size ? (size - 1 - first) / stride + 1 : 0, begin, windows);
  }
};

// Calls f(plane of the image, line of the columns, across) for each tap of each channel's lines that look inside, and
// outside(line) for the others; lines of columns are numbered in their order.
template <class Inside, class Outside>
void each_line_of_plane(const PoolCall& p, const View& image, const View& columns, std::int64_t plane,
                        const Inside& inside, const Outside& outside) {
  const std::int64_t taps_h = p.window[0], taps_w = p.window[1], rows = columns.shape[2];
  for (std::int64_t tap = 0; tap < taps_h * taps_w; ++tap) {
    const TapOfAxis down(p, 0, tap / taps_w, image.shape[2], rows);
    const TapOfAxis across(p, 1, tap % taps_w, image.shape[3], columns.shape[3]);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t of_columns = plane * taps_h * taps_w + tap;
      r >= down.begin&& r < down.end ? inside(down.first + r * down.stride, of_columns, r, across)
                                     : outside(of_columns, r);
    }
  }
}

// unfold
void list_taps(const View& x, const View& y, const LibraryCall& call) {
  const PoolCall& p = options_as<PoolCall>(call.attrs);
  with_type(x.dtype, [&]<class T>(Type<T>) {
    parallel_for(x.shape[0] * x.shape[1], [&](std::int64_t plane) {
      const auto to = [&](std::int64_t channel, std::int64_t r) {
        return reinterpret_cast<T*>(line_at(y, channel, r));
      };
      each_line_of_plane(
          p, x, y, plane,
          [&](std::int64_t h, std::int64_t channel, std::int64_t r, const TapOfAxis& across) {
            const T* const from = reinterpret_cast<const T*>(line_at(x, plane, h));
            T* const line = to(channel, r);
            std::fill(line, line + across.begin, T{});
            for (std::int64_t q = across.begin; q < across.end; ++q)
              line[q] = from[(across.first + q * across.stride) * x.strides[3]];
            std::fill(line + across.end, line + y.shape[3], T{});
          },
          [&](std::int64_t channel, std::int64_t r) { std::fill_n(to(channel, r), y.shape[3], T{}); });
    });
  });
}

// fold: taps are added in their order.
template <class T>
void add_taps(const LibraryCall& call) {
  const View &y = call.inputs[0], &x = call.outputs[0];
  const PoolCall& p = options_as<PoolCall>(call.attrs);
  constexpr RegType kReg = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;
  const LoadFn load = tile_kernels().load(y.dtype, kReg);
  const StoreFn store = tile_kernels().store(kReg, x.dtype);
  const auto count = static_cast<std::size_t>(y.shape[3]);
  parallel_for(x.shape[0] * x.shape[1], [&](std::int64_t plane) {
    std::vector<T> sums(static_cast<std::size_t>(x.shape[2] * x.shape[3])), line(count);
    each_line_of_plane(
        p, x, y, plane,
        [&](std::int64_t h, std::int64_t channel, std::int64_t r, const TapOfAxis& across) {
          load(line.data(), line_at(y, channel, r), y.strides[3], count);
          T* const to = sums.data() + h * x.shape[3];
          for (std::int64_t q = across.begin; q < across.end; ++q)
            to[across.first + q * across.stride] += line[static_cast<std::size_t>(q)];
        },
        [](std::int64_t, std::int64_t) {});
    store(line_at(x, plane, 0), 1, sums.data(), sums.size());
  });
}

}  // namespace

void run_window_sum(const LibraryCall& call) {
  if (call.outputs[0].shape.numel() == 0) return;
  if (options_as<PoolCall>(call.attrs).each_tap) return list_taps(call.inputs[0], call.outputs[0], call);
  if (are_small(call.inputs[0].shape, call.outputs[0].shape))
    return call.outputs[0].dtype == DType::f64 ? add_windows_beside<double>(call) : add_windows_beside<float>(call);
  call.outputs[0].dtype == DType::f64 ? add_windows<double>(call) : add_windows<float>(call);
}
void run_window_spread(const LibraryCall& call) {
  if (call.outputs[0].shape.numel() == 0) return;
  if (options_as<PoolCall>(call.attrs).each_tap)
    return call.outputs[0].dtype == DType::f64 ? add_taps<double>(call) : add_taps<float>(call);
  if (are_small(call.outputs[0].shape, call.inputs[0].shape))
    return call.inputs[0].dtype == DType::f64 ? spread_windows_beside<double>(call)
                                              : spread_windows_beside<float>(call);
  call.inputs[0].dtype == DType::f64 ? spread_windows<double>(call) : spread_windows<float>(call);
}

}  // namespace ebb::cpu
