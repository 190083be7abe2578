// SPDX-License-Identifier: MIT
// The threshold of sparsemax: τ with Σ max(0, x − τ) = 1 along a line.
#include <algorithm>
#include <limits>
#include <vector>

#include "cpu/library/lines.h"
#include "cpu/library/ops.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {
namespace {

// The largest number; NaN is ignored.
template <class T>
T largest(const T* x, std::int64_t n, std::int64_t step) {
  constexpr std::int64_t kLanes = 16;
  T best[kLanes];
  std::fill(best, best + kLanes, -std::numeric_limits<T>::infinity());
  std::int64_t i = 0;
  if (step == 1) {
    for (; i + kLanes <= n; i += kLanes) {
      for (std::int64_t j = 0; j < kLanes; ++j) best[j] = x[i + j] > best[j] ? x[i + j] : best[j];
    }
  }
  for (; i < n; ++i) best[0] = x[i * step] > best[0] ? x[i * step] : best[0];
  return *std::max_element(best, best + kLanes);
}

// The largest element exceeds τ by at most 1, so elements further below it do not enter the sum; of the rest, those
// below the threshold of the sum so far are dropped, until none is (Michelot, 1986). Few are left after the first pass,
// whatever the line's length. NaN is never dropped, and makes the threshold NaN.
template <class T>
double threshold_of(const T* x, std::int64_t n, std::int64_t step, std::vector<T>& kept) {
  const T top = largest(x, n, step), low = top - T(1);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    kept[static_cast<std::size_t>(count)] = x[i * step];
    count += !(x[i * step] <= low);
  }
  for (;;) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(kept[static_cast<std::size_t>(i)]) - top;
    const double threshold = (sum - 1) / static_cast<double>(count);
    std::int64_t left = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const T value = kept[static_cast<std::size_t>(i)];
      kept[static_cast<std::size_t>(left)] = value;
      left += !(static_cast<double>(value) - top <= threshold);
    }
    if (left == count) return count > 0 ? threshold + top : std::numeric_limits<double>::quiet_NaN();
    count = left;
  }
}

}  // namespace

void run_sparsemax_threshold(const LibraryCall& call) {
  const View& x = call.inputs[0];
  const int axis = static_cast<int>(call.attrs.i[0]);
  const Lines<2> lines(x.shape, axis, {contiguous_strides(x.shape.with(axis, 1)), x.strides});
  const auto each = [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(x.data);
    T* to = static_cast<T*>(call.outputs[0].data);
    lines.for_each_block([&](const Lines<2>::Block& block) {
      std::vector<T> kept(static_cast<std::size_t>(lines.length()));
      for (std::int64_t l = 0; l < block.count; ++l) {
        const double t = threshold_of(from + block.offset[1][l], lines.length(), x.strides[axis], kept);
        to[block.offset[0][l]] = static_cast<T>(t);
      }
    });
  };
  x.dtype == DType::f64 ? each(0.0) : each(0.0f);
}

}  // namespace ebb::cpu
