// SPDX-License-Identifier: MIT
#include "cpu/window/plan.h"

#include <algorithm>
#include <cstring>

#include "calls/convolution.h"
#include "core/ceil_div.h"
#include "cpu/library/copy.h"
#include "cpu/tile/elements.h"
#include "cpu/window/kernels.h"

namespace ebb::cpu {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

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
  const ConvCall call = options_as<ConvCall>(attrs);
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
  const ConvCall call = options_as<ConvCall>(attrs);
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

void WindowPlan::separate_columns() {
  std::vector<std::array<std::int64_t, 2>> separate;
  for (Phase& phase : phases) {
    for (Tap& tap : phase.taps) {
      const auto [row, column] = planes[static_cast<std::size_t>(tap.plane)];
      const std::array<std::int64_t, 2> plane{row, column + source_step[1] * tap.shift[1]};
      const auto found = std::find(separate.begin(), separate.end(), plane);
      tap.plane = static_cast<int>(found - separate.begin());
      tap.shift[1] = 0;
      if (found == separate.end()) separate.push_back(plane);
    }
  }
  planes = std::move(separate);
  finish();
}

template <class T>
WindowSource<T>::WindowSource(const WindowPlan& plan, const View& source, std::int64_t band)
    : plan(plan), source(source), rows(band + plan.span[0]), pitch(plan.count[1] + plan.span[1]) {
  for (const auto& plane : plan.planes) {
    const std::int64_t step = plan.source_step[1], shift = plan.first_shift[1];
    Columns& c = columns.emplace_back();
    c.left = std::clamp<std::int64_t>(ceil_div(-plane[1], step) - shift, 0, pitch);
    c.right = std::clamp<std::int64_t>(ceil_div(source.shape[3] - plane[1], step) - shift, c.left, pitch);
    c.first = plane[1] + step * (c.left + shift);
  }
}

template <class T>
void WindowSource<T>::fill(std::int64_t n, std::int64_t first, std::int64_t channels, std::int64_t top, T* to) const {
  const LoadFn load = tile_kernels().load(source.dtype, std::is_same_v<T, double> ? RegType::f64 : RegType::f32);
  const bool as_it_is = source.dtype == (std::is_same_v<T, double> ? DType::f64 : DType::f32);
  const auto pad_rows = window_kernels<T>().pad_rows;
  const std::int64_t row_step = plan.source_step[0], above = top + plan.first_shift[0];
  const std::int64_t step = plan.source_step[1] * source.strides[3], row_stride = row_step * source.strides[2];
  const auto zero_rows = [&](std::int64_t many) {
    std::memset(to, 0, static_cast<std::size_t>(many * pitch) * sizeof(T));
    to += many * pitch;
  };
  std::vector<std::array<std::int64_t, 2>> exist;  // of each plane, the rows that do
  for (std::size_t p = 0; p < plan.planes.size(); ++p) {
    const std::int64_t start = plan.planes[p][0];
    const std::int64_t from = std::clamp<std::int64_t>(ceil_div(-start, row_step) - above, 0, rows);
    const std::int64_t end = std::clamp<std::int64_t>(ceil_div(source.shape[2] - start, row_step) - above, from, rows);
    exist.push_back({from, columns[p].left == columns[p].right ? from : end});
  }
  for (std::int64_t c = first; c < first + channels; ++c) {
    for (std::size_t p = 0; p < plan.planes.size(); ++p) {
      const auto [left, right, column] = columns[p];
      const auto [begin, end] = exist[p];
      zero_rows(begin);
      std::int64_t at = n * source.strides[0] + c * source.strides[1] +
                        (plan.planes[p][0] + row_step * (above + begin)) * source.strides[2] +
                        column * source.strides[3];
      if (as_it_is && begin < end) {
        pad_rows(end - begin, reinterpret_cast<const T*>(element_at(source, at)), row_stride, step, left, right - left,
                 pitch, to);
        to += (end - begin) * pitch;
      } else {
        for (std::int64_t i = begin; i < end; ++i, to += pitch, at += row_stride) {
          for (std::int64_t j = 0; j < left; ++j) to[j] = 0;
          load(to + left, element_at(source, at), step, static_cast<std::size_t>(right - left));
          for (std::int64_t j = right; j < pitch; ++j) to[j] = 0;
        }
      }
      zero_rows(rows - end);
    }
  }
  std::memset(to, 0, static_cast<std::size_t>(kSlack) * sizeof(T));
}

template struct WindowSource<float>;
template struct WindowSource<double>;

}  // namespace ebb::cpu
