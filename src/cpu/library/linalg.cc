// SPDX-License-Identifier: MIT
// Factorisations and solves of batches of matrices: of up to eight rows by loops of their own, several matrices per
// task, larger ones by blocks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/matrix_errors.h"
#include "calls/factors.h"
#include "calls/triangular_solve.h"
#include "core/parallel.h"
#include "cpu/library/blocked.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/library/small_matrices.h"
#include "cpu/tile/elements.h"
#include "ebb/memory.h"

namespace ebb::cpu {
namespace {

// Sizes of the last two dimensions and the number of matrices before them.
struct Batch {
  std::int64_t count = 1, rows = 0, cols = 0;
  explicit Batch(const Shape& shape) : rows(shape[shape.rank() - 2]), cols(shape[shape.rank() - 1]) {
    for (int d = 0; d < shape.rank() - 2; ++d) count *= shape[d];
  }
  std::int64_t matrix() const { return rows * cols; }
};

// Calls body(i, work) for every matrix of a batch; several small ones per task. Too few for all threads: one after the
// other, each by all of them.
template <class Body>
void for_each_matrix(std::int64_t count, std::int64_t n, Body&& body) {
  if (n > kSmallMatrix && count < num_threads()) {
    for (std::int64_t i = 0; i < count; ++i) body(i, Work::shared);
    return;
  }
  const std::int64_t together = n <= kSmallMatrix ? 128 : 1;
  parallel_for((count + together - 1) / together, [&](std::int64_t task) {
    for (std::int64_t i = task * together; i < std::min(count, (task + 1) * together); ++i) body(i, Work::serial);
  });
}

View with_last_two_swapped(View v) {
  const int rank = v.shape.rank();
  const std::int64_t rows = v.shape[rank - 2], cols = v.shape[rank - 1];
  v.shape = v.shape.with(rank - 2, cols).with(rank - 1, rows);
  std::swap(v.strides[rank - 2], v.strides[rank - 1]);
  return v;
}

// A dense copy that may be overwritten, in the compute type (halves: f32).
View own_copy(const View& x, BufferPtr& keep, const char* what) {
  if (is_half(x.dtype)) return packed_as_f32(x, keep, what);
  keep = BufferPtr::allocate(static_cast<std::size_t>(x.shape.numel()) * size_of(x.dtype), what);
  const View dst{keep.data(), x.dtype, x.shape, contiguous_strides(x.shape)};
  copy_elements(dst, x);
  return dst;
}

// Writes the computed elements (dense, f32 for halves) to the output.
void deliver(const View& out, const View& computed) {
  if (!is_half(out.dtype)) return copy_elements(out, computed);
  BufferPtr keep;
  const View values = packed(computed, keep, "linear algebra");
  float_to_halves(out.dtype, static_cast<const float*>(values.data), out.data, out.shape.numel());
}

template <class F>
void with_real_type(const LibraryCall& call, F&& f) {
  const DType dtype = call.inputs[0].dtype;
  if (dtype == DType::f64) return f(Type<double>{});
  if (!is_floating(dtype)) throw not_floating(label_of(call), dtype);
  f(Type<float>{});
}

// The first matrix of the batch that failed, so that the error does not depend on the order of threads.
std::int64_t first_failure(const std::vector<int>& info) {
  const auto bad = std::find_if(info.begin(), info.end(), [](int i) { return i != 0; });
  return bad == info.end() ? -1 : bad - info.begin();
}

// LU factors of every matrix, in place: small ones are column-major. Their pivots, and the first column without one.
template <class T>
struct Factors {
  std::vector<int> pivots, info;
  Factors(T* matrices, std::int64_t n, std::int64_t count)
      : pivots(static_cast<std::size_t>(n * count)), info(static_cast<std::size_t>(count)) {
    for_each_matrix(count, n, [&](std::int64_t i, Work work) {
      T* const a = matrices + i * n * n;
      info[static_cast<std::size_t>(i)] = n <= kSmallMatrix ? small_getrf(static_cast<int>(n), a, pivots_of(i, n))
                                                            : factor_lu(n, a, pivots_of(i, n), work);
    });
  }
  int* pivots_of(std::int64_t i, std::int64_t n) { return pivots.data() + i * n; }
};

// Calls body(sign, log of the absolute value, product) for every determinant; the product is computed in f64.
template <class Body>
void for_each_determinant(const LibraryCall& call, Body&& body) {
  const View& a = call.inputs[0];
  const Batch batch(a.shape);
  with_real_type(call, [&](auto type) {
    using T = typename decltype(type)::type;
    BufferPtr keep;
    const View copy = own_copy(a, keep, label_of(call));
    T* matrices = static_cast<T*>(copy.data);
    const std::int64_t n = batch.rows;
    if (n == 0) {
      for (std::int64_t i = 0; i < batch.count; ++i) body(i, 1.0, 0.0, 1.0);
      return;
    }
    Factors<T> factors(matrices, n, batch.count);
    for (std::int64_t i = 0; i < batch.count; ++i) {
      double sign = 1, logarithm = 0, product = 1;
      const int* pivots = factors.pivots_of(i, n);
      for (std::int64_t d = 0; d < n; ++d) {
        const double u = matrices[i * n * n + d * (n + 1)];
        if (pivots[d] != d + 1) sign = -sign;
        if (u < 0) sign = -sign;
        if (u == 0) sign = 0;
        logarithm += std::log(std::fabs(u));
        product *= pivots[d] != d + 1 ? -u : u;
      }
      body(i, sign, logarithm, product);
    }
  });
}

void store_real(const View& out, std::int64_t i, double value) {
  with_type(out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_floating_point_v<T>) {
      static_cast<T*>(out.data)[i] = static_cast<T>(value);
    } else if constexpr (is_half_type<T>) {
      const float single = static_cast<float>(value);
      float_to_halves(out.dtype, &single, static_cast<T*>(out.data) + i, 1);
    }
  });
}

}  // namespace

