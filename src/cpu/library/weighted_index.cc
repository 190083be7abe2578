// SPDX-License-Identifier: MIT
// weighted_gather and the two others: rows of x [N, C, S] and y [N, C, P], index and weights [N, P, K]. Four rows at a
// time share each read of the index; every sum has the order of the index.
#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "calls/banded.h"
#include "core/format_error.h"
#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {
namespace {

constexpr std::int64_t kRows = 4;  // chosen, not measured

struct Sizes {
  std::int64_t images, rows, size, points, taps;
  Sizes(const View& x, const View& index)
      : images(index.shape[0]), rows(x.shape[1]), size(x.shape[2]), points(index.shape[1]), taps(index.shape[2]) {}
};

// -1 stands for a zero.
void check(const LibraryCall& call, const View& index, std::int64_t size) {
  const auto* at = static_cast<const std::int64_t*>(index.data);
  const std::int64_t n = index.shape.numel();
  for (std::int64_t i = 0; i < n; ++i) {
    if (at[i] >= -1 && at[i] < size) [[likely]]
      continue;
    const std::int64_t taps = index.shape[2], points = index.shape[1];
    fail(Error::Kind::index, "{}: index[{}, {}, {}] = {} is outside [0, {})", label_of(call), i / taps / points,
         i / taps % points, i % taps, at[i], size);
  }
}

// Rows of a tensor [N, C, L], as numbers of T: in place, or converted into `room`.
template <class T>
class RowReader {
 public:
  explicit RowReader(const View& v)
      : v_(v),
        in_place_(v.dtype == dtype_of_type<T>::value && (v.strides[2] == 1 || v.shape[2] == 1)),
        load_(tile_kernels().load(v.dtype, std::is_same_v<T, double> ? RegType::f64 : RegType::f32)) {}
  std::array<const T*, kRows> of(std::int64_t image, std::int64_t first, std::int64_t count,
                                 std::vector<T>& room) const {
    std::array<const T*, kRows> rows{};
    const auto length = static_cast<std::size_t>(v_.shape[2]);
    if (!in_place_) room.resize(static_cast<std::size_t>(kRows) * length);
    for (std::int64_t k = 0; k < kRows; ++k) {
      const std::int64_t row = first + std::min(k, count - 1);  // the rest repeat the last
      const std::byte* const at = element_at(v_, image * v_.strides[0] + row * v_.strides[1]);
      T* const to = room.data() + static_cast<std::size_t>(k) * length;
      if (!in_place_) load_(to, at, v_.strides[2], length);
      rows[static_cast<std::size_t>(k)] = in_place_ ? reinterpret_cast<const T*>(at) : to;
    }
    return rows;
  }

