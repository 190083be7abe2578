// SPDX-License-Identifier: MIT
#include "calls/distances.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "core/ceil_div.h"
#include "core/parallel.h"
#include "cpu/fused/distance_kernels.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/model/cpu_model.h"

// Distances in blocks of four rows and 64 columns, whose elements are interleaved in panels. An element's sum is in the
// order of its terms, whatever the shapes around it.
namespace ebb::cpu {
namespace {

template <class T>
BufferPtr room_for(std::int64_t count) {
  return BufferPtr::allocate(static_cast<std::size_t>(std::max<std::int64_t>(1, count)) * sizeof(T), "distances");
}
template <class T>
T* elements(const BufferPtr& buffer) {
  return reinterpret_cast<T*>(buffer.data());
}

// Many batches are distributed among threads; with few, each uses all threads.
template <class Body>
void each_batch(std::int64_t batches, const Body& body) {
  if (batches >= cpu_model().many_batches) return parallel_for(batches, body);
  for (std::int64_t i = 0; i < batches; ++i) body(i);
}

// Rows x [n, depth] as panels [n/kDistanceColumns][depth][kDistanceColumns]; missing columns are 0.
template <class T>
void pack_panels(const T* x, std::int64_t n, std::int64_t depth, T* panels) {
  parallel_for(ceil_div(n, kDistanceColumns), [&](std::int64_t p) {
    T* const to = panels + p * depth * kDistanceColumns;
    const std::int64_t many = std::min(kDistanceColumns, n - p * kDistanceColumns);
    if (many < kDistanceColumns) std::fill_n(to, depth * kDistanceColumns, T{0});
    const T* const from = x + p * kDistanceColumns * depth;
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t j = 0; j < many; ++j) to[k * kDistanceColumns + j] = from[j * depth + k];
    }
  });
}

// Numbers of rows and columns: row i and column j at i·row + j·column, or, for pairs, at their place in the list.
template <class T>
struct Pairing {
  T* data;
  std::int64_t row, column, n;
  bool pairs;

  // Stores numbers (i, first ...) of a line; for pairs only those with i < j.
  void store(std::int64_t i, std::int64_t first, std::int64_t many, const T* line) const {
    if (pairs) {
      const std::int64_t from = std::max(first, i + 1);
      if (from >= first + many) return;
      std::copy_n(line + from - first, first + many - from, data + pairs_before(i, n) + from - i - 1);
    } else if (column == 1) {
      std::copy_n(line, many, data + i * row + first);
    } else {
      for (std::int64_t j = 0; j < many; ++j) data[i * row + (first + j) * column] = line[j];
    }
  }

  // to[r·stride + j] = number (top + r, first + j)
  void load(std::int64_t top, std::int64_t rows, std::int64_t first, std::int64_t many, std::remove_const_t<T>* to,
            std::int64_t stride) const {
    if (pairs) {
      for (std::int64_t r = 0; r < rows; ++r) load_pairs(top + r, first, many, to + r * stride);
    } else if (column == 1) {
      for (std::int64_t r = 0; r < rows; ++r) std::copy_n(data + (top + r) * row + first, many, to + r * stride);
    } else {
      for (std::int64_t j = 0; j < many; ++j) {
        for (std::int64_t r = 0; r < rows; ++r) to[r * stride + j] = data[(top + r) * row + (first + j) * column];
      }
    }
  }

 private:
  // Row i of the symmetric matrix: its part left of the diagonal is in column i.
  void load_pairs(std::int64_t i, std::int64_t first, std::int64_t many, std::remove_const_t<T>* to) const {
    const std::int64_t end = first + many;
    std::int64_t j = first;
    for (; j < std::min(i, end); ++j) to[j - first] = data[pairs_before(j, n) + i - j - 1];
    if (j == i && j < end) to[j++ - first] = 0;
    if (j < end) std::copy_n(data + pairs_before(i, n) + j - i - 1, end - j, to + j - first);
  }
};

