// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "core/parallel.h"
#include "ebb/shape.h"

namespace ebb::cpu {

// Several tensors over one shape, seen as lines along one axis. Work along an axis (gather, scan, argmax, ...) is done
// for blocks of lines: within a block either line by line (if the axis is innermost in memory) or step by step along
// the axis for all lines at once (if it is not, and neighbouring lines are neighbours in memory). Different lines never
// touch the same output, so blocks are the unit of parallelism, and they depend on the shape alone.
template <int N>
class Lines {
 public:
  static constexpr std::int64_t kMostLines = 256;

  struct Block {
    std::int64_t first = 0, count = 0;
    std::int64_t offset[N][kMostLines];  // of the first element of each line, in each tensor
  };

  Lines(const Shape& shape, int axis, const std::array<Strides, N>& strides) : length_(shape[axis]) {
    for (int d = 0; d < shape.rank(); ++d) {
      if (d == axis) continue;
      lines_ *= shape[d];
      if (shape[d] == 1) continue;
      // Dimensions that are evenly spaced in all tensors are one.
      bool even = rank_ > 0;
      for (int t = 0; even && t < N; ++t)
        even = strides_[t][rank_ - 1] == strides[static_cast<std::size_t>(t)][d] * shape[d];
      if (even) {
        sizes_[rank_ - 1] *= shape[d];
      } else {
        sizes_[rank_++] = shape[d];
      }
      for (int t = 0; t < N; ++t) strides_[t][rank_ - 1] = strides[static_cast<std::size_t>(t)][d];
      if (d > axis) innermost_ = false;
    }
  }

  std::int64_t length() const { return length_; }
  std::int64_t lines() const { return lines_; }
  bool axis_is_innermost() const { return innermost_; }

  // All lines are evenly spaced in every tensor; then the offset from one to the next.
  bool even() const { return rank_ <= 1; }
  std::int64_t to_next(int tensor) const { return strides_[tensor][0]; }

  // body(first line, lines), in parallel.
  template <class Body>
  void for_each_range(Body&& body) const {
    if (lines_ == 0) return;
    constexpr std::int64_t kElements = 32768;  // a block's worth of work
    // Lines side by side in memory are processed at least a cache line at a time, however long they are.
    const std::int64_t least = innermost_ ? 1 : 64;
    const std::int64_t step =
        std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(1, length_), least, kMostLines);
    parallel_for((lines_ + step - 1) / step,
                 [&](std::int64_t i) { body(i * step, std::min(step, lines_ - i * step)); });
  }

  // body(const Block&), in parallel.
  template <class Body>
  void for_each_block(Body&& body) const {
    for_each_range([&](std::int64_t first, std::int64_t count) {
      Block block;
      fill(block, first, count);
      body(static_cast<const Block&>(block));
    });
  }

 private:
  void fill(Block& block, std::int64_t first, std::int64_t count) const {
    block.first = first;
    block.count = count;
    std::int64_t position[Shape::kMaxRank] = {}, at[N] = {};
    for (int d = rank_ - 1; d >= 0; --d) {
      position[d] = first % sizes_[d];
      first /= sizes_[d];
      for (int t = 0; t < N; ++t) at[t] += position[d] * strides_[t][d];
    }
    if (even()) {
      for (int t = 0; t < N; ++t) {
        for (std::int64_t l = 0; l < count; ++l) block.offset[t][l] = at[t] + l * strides_[t][0];
      }
      return;
    }
    for (std::int64_t l = 0; l < count; ++l) {
      for (int t = 0; t < N; ++t) block.offset[t][l] = at[t];
      for (int d = rank_ - 1; d >= 0; --d) {
        for (int t = 0; t < N; ++t) at[t] += strides_[t][d];
        if (++position[d] < sizes_[d]) break;
        for (int t = 0; t < N; ++t) at[t] -= sizes_[d] * strides_[t][d];
        position[d] = 0;
      }
    }
  }

  std::int64_t length_ = 0, lines_ = 1;
  std::int64_t sizes_[Shape::kMaxRank] = {}, strides_[N][Shape::kMaxRank] = {};
  int rank_ = 0;
  bool innermost_ = true;
};

}  // namespace ebb::cpu