 private:
  const View& v_;
  bool in_place_;
  LoadFn load_;
};

// Calls body(image, first row, how many), some rows at a time.
template <class Body>
void each_rows(const Sizes& z, Body&& body) {
  const std::int64_t groups = (z.rows + kRows - 1) / kRows;
  parallel_for(z.images * groups, [&](std::int64_t task) {
    const std::int64_t first = task % groups * kRows;
    body(task / groups, first, std::min(kRows, z.rows - first));
  });
}

template <class T>
void store_weighted_row(const View& out, std::int64_t image, std::int64_t row, const T* from) {
  tile_kernels().store(std::is_same_v<T, double> ? RegType::f64 : RegType::f32, out.dtype)(
      element_at(out, image * out.strides[0] + row * out.strides[1]), 1, from, static_cast<std::size_t>(out.shape[2]));
}

// Sums along the output's rows; body(rows of the input, index, weights, sums) adds to those of some rows.
template <class T, class Body>
void sum_rows(const LibraryCall& call, const Sizes& z, const View& index, const View& weight, Body&& body) {
  const View& out = call.outputs[0];
  const RowReader<T> rows(call.inputs[0]);
  const std::int64_t length = out.shape[2];
  each_rows(z, [&](std::int64_t image, std::int64_t first, std::int64_t count) {
    std::vector<T> room, sums(static_cast<std::size_t>(kRows * length));
    const std::int64_t taps = image * z.points * z.taps;
    body(rows.of(image, first, count, room), static_cast<const std::int64_t*>(index.data) + taps,
         static_cast<const T*>(weight.data) + taps, sums.data());
    for (std::int64_t r = 0; r < count; ++r) store_weighted_row(out, image, first + r, sums.data() + r * length);
  });
}

template <class T>
void gather_rows(const LibraryCall& call, const View& index, const View& weight) {
  const Sizes z(call.inputs[0], index);
  sum_rows<T>(call, z, index, weight, [&](const auto& from, const std::int64_t* at, const T* w, T* sums) {
    for (std::int64_t p = 0; p < z.points; ++p) {
      T sum[kRows] = {};
      for (std::int64_t k = 0; k < z.taps; ++k, ++at, ++w) {
        if (*at >= 0) [[likely]] {
          for (std::size_t r = 0; r < kRows; ++r) sum[r] += *w * from[r][*at];
        } else {
          for (std::size_t r = 0; r < kRows; ++r) sum[r] += *w * T{0};  // NaN stays NaN
        }
      }
      for (std::int64_t r = 0; r < kRows; ++r) sums[r * z.points + p] = sum[r];
    }
  });
}

template <class T>
void scatter_rows(const LibraryCall& call, const View& index, const View& weight) {
  const Sizes z(call.outputs[0], index);
  sum_rows<T>(call, z, index, weight, [&](const auto& from, const std::int64_t* at, const T* w, T* sums) {
    for (std::int64_t p = 0; p < z.points; ++p) {
      for (std::int64_t k = 0; k < z.taps; ++k, ++at, ++w) {
        if (*at < 0) continue;
        for (std::size_t r = 0; r < kRows; ++r) sums[static_cast<std::int64_t>(r) * z.size + *at] += *w * from[r][p];
      }
    }
  });
}

template <class T>
void dot_rows(const LibraryCall& call, const View& index) {
  const View &x = call.inputs[0], &y = call.inputs[1], &out = call.outputs[0];
  const Sizes z(x, index);
  const RowReader<T> of_x(x), of_y(y);
  parallel_for(z.images, [&](std::int64_t image) {
    std::vector<T> room_x, room_y;
    const std::int64_t n = z.points * z.taps;
    const std::int64_t* const at = static_cast<const std::int64_t*>(index.data) + image * n;
    T* const to = static_cast<T*>(out.data) + image * n;
    std::fill(to, to + n, T{0});
    for (std::int64_t first = 0; first < z.rows; first += kRows) {
      const std::int64_t count = std::min(kRows, z.rows - first);
      const auto xs = of_x.of(image, first, count, room_x), ys = of_y.of(image, first, count, room_y);
      for (std::int64_t p = 0, i = 0; p < z.points; ++p) {
        for (std::int64_t k = 0; k < z.taps; ++k, ++i) {
          for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r)
            to[i] += ys[r][p] * (at[i] < 0 ? T{0} : xs[r][at[i]]);
        }
      }
    }
  });
}

template <class Run>
void in_compute_dtype(const LibraryCall& call, std::int64_t size, const View& index, Run&& run) {
  BufferPtr keep;
  const View at = packed(index, keep, label_of(call));
  check(call, at, size);
  if (call.outputs[0].shape.numel() == 0) return;
  compute_dtype(call.inputs[0].dtype) == DType::f64 ? run(Type<double>{}, at) : run(Type<float>{}, at);
}

}  // namespace

void run_weighted_gather(const LibraryCall& call) {
  if (is_banded(call.attrs)) return run_banded(call);
  in_compute_dtype(call, call.inputs[0].shape[2], call.inputs[1], [&](auto type, const View& index) {
    BufferPtr keep;
    gather_rows<typename decltype(type)::type>(call, index, packed(call.inputs[2], keep, label_of(call)));
  });
}
void run_weighted_scatter(const LibraryCall& call) {
  in_compute_dtype(call, call.outputs[0].shape[2], call.inputs[1], [&](auto type, const View& index) {
    BufferPtr keep;
    scatter_rows<typename decltype(type)::type>(call, index, packed(call.inputs[2], keep, label_of(call)));
  });
}
void run_gather_dot(const LibraryCall& call) {
  in_compute_dtype(call, call.inputs[0].shape[2], call.inputs[2],
                   [&](auto type, const View& index) { dot_rows<typename decltype(type)::type>(call, index); });
}

}  // namespace ebb::cpu