template <class T>
void all_distances(const T* a, std::int64_t m, const T* panels, std::int64_t n, std::int64_t depth, std::int64_t p,
                   const Pairing<T>& to) {
  const DistanceKernels<T>& kernels = distance_kernels<T>();
  const std::int64_t task_rows = cpu_model().distance_rows, task_panels = cpu_model().distance_panels;
  const std::int64_t all_panels = ceil_div(n, kDistanceColumns), across = ceil_div(all_panels, task_panels);
  parallel_for(ceil_div(m, task_rows) * across, [&](std::int64_t task) {
    const std::int64_t top = task / across * task_rows, bottom = std::min(m, top + task_rows);
    const std::int64_t begin = task % across * task_panels, end = std::min(all_panels, begin + task_panels);
    alignas(64) T block[kDistanceRows * kDistanceColumns];
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t first = panel * kDistanceColumns, many = std::min(kDistanceColumns, n - first);
      for (std::int64_t i = top; i < bottom; i += kDistanceRows) {
        if (to.pairs && first + many <= i + 1) continue;
        const std::int64_t rows = std::min(kDistanceRows, bottom - i);
        const T *const x = a + i * depth, *const y = panels + panel * depth * kDistanceColumns;
        if (!kernels.block[p - 1](rows, depth, x, y, block)) kernels.any_range(rows, depth, x, y, block);
        for (std::int64_t r = 0; r < rows; ++r) to.store(i + r, first, many, block + r * kDistanceColumns);
      }
    }
  });
}

// Rows of `depth` elements padded with zeros to `width`; unchanged if they have that width.
template <class T>
const T* wide_rows(const T* x, std::int64_t rows, std::int64_t depth, std::int64_t width, BufferPtr& keep) {
  if (depth == width) return x;
  keep = room_for<T>(rows * width);
  T* const to = elements<T>(keep);
  const std::int64_t step = ceil_div(cpu_model().pool_elements, width);
  parallel_for(ceil_div(rows, step), [&](std::int64_t task) {
    for (std::int64_t i = task * step; i < std::min(rows, (task + 1) * step); ++i) {
      std::copy_n(x + i * depth, depth, to + i * width);
      std::fill_n(to + i * width + depth, width - depth, T{0});
    }
  });
  return to;
}

template <class T>
void gradient_to_rows(const T* a, std::int64_t m, const T* b, std::int64_t n, std::int64_t depth, std::int64_t p,
                      const Pairing<const T>& g, const Pairing<const T>& d, T* out) {
  const DistanceKernels<T>& kernels = distance_kernels<T>();
  const std::int64_t width = ceil_div(depth, kDistanceWidth) * kDistanceWidth;
  BufferPtr keep_a, keep_b;
  const T* const rows_a = wide_rows(a, m, depth, width, keep_a);
  const T* const rows_b = a == b ? rows_a : wide_rows(b, n, depth, width, keep_b);
  const std::int64_t task_rows = cpu_model().distance_rows;
  const std::int64_t part = std::min(n, cpu_model().distance_runs * kDistanceRun);  // columns at a time
  parallel_for(ceil_div(m, task_rows), [&](std::int64_t task) {
    const std::int64_t top = task * task_rows, rows = std::min(task_rows, m - top);
    std::vector<T> weights(static_cast<std::size_t>(task_rows * part)), distances(p == 2 ? weights.size() : 0);
    std::vector<double> sums(static_cast<std::size_t>(task_rows * width));
    for (std::int64_t first = 0; first < n; first += part) {
      const std::int64_t many = std::min(part, n - first);
      g.load(top, rows, first, many, weights.data(), part);
      if (p == 2) {
        d.load(top, rows, first, many, distances.data(), part);
        kernels.divide(rows * part, distances.data(), weights.data());
      }
      for (std::int64_t r = 0; r < rows; r += kDistanceRows) {
        kernels.pull[p - 1](std::min(kDistanceRows, rows - r), width, rows_a + (top + r) * width,
                            rows_b + first * width, weights.data() + r * part, part, many, sums.data() + r * width);
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < depth; ++k)
        out[(top + r) * depth + k] = static_cast<T>(sums[static_cast<std::size_t>(r * width + k)]);
    }
  });
}

