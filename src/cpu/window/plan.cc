#include "cpu/window/plan.h"

#include <algorithm>
#include <cstring>

#include "cpu/library/copy.h"
#include "cpu/tile/elements.h"
#include "cpu/window/kernels.h"
#include "graph/conv_calls.h"

namespace ebb::cpu {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

}  // namespace

void WindowPlan::finish() {
  bool any = false;
  std::array<std::int64_t, 2> last{0, 0};
  for (const Phase& phase : phases) {
    for (int d : {0, 1}) {
      const auto k = static_cast<std::size_t>(d);
      count[k] = std::max(count[k], phase.count[k]);
      for (const Tap& tap : phase.taps) {
        first_shift[k] = any || &tap != &phase.taps[0] ? std::min(first_shift[k], tap.shift[k]) : tap.shift[k];
        last[k] = any || &tap != &phase.taps[0] ? std::max(last[k], tap.shift[k]) : tap.shift[k];
      }
    }
    any = any || !phase.taps.empty();
  }
  span = {last[0] - first_shift[0], last[1] - first_shift[1]};
}

// Source row p·stride + r·dilation − padding = e mod stride + stride·(p + ⌊e/stride⌋) with e = r·dilation − padding.
WindowPlan WindowPlan::of_convolution(const Attrs& attrs, const Shape& window, const Shape& output) {
  const ConvCall call = ConvCall::from(attrs);
  WindowPlan plan;
  plan.source_step = call.stride;
  Phase phase{{0, 0}, {output[2], output[3]}, {}};
  for (std::int64_t r = 0; r < window[2]; ++r) {
    for (std::int64_t s = 0; s < window[3]; ++s) {
      Tap tap{0, {}, {r, s}};
      std::array<std::int64_t, 2> plane;
      for (std::size_t d : {0, 1}) {
        const std::int64_t e = tap.at[d] * call.dilation[d] - call.padding[d];
        tap.shift[d] = floor_div(e, call.stride[d]);
        plane[d] = e - tap.shift[d] * call.stride[d];
      }
      const auto found = std::find(plan.planes.begin(), plan.planes.end(), plane);
      tap.plane = static_cast<int>(found - plan.planes.begin());
      if (found == plan.planes.end()) plan.planes.push_back(plane);
      phase.taps.push_back(tap);
    }
  }
  plan.phases.push_back(std::move(phase));
  plan.finish();
  return plan;
}

// Output row a + stride·i takes source row (a + padding − r·dilation)/stride + i from the taps r where that is whole.
WindowPlan WindowPlan::of_transposed(const Attrs& attrs, const Shape& window, const Shape& output) {
  const ConvCall call = ConvCall::from(attrs);
  WindowPlan plan;
  plan.output_step = call.stride;
  plan.planes = {{0, 0}};
  for (std::int64_t a = 0; a < std::min(call.stride[0], output[2]); ++a) {
    for (std::int64_t b = 0; b < std::min(call.stride[1], output[3]); ++b) {
      Phase phase{{a, b}, {ceil_div(output[2] - a, call.stride[0]), ceil_div(output[3] - b, call.stride[1])}, {}};
      for (std::int64_t r = 0; r < window[2]; ++r) {
        for (std::int64_t s = 0; s < window[3]; ++s) {
          const std::int64_t e[2] = {a + call.padding[0] - r * call.dilation[0],
                                     b + call.padding[1] - s * call.dilation[1]};
          if (e[0] % call.stride[0] != 0 || e[1] % call.stride[1] != 0) continue;
          phase.taps.push_back({0, {e[0] / call.stride[0], e[1] / call.stride[1]}, {r, s}});
        }
      }
      plan.phases.push_back(std::move(phase));
    }
  }
  plan.finish();
  return plan;
}

template <class T>
void WindowSource<T>::fill(std::int64_t n, std::int64_t first, std::int64_t channels, std::int64_t top, T* to) const {
  const std::int64_t height = source.shape[2], width = source.shape[3];
  const LoadFn load = tile_kernels().load(source.dtype, std::is_same_v<T, double> ? RegType::f64 : RegType::f32);
  const bool as_it_is = source.dtype == (std::is_same_v<T, double> ? DType::f64 : DType::f32);
  const auto pad_rows = window_kernels<T>().pad_rows;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (const auto& plane : plan.planes) {
      // Columns [left, right) of a row exist in the source.
      const std::int64_t step = plan.source_step[1], shift = plan.first_shift[1];
      const std::int64_t left = std::clamp<std::int64_t>(ceil_div(-plane[1], step) - shift, 0, pitch);
      const std::int64_t right = std::clamp<std::int64_t>(ceil_div(width - plane[1], step) - shift, left, pitch);
      if (as_it_is) {
        // Rows [first_row, last_row) exist.
        const std::int64_t row_step = plan.source_step[0], above = top + plan.first_shift[0];
        const std::int64_t first_row = std::clamp<std::int64_t>(ceil_div(-plane[0], row_step) - above, 0, rows);
        const std::int64_t last_row =
            left == right ? first_row
                          : std::clamp<std::int64_t>(ceil_div(height - plane[0], row_step) - above, first_row, rows);
        std::memset(to, 0, static_cast<std::size_t>(first_row * pitch) * sizeof(T));
        if (first_row < last_row) {
          const std::int64_t h = plane[0] + row_step * (above + first_row), w = plane[1] + step * (left + shift);
          const std::int64_t at =
              n * source.strides[0] + (first + c) * source.strides[1] + h * source.strides[2] + w * source.strides[3];
          pad_rows(last_row - first_row, reinterpret_cast<const T*>(element_at(source, at)),
                   row_step * source.strides[2], step * source.strides[3], left, right - left, pitch,
                   to + first_row * pitch);
        }
        std::memset(to + last_row * pitch, 0, static_cast<std::size_t>((rows - last_row) * pitch) * sizeof(T));
        to += rows * pitch;
        continue;
      }
      for (std::int64_t i = 0; i < rows; ++i, to += pitch) {
        const std::int64_t h = plane[0] + plan.source_step[0] * (top + i + plan.first_shift[0]);
        if (h < 0 || h >= height || left == right) {
          std::memset(to, 0, static_cast<std::size_t>(pitch) * sizeof(T));
          continue;
        }
        const std::int64_t w = plane[1] + step * (left + shift);
        const std::int64_t at =
            n * source.strides[0] + (first + c) * source.strides[1] + h * source.strides[2] + w * source.strides[3];
        for (std::int64_t j = 0; j < left; ++j) to[j] = 0;
        load(to + left, element_at(source, at), step * source.strides[3], static_cast<std::size_t>(right - left));
        for (std::int64_t j = right; j < pitch; ++j) to[j] = 0;
      }
    }
  }
  std::memset(to, 0, static_cast<std::size_t>(kSlack) * sizeof(T));
}

template struct WindowSource<float>;
template struct WindowSource<double>;

}  // namespace ebb::cpu
