// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>

#include "core/buffer.h"
#include "cpu/gemm/call.h"

namespace ebb::cpu {

// y = alpha·x·M or y += alpha·x·M, M [k, outputs], read once, in place.
template <class T>
class VectorProduct {
 public:
  VectorProduct(const GemmVectors<T>& vectors, const Call<T>& call, std::int64_t outputs, const Matrix<T>& x,
                const Matrix<T>& matrix, std::int64_t y_stride, const GemmPlan& plan)
      : vectors_(vectors), call_(call), plan_(plan), x_(x), matrix_(matrix), outputs_(outputs), y_stride_(y_stride) {}

  void run() const {
    if (plan_.order == GemmPlan::Order::depth) return share_depth();
    const std::int64_t step = plan_.task_cols;
    for_each(plan_.shared, ceil_div(outputs_, step), [&](std::int64_t task) {
      const std::int64_t j = task * step, n = std::min(step, outputs_ - j);
      T sum[kGemmMostVectorOutputs];
      for (std::int64_t p = 0; p < blocks_; ++p) {
        block(p, j, n, sum);
        write(p, j, n, sum);
      }
    });
  }

 private:
  static constexpr std::int64_t kRuns = 8;

  void share_depth() const {
    const std::int64_t per_task = plan_.at_a_time;
    const BufferPtr memory = BufferPtr::allocate(static_cast<std::size_t>(blocks_ * outputs_) * sizeof(T), "matmul");
    T* sums = reinterpret_cast<T*>(memory.data());
    for_each(plan_.shared, ceil_div(blocks_, per_task), [&](std::int64_t task) {
      std::int64_t p = task * per_task;
      const std::int64_t end = std::min(blocks_, p + per_task), whole = std::min(end, call_.k / depth_);
      while (plan_.side_by_side && p < whole) {
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
  const GemmPlan& plan_;
  const Matrix<T> x_, matrix_;
  const std::int64_t outputs_, y_stride_;
  const std::int64_t depth_ = plan_.depth, blocks_ = plan_.blocks;
};

}  // namespace ebb::cpu
