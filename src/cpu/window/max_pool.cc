#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/tile/elements.h"
#include "graph/conv_calls.h"

namespace ebb::cpu {
namespace {

// Where in its plane each window's first largest element lies; a NaN is larger than any number. Every window covers at
// least one element, which the shapes see to.
template <class T>
void find_largest(const LibraryCall& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const MaxPoolCall p = MaxPoolCall::from(call.attrs);
  const std::int64_t height = x.shape[2], width = x.shape[3], rows = out.shape[2], cols = out.shape[3];
  const LoadFn load = tile_kernels().load(x.dtype, std::is_same_v<T, double> ? RegType::f64 : RegType::f32);
  constexpr std::int64_t kElements = 1 << 15;  // of a task
  const std::int64_t planes = x.shape[0] * x.shape[1];
  const std::int64_t together = std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(1, height * width), 1,
                                                         std::max<std::int64_t>(1, planes));
  parallel_for((planes + together - 1) / together, [&](std::int64_t task) {
    std::vector<T> plane(static_cast<std::size_t>(height * width));
    for (std::int64_t i = task * together; i < std::min(planes, (task + 1) * together); ++i) {
      for (std::int64_t h = 0; h < height; ++h)
        load(plane.data() + h * width,
             element_at(x, i / x.shape[1] * x.strides[0] + i % x.shape[1] * x.strides[1] + h * x.strides[2]),
             x.strides[3], static_cast<std::size_t>(width));
      std::int64_t* to = static_cast<std::int64_t*>(out.data) + i * rows * cols;
      for (std::int64_t r = 0; r < rows; ++r) {
        // The part of the window inside the image, in steps of the dilation.
        const auto inside = [&](std::int64_t at, std::int64_t window, std::int64_t dilation, std::int64_t size) {
          const std::int64_t first = at < 0 ? (-at + dilation - 1) / dilation : 0;
          const std::int64_t last = std::min(window, (size - at + dilation - 1) / dilation);
          return std::pair{at + first * dilation, at + last * dilation};
        };
        const auto [top, bottom] =
            inside(r * p.conv.stride[0] - p.conv.padding[0], p.window[0], p.conv.dilation[0], height);
        for (std::int64_t c = 0; c < cols; ++c) {
          const auto [left, right] =
              inside(c * p.conv.stride[1] - p.conv.padding[1], p.window[1], p.conv.dilation[1], width);
          std::int64_t best = top * width + left;
          T largest = plane[static_cast<std::size_t>(best)];
          for (std::int64_t h = top; h < bottom; h += p.conv.dilation[0]) {
            for (std::int64_t w = left; w < right; w += p.conv.dilation[1]) {
              const T value = plane[static_cast<std::size_t>(h * width + w)];
              if (value > largest || (value != value && largest == largest)) largest = value, best = h * width + w;
            }
          }
          *to++ = best;
        }
      }
    }
  });
}

}  // namespace

void run_max_pool_index(const LibraryCall& call) {
  if (call.outputs[0].shape.numel() == 0) return;
  if (call.inputs[0].dtype == DType::f64) return find_largest<double>(call);
  return find_largest<float>(call);
}

}  // namespace ebb::cpu