// A = L·Lᵀ, reading only the lower triangle of A: A = Uᵀ·U of the upper one of Aᵀ, and L = Uᵀ. (A small matrix is
// column-major in the same memory, as A is.)
void run_cholesky(const LibraryCall& call) {
  const View &a = call.inputs[0], &out = call.outputs[0];
  const Batch batch(a.shape);
  if (a.shape.numel() == 0) return;
  with_real_type(call, [&](auto type) {
    using T = typename decltype(type)::type;
    BufferPtr keep;
    const std::int64_t n = batch.rows;
    const bool small = n <= kSmallMatrix;
    const View copy = own_copy(small ? a : with_last_two_swapped(a), keep, label_of(call));
    std::vector<int> info(static_cast<std::size_t>(batch.count));
    for_each_matrix(batch.count, n, [&](std::int64_t i, Work work) {
      T* matrix = static_cast<T*>(copy.data) + i * n * n;
      info[static_cast<std::size_t>(i)] =
          small ? small_potrf(static_cast<int>(n), matrix) : factor_cholesky(n, matrix, work);
      for (std::int64_t r = 0; r < n; ++r) {  // the other triangle
        const std::int64_t first = small ? r + 1 : 0, end = small ? n : r;
        std::fill(matrix + r * n + first, matrix + r * n + end, T(0));
      }
    });
    if (const std::int64_t bad = first_failure(info); bad >= 0)
      throw not_positive_definite(label_of(call), a.shape, bad, info[static_cast<std::size_t>(bad)]);
    deliver(out, small ? copy : with_last_two_swapped(copy));
  });
}

// Calls solve(matrix, first element of X, columns) for parts of the columns of every right-hand side [n, k], in
// parallel: columns are solved independently.
template <class Solve>
void for_each_part(std::int64_t count, std::int64_t n, std::int64_t k, Solve&& solve) {
  constexpr std::int64_t kColumns = 128;
  const std::int64_t across = (k + kColumns - 1) / kColumns;
  parallel_for(count * across, [&](std::int64_t task) {
    const std::int64_t i = task / across, column = task % across * kColumns;
    solve(i, i * n * k + column, std::min(kColumns, k - column));
  });
}

// op(A)·X = B with A triangular.
void run_triangular_solve(const LibraryCall& call) {
  const View &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  const Batch batch(b.shape);
  if (b.shape.numel() == 0) return;
  const auto& options = options_as<TriangularSolveCall>(call.attrs);
  const Triangle triangle{options.upper, options.transposed, options.unit_diagonal};
  with_real_type(call, [&](auto type) {
    using T = typename decltype(type)::type;
    BufferPtr keep_a, keep_b;
    const View matrices =
        is_half(a.dtype) ? packed_as_f32(a, keep_a, label_of(call)) : packed(a, keep_a, label_of(call));
    const View x = own_copy(b, keep_b, label_of(call));
    const std::int64_t n = batch.rows, k = batch.cols;
    const auto solve = [&](std::int64_t i, std::int64_t first, std::int64_t columns) {
      solve_triangle(triangle, n, columns, static_cast<const T*>(matrices.data) + i * n * n, n,
                     static_cast<T*>(x.data) + first, k, Work::serial);
    };
    if (n <= kSmallMatrix)
      for_each_matrix(batch.count, n, [&](std::int64_t i, Work) { solve(i, i * n * k, k); });
    else
      for_each_part(batch.count, n, k, solve);
    deliver(out, x);
  });
}

