// SPDX-License-Identifier: MIT
// grid_sample and its two gradients: taps of a block of points are found once and used for some channels. An element of
// the image's gradient is summed in the order of the points, by one thread.
#include "calls/grid_sample.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/ceil_div.h"
#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/model/cpu_model.h"
#include "cpu/tile/elements.h"
#include "cpu/window/grid_kernels.h"
#include "ebb/memory.h"

namespace ebb::cpu {
namespace {

template <class T>
GridSides<T> sides_of(const GridSampleCall& call, const Shape& image) {
  GridSides<T> sides{};
  sides.reflects = call.padding == GridSampleCall::reflection;
  sides.clamps = call.padding != GridSampleCall::zeros;
  std::int64_t step = 1;
  for (int a = image.rank() - 1; a >= 2; --a) {
    const GridAxis axis(call, image[a]);
    const auto last = static_cast<T>(axis.last(dtype_of_type<T>::value));
    sides.side[image.rank() - 1 - a] = {.last = last,
                                        .scale = static_cast<T>(axis.scale),
                                        .shift = static_cast<T>(axis.shift),
                                        .span = static_cast<T>(axis.span),
                                        .least = static_cast<T>(-GridAxis::kReach),
                                        .most = last + static_cast<T>(GridAxis::kReach),
                                        .step = static_cast<GridIndex<T>>(step)};
    step *= image[a];
  }
  return sides;
}

// Numbers [first, first + count) of a row: in place, or converted into `room`.
template <class T>
class RowReader {
 public:
  explicit RowReader(const View& v)
      : v_(v),
        in_place_(v.dtype == dtype_of_type<T>::value && (v.strides[2] == 1 || v.shape[2] == 1)),
        load_(tile_kernels().load(v.dtype, kReg)) {}
  const T* at(std::int64_t image, std::int64_t row, std::int64_t first, std::int64_t count, T* room) const {
    const std::byte* const from = element_at(v_, image * v_.strides[0] + row * v_.strides[1] + first * v_.strides[2]);
    if (in_place_) return reinterpret_cast<const T*>(from);
    load_(room, from, v_.strides[2], static_cast<std::size_t>(count));
    return room;
  }

  static constexpr RegType kReg = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;

 private:
  const View& v_;
  bool in_place_;
  LoadFn load_;
};

// The points of a call, a block at a time.
template <class T>
class Points {
 public:
  // Not cleared: kernels write whole vectors before they read them, and for a few points clearing would take longer
  // than everything else.
  template <class Number>
  class Numbers {
   public:
    explicit Numbers(std::size_t count) : numbers_(new Number[count]), count_(count) {}
    Number* data() { return numbers_.get(); }
    Number* begin() { return data(); }
    Number* end() { return data() + count_; }
    std::size_t size() const { return count_; }

   private:
    std::unique_ptr<Number[]> numbers_;
    std::size_t count_;
  };
  struct Room {  // of a task
    Numbers<T> grid, weight, dots, line;
    Numbers<GridIndex<T>> at;
    Room(std::size_t axes, std::size_t taps)
        : grid(axes * kGridBlock),
          weight(taps * kGridBlock),
          dots(taps * kGridBlock),
          line(kGridBlock),
          at(taps * kGridBlock) {}
  };

  Points(const LibraryCall& call, const View& grid, const Shape& image)
      : grid_(packed(grid, keep_, label_of(call))),
        sides_(sides_of<T>(options_as<GridSampleCall>(call.attrs), image)),
        axes_(image.rank() - 2),
        taps_(options_as<GridSampleCall>(call.attrs).taps),
        kernels_(grid_kernels<T>(axes_, taps_)),
        load_(tile_kernels().load(grid.dtype, RowReader<T>::kReg)) {}