template <class T>
void distances_of(const LibraryCall& call) {
  const auto& options = options_as<DistanceCall>(call.attrs);
  BufferPtr keep_a, keep_b;
  const View a = packed(call.inputs[0], keep_a, "distances");
  const View b = options.pairs ? a : packed(call.inputs[1], keep_b, "distances");
  const int rank = a.shape.rank();
  const std::int64_t depth = a.shape[rank - 1], batches = rank == 3 ? a.shape[0] : 1;
  const std::int64_t rows_a = a.shape[rank - 2], rows_b = b.shape[rank - 2];
  // The longer side is vectorised; distances are symmetric.
  const bool turned = !options.pairs && rows_b < kDistanceColumns && rows_a > rows_b;
  const std::int64_t m = turned ? rows_b : rows_a, n = turned ? rows_a : rows_b;
  each_batch(batches, [&](std::int64_t i) {
    const T *rows = static_cast<const T*>(a.data) + i * rows_a * depth,
            *columns = static_cast<const T*>(b.data) + i * rows_b * depth;
    if (turned) std::swap(rows, columns);
    const BufferPtr panels = room_for<T>(ceil_div(n, kDistanceColumns) * kDistanceColumns * depth);
    pack_panels(columns, n, depth, elements<T>(panels));
    T* const to = static_cast<T*>(call.outputs[0].data) + i * m * n;
    all_distances<T>(rows, m, elements<T>(panels), n, depth, options.p,
                     {to, turned ? 1 : n, turned ? m : 1, n, options.pairs});
  });
}

template <class T>
void gradient_of(const LibraryCall& call) {
  const auto& options = options_as<DistanceCall>(call.attrs);
  const View &g = call.inputs[0], &d = call.inputs[1];
  BufferPtr keep_a, keep_b;
  const View a = packed(call.inputs[2], keep_a, "distances");
  const View b = options.pairs ? a : packed(call.inputs[3], keep_b, "distances");
  const int rank = a.shape.rank();
  const std::int64_t depth = a.shape[rank - 1], batches = rank == 3 ? a.shape[0] : 1;
  const std::int64_t m = a.shape[rank - 2], n = b.shape[rank - 2];
  const auto *const of_a = static_cast<const T*>(a.data), *const of_b = static_cast<const T*>(b.data);
  T* const out = static_cast<T*>(call.outputs[0].data);
  if (options.pairs) {
    BufferPtr keep_g, keep_d;
    const View dense_g = packed(g, keep_g, "distances"), dense_d = packed(d, keep_d, "distances");
    return gradient_to_rows<T>(of_a, m, of_a, n, depth, options.p, {static_cast<const T*>(dense_g.data), 0, 0, n, true},
                               {static_cast<const T*>(dense_d.data), 0, 0, n, true}, out);
  }
  each_batch(batches, [&](std::int64_t i) {
    const auto part_of = [&](const View& v) {
      return Pairing<const T>{static_cast<const T*>(v.data) + i * v.strides[0], v.strides[1], v.strides[2], n, false};
    };
    gradient_to_rows<T>(of_a + i * m * depth, m, of_b + i * n * depth, n, depth, options.p, part_of(g), part_of(d),
                        out + i * m * depth);
  });
}

}  // namespace

void run_distances(const LibraryCall& call) {
  if (call.outputs[0].shape.numel() == 0) return;
  call.outputs[0].dtype == DType::f64 ? distances_of<double>(call) : distances_of<float>(call);
}

void run_distances_gradient(const LibraryCall& call) {
  if (call.outputs[0].shape.numel() == 0) return;
  call.outputs[0].dtype == DType::f64 ? gradient_of<double>(call) : gradient_of<float>(call);
}

}  // namespace ebb::cpu