// A·X = B by LU with partial pivoting; small matrices and their right-hand sides are column-major.
void run_solve(const LibraryCall& call) {
  const View &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  const Batch batch(b.shape);
  if (a.shape.numel() == 0) return;
  with_real_type(call, [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t n = batch.rows, k = batch.cols;
    const bool small = n <= kSmallMatrix;
    const auto ordered = [small](const View& v) { return small ? with_last_two_swapped(v) : v; };
    BufferPtr keep_a, keep_b;
    const View lu = own_copy(ordered(a), keep_a, label_of(call)), x = own_copy(ordered(b), keep_b, label_of(call));
    const auto* const matrices = static_cast<const T*>(lu.data);
    auto* const solutions = static_cast<T*>(x.data);
    Factors<T> factors(static_cast<T*>(lu.data), n, batch.count);
    if (const std::int64_t bad = first_failure(factors.info); bad >= 0)
      throw singular(label_of(call), a.shape, bad, factors.info[static_cast<std::size_t>(bad)]);
    if (k == 0) return;
    if (small) {
      for_each_matrix(batch.count, n, [&](std::int64_t i, Work) {
        small_getrs(static_cast<int>(n), static_cast<int>(k), matrices + i * n * n, factors.pivots_of(i, n),
                    solutions + i * n * k);
      });
      return deliver(out, with_last_two_swapped(x));
    }
    for_each_part(batch.count, n, k, [&](std::int64_t i, std::int64_t first, std::int64_t columns) {
      const T* const matrix = matrices + i * n * n;
      const int* const pivots = factors.pivots_of(i, n);
      T* const part = solutions + first;
      for (std::int64_t r = 0; r < n; ++r) {
        if (pivots[r] != r + 1) std::swap_ranges(part + r * k, part + r * k + columns, part + (pivots[r] - 1) * k);
      }
      for (const bool upper : {false, true}) {
        const Triangle triangle{.upper = upper, .transposed = false, .unit = !upper};
        solve_triangle(triangle, n, columns, matrix, n, part, k, Work::serial);
      }
    });
    deliver(out, x);
  });
}

namespace {

// See FactorsCall. Small matrices are factored by columns.
void run_factors(const LibraryCall& call) {
  const View &a = call.inputs[0], &out = call.outputs[0];
  const Batch batch(a.shape);
  if (a.shape.numel() == 0) return;
  with_real_type(call, [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t n = batch.rows;
    const bool small = n <= kSmallMatrix;
    BufferPtr keep, kept_packed;
    const View copy = own_copy(small ? with_last_two_swapped(a) : a, keep, label_of(call));
    T* const matrices = static_cast<T*>(copy.data);
    Factors<T> factors(matrices, n, batch.count);
    View packed = out;
    if (is_half(out.dtype)) {
      kept_packed = BufferPtr::allocate(static_cast<std::size_t>(out.shape.numel()) * sizeof(T), label_of(call));
      packed = {kept_packed.data(), DType::f32, out.shape, contiguous_strides(out.shape)};
    }
    for_each_matrix(batch.count, n, [&](std::int64_t i, Work) {
      const T* const from = matrices + i * n * n;
      const int* const pivots = factors.pivots_of(i, n);
      T* const to = static_cast<T*>(packed.data) + i * (n + 1) * n;
      T* const order = to + n * n;
      for (std::int64_t r = 0; r < n; ++r) {
        for (std::int64_t c = 0; c < n; ++c) to[r * n + c] = small ? from[c * n + r] : from[r * n + c];
        order[r] = static_cast<T>(r + 1);
      }
      bool odd = false;
      for (std::int64_t r = 0; r < n; ++r) {
        std::swap(order[r], order[pivots[r] - 1]);
        odd ^= pivots[r] != r + 1;
      }
      if (odd) order[0] = -order[0];
    });
    if (is_half(out.dtype)) deliver(out, packed);
  });
}

}  // namespace

void run_det(const LibraryCall& call) {
  if (wants_factors(call.attrs)) return run_factors(call);
  for_each_determinant(
      call, [&](std::int64_t i, double, double, double product) { store_real(call.outputs[0], i, product); });
}

// NaN for a negative determinant, -inf for 0.
void run_logdet(const LibraryCall& call) {
  for_each_determinant(call, [&](std::int64_t i, double sign, double logarithm, double) {
    store_real(call.outputs[0], i, sign < 0 ? std::numeric_limits<double>::quiet_NaN() : logarithm);
  });
}

}  // namespace ebb::cpu