  const GridKernels<T>& kernels() const { return kernels_; }
  std::int64_t count() const { return grid_.shape[1]; }
  std::int64_t axes() const { return axes_; }
  Room room() const {
    std::size_t all = 1;
    for (std::int64_t a = 0; a < axes_; ++a) all *= static_cast<std::size_t>(taps_);
    return Room(static_cast<std::size_t>(axes_), all);
  }

  // Calls body(first point, how many) for blocks of an image's points in [begin, end), with their taps in the room.
  template <class Body>
  void each_block(std::int64_t image, std::int64_t begin, std::int64_t end, Room& room, Body&& body) const {
    for (std::int64_t first = begin; first < end; first += kGridBlock) {
      const std::int64_t count = std::min(kGridBlock, end - first);
      std::fill(room.grid.begin() + count * axes_, room.grid.end(), T{0});
      load_(room.grid.data(), element_at(grid_, (image * this->count() + first) * axes_), 1,
            static_cast<std::size_t>(count * axes_));
      kernels_.find(sides_, room.grid.data(), count, room.at.data(), room.weight.data());
      body(first, count);
    }
  }
  void combine(Room& room, std::int64_t count, T* gradient) const {
    kernels_.combine(sides_, room.grid.data(), count, room.dots.data(), gradient);
  }

