// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>

#include "core/buffer.h"
#include "cpu/gemm/call.h"

namespace ebb::cpu {

// y = alpha·x·M or y += alpha·x·M, M [k, outputs], read once where it lies.
template <class T>
class VectorProduct {
 public:
  VectorProduct(const GemmVectors<T>& vectors, const Call<T>& call, std::int64_t outputs, const Matrix<T>& x,
                const Matrix<T>& matrix, std::int64_t y_stride)
      : vectors_(vectors), call_(call), x_(x), matrix_(matrix), outputs_(outputs), y_stride_(y_stride) {}

  void run() const {
    // Tasks read M in long runs: whole rows of it where they are dense (at 4096² that is 20 GB/s, and 12 in pieces of
    // 512), which leaves k to share; else the outputs are shared, if there are enough to keep the processor busy.
    const bool few = outputs_ < 4 && blocks_ > 1, dense_rows = matrix_.col_stride == 1;
    const bool large = call_.shared && outputs_ * call_.k >= 2 * kLeastElements;
    if (few || (large && blocks_ > 1 && (dense_rows || outputs_ < 256))) return share_depth(few);
    const std::int64_t least = pieces_of(kLeastElements / call_.k, 64) * 64;
    const std::int64_t step = dense_rows ? kMostOutputs : std::clamp<std::int64_t>(least, 64, kMostOutputs);
    call_.for_each(pieces_of(outputs_, step), [&](std::int64_t task) {
      const std::int64_t j = task * step, n = std::min(step, outputs_ - j);
      T sum[kMostOutputs];
      for (std::int64_t p = 0; p < blocks_; ++p) {
        block(p, j, n, sum);
        write(p, j, n, sum);
      }
    });
  }

 private:
  static constexpr std::int64_t kMostOutputs = 4096, kRuns = 8;
  static constexpr std::int64_t kLeastElements = 1 << 17;  // of M, a task

  void share_depth(bool few) const {
    const std::int64_t per_task = std::max<std::int64_t>(1, kLeastElements / (outputs_ * depth_));
    const BufferPtr memory = BufferPtr::allocate(static_cast<std::size_t>(blocks_ * outputs_) * sizeof(T), "matmul");
    T* sums = reinterpret_cast<T*>(memory.data());
    call_.for_each(pieces_of(blocks_, per_task), [&](std::int64_t task) {
      std::int64_t p = task * per_task;
      const std::int64_t end = std::min(blocks_, p + per_task), whole = std::min(end, call_.k / depth_);
      while (few && p < whole) {
        const std::int64_t count = std::min(kRuns, whole - p);
        runs(p, count, sums + p * outputs_);
        p += count;
      }
      for (; p < end; ++p) block(p, 0, outputs_, sums + p * outputs_);
    });
    for (std::int64_t p = 0; p < blocks_; ++p) write(p, 0, outputs_, sums + p * outputs_);
  }

  static GemmSource source(const Matrix<T>& x) { return {x.data, x.dtype, x.col_stride, x.row_stride}; }

  // x[first, first + count)
  void read(std::int64_t first, std::int64_t count, T* numbers) const {
    gemm_kernels<T>().read_vector(source(x_.from(0, first).transposed()), count, numbers);
  }

  // Block p of k, for outputs [j, j + n).
  void block(std::int64_t p, std::int64_t j, std::int64_t n, T* sum) const {
    const std::int64_t first = p * depth_, depth = std::min(depth_, call_.k - first);
    T numbers[kGemmMostDepth];
    read(first, depth, numbers);
    vectors_.multiply_vector(n, depth, numbers, source(matrix_.from(first, j)), sum);
  }

  // Blocks [p, p + count), at most kRuns, side by side.
  void runs(std::int64_t p, std::int64_t count, T* sums) const {
    const std::int64_t first = p * depth_;
    T numbers[kRuns * kGemmMostDepth];
    read(first, count * depth_, numbers);
    for (std::int64_t j = 0; j < outputs_; ++j)
      vectors_.multiply_runs(count, depth_, numbers, source(matrix_.from(first, j)), sums + j, outputs_);
  }

  void write(std::int64_t p, std::int64_t j, std::int64_t n, const T* sum) const {
    T* y = call_.c + j * y_stride_;
    for (std::int64_t i = 0; i < n; ++i) {
      const T product = call_.alpha * sum[i];
      y[i * y_stride_] = call_.add || p > 0 ? y[i * y_stride_] + product : product;
    }
  }

  const GemmVectors<T>& vectors_;
  const Call<T>& call_;
  const Matrix<T> x_, matrix_;
  const std::int64_t outputs_, y_stride_;
  const std::int64_t depth_ = gemm_depth(call_.k, vectors_.most_depth), blocks_ = pieces_of(call_.k, depth_);
};

}  // namespace ebb::cpu
