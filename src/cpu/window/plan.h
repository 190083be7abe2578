// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "backend/call.h"

namespace ebb::cpu {

// How outputs map to a source, along rows and columns. Output i of a phase takes source element planes[tap.plane] +
// source_step·(i + tap.shift) for every tap: strides of a convolution split the source into planes, strides of a
// transposed one split the result into phases, and the rest has stride 1 in both cases.
struct WindowPlan {
  struct Tap {
    int plane;                          // which of `planes`
    std::array<std::int64_t, 2> shift;  // from the output's position
    std::array<std::int64_t, 2> at;     // in the window: r, s
  };
  struct Phase {
    std::array<std::int64_t, 2> start, count;  // outputs start + output_step·i, i < count
    std::vector<Tap> taps;
  };
  std::array<std::int64_t, 2> source_step{1, 1}, output_step{1, 1};
  std::vector<std::array<std::int64_t, 2>> planes;  // the first row and column of each phase of the source in use
  std::vector<Phase> phases;
  std::array<std::int64_t, 2> first_shift{0, 0}, span{0, 0};  // shifts lie in [first, first + span]
  std::array<std::int64_t, 2> count{0, 0};                    // the largest of the phases' counts

  // window: R, S; outputs: P, Q of the convolution, or H, W of the transposed one.
  static WindowPlan of_convolution(const Attrs& attrs, const Shape& window, const Shape& output);
  static WindowPlan of_transposed(const Attrs& attrs, const Shape& window, const Shape& output);

  // One plane per column that taps begin at: the positions of outputs are then contiguous in the source, from row to
  // row as well.
  void separate_columns();

 private:
  void finish();
};

// Copies of the source in which every row needed by a band of outputs is dense and padded with zeros:
// [channel][plane][row][pitch].
template <class T>
struct WindowSource {
  const WindowPlan& plan;
  const View& source;  // [N, C, H, W]
  std::int64_t rows, pitch;
  static constexpr std::int64_t kSlack = 64;  // elements that the last vectors may read beyond the end

  struct Columns {
    std::int64_t left, right, first;  // [left, right) of a row exist in the source, from column `first` on
  };
  std::vector<Columns> columns;  // of each plane

  WindowSource(const WindowPlan& plan, const View& source, std::int64_t band);
  std::int64_t plane_size() const { return rows * pitch; }
  std::int64_t channel_size() const { return static_cast<std::int64_t>(plan.planes.size()) * plane_size(); }
  std::int64_t offset(std::int64_t channel, const WindowPlan::Tap& tap) const {
    return channel * channel_size() + tap.plane * plane_size() + (tap.shift[0] - plan.first_shift[0]) * pitch +
           tap.shift[1] - plan.first_shift[1];
  }
  // Channels [first, first + channels) of image n, for outputs from row `top` of each phase.
  void fill(std::int64_t n, std::int64_t first, std::int64_t channels, std::int64_t top, T* to) const;
};

}  // namespace ebb::cpu