 private:
  BufferPtr keep_;
  View grid_;
  GridSides<T> sides_;
  std::int64_t axes_, taps_;
  const GridKernels<T>& kernels_;
  LoadFn load_;
};

// The planes of an image, dense and in T.
template <class T>
View planes_of(const View& x, BufferPtr& keep, const char* what) {
  return x.dtype == dtype_of_type<T>::value ? packed(x, keep, what) : packed_as_f32(x, keep, what);
}

std::int64_t plane_size(const Shape& image) {
  std::int64_t size = 1;
  for (int d = 2; d < image.rank(); ++d) size *= image[d];
  return size;
}

template <class T>
void sample(const LibraryCall& call) {
  const View &x = call.inputs[0], &y = call.outputs[0];
  BufferPtr keep;
  const T* const planes = static_cast<const T*>(planes_of<T>(x, keep, label_of(call)).data);
  const Points<T> points(call, call.inputs[1], x.shape);
  const std::int64_t channels = x.shape[1], size = plane_size(x.shape), count = points.count();
  const std::int64_t together = std::min(channels, cpu_model().grid_channels), groups = ceil_div(channels, together);
  const std::int64_t part = ceil_div(cpu_model().pool_elements, together * kGridBlock) * kGridBlock;
  const std::int64_t parts = ceil_div(count, part);
  const bool in_place = y.dtype == dtype_of_type<T>::value;
  const StoreFn store = tile_kernels().store(RowReader<T>::kReg, y.dtype);
  parallel_for(x.shape[0] * groups * parts, [&](std::int64_t task) {
    const std::int64_t image = task / parts / groups, first_channel = task / parts % groups * together;
    const std::int64_t begin = task % parts * part, end = std::min(count, begin + part);
    auto room = points.room();
    points.each_block(image, begin, end, room, [&](std::int64_t first, std::int64_t some) {
      for (std::int64_t c = first_channel; c < std::min(channels, first_channel + together); ++c) {
        const std::int64_t row = image * channels + c;
        std::byte* const to = element_at(y, row * count + first);
        T* const sums = in_place ? reinterpret_cast<T*>(to) : room.line.data();
        points.kernels().gather(some, room.at.data(), room.weight.data(), planes + row * size, sums);
        if (!in_place) store(to, 1, sums, static_cast<std::size_t>(some));
      }
    });
  });
}

template <class T>
void add_to_image(const LibraryCall& call) {
  const View &y = call.inputs[0], &x = call.outputs[0];
  const Points<T> points(call, call.inputs[1], x.shape);
  const RowReader<T> rows(y);
  const std::int64_t channels = x.shape[1], size = plane_size(x.shape), count = points.count();
  // Enough tasks for all threads: each of them finds the taps again.
  const std::int64_t wanted = ceil_div(cpu_model().tasks_per_thread * num_threads(), x.shape[0]);
  const std::int64_t least = ceil_div(cpu_model().pool_elements, std::max<std::int64_t>(1, count));
  const std::int64_t together = std::min(channels, std::max(least, ceil_div(channels, wanted)));
  const std::int64_t groups = ceil_div(channels, together);
  const bool in_place = x.dtype == dtype_of_type<T>::value;
  const StoreFn store = tile_kernels().store(RowReader<T>::kReg, x.dtype);
  parallel_for(x.shape[0] * groups, [&](std::int64_t task) {
    const std::int64_t image = task / groups, begin = task % groups * together;
    const std::int64_t some = std::min(channels - begin, together), elements = some * size;
    std::byte* const to = element_at(x, (image * channels + begin) * size);
    std::vector<T> kept(in_place ? 0 : static_cast<std::size_t>(elements));
    T* const planes = in_place ? reinterpret_cast<T*>(to) : kept.data();
    if (in_place) std::fill(planes, planes + elements, T{0});
    auto room = points.room();
    points.each_block(image, 0, count, room, [&](std::int64_t first, std::int64_t n) {
      for (std::int64_t c = 0; c < some; ++c) {
        const T* const row = rows.at(image, begin + c, first, n, room.line.data());
        points.kernels().scatter(n, room.at.data(), room.weight.data(), row, planes + c * size);
      }
    });
    if (!in_place) store(to, 1, planes, static_cast<std::size_t>(elements));
  });
}

template <class T>
void differentiate_grid(const LibraryCall& call) {
  const View &y = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  BufferPtr keep;
  const T* const planes = static_cast<const T*>(planes_of<T>(x, keep, label_of(call)).data);
  const Points<T> points(call, call.inputs[2], x.shape);
  const RowReader<T> rows(y);
  const std::int64_t channels = x.shape[1], size = plane_size(x.shape), count = points.count();
  const std::int64_t axes = points.axes();
  const std::int64_t part =
      ceil_div(cpu_model().pool_elements, std::max<std::int64_t>(1, channels) * kGridBlock) * kGridBlock;
  const std::int64_t parts = ceil_div(count, part);
  const StoreFn store = tile_kernels().store(RowReader<T>::kReg, out.dtype);
  parallel_for(x.shape[0] * parts, [&](std::int64_t task) {
    const std::int64_t image = task / parts, begin = task % parts * part, end = std::min(count, begin + part);
    auto room = points.room();
    std::vector<T> gradient(room.grid.size());
    points.each_block(image, begin, end, room, [&](std::int64_t first, std::int64_t n) {
      std::fill(room.dots.begin(), room.dots.end(), T{0});
      for (std::int64_t c = 0; c < channels; ++c) {
        const T* const row = rows.at(image, c, first, n, room.line.data());
        points.kernels().add_dots(n, room.at.data(), planes + (image * channels + c) * size, row, room.dots.data());
      }
      points.combine(room, n, gradient.data());
      store(element_at(out, (image * count + first) * axes), 1, gradient.data(), static_cast<std::size_t>(n * axes));
    });
  });
}

}  // namespace

void run_grid_sample(const LibraryCall& call) {
  if (call.outputs[0].shape.numel() == 0) return;
  compute_dtype(call.outputs[0].dtype) == DType::f64 ? sample<double>(call) : sample<float>(call);
}
void run_grid_sample_image_gradient(const LibraryCall& call) {
  if (call.outputs[0].shape.numel() == 0) return;
  compute_dtype(call.outputs[0].dtype) == DType::f64 ? add_to_image<double>(call) : add_to_image<float>(call);
}
void run_grid_sample_grid_gradient(const LibraryCall& call) {
  if (call.outputs[0].shape.numel() == 0) return;
  compute_dtype(call.outputs[0].dtype) == DType::f64 ? differentiate_grid<double>(call)
                                                     : differentiate_grid<float>(call);
}

}  // namespace ebb::cpu
