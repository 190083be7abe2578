// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "calls/fp8_product.h"
#include "core/format_error.h"
#include "core/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/gemm/kernels.h"
#include "cpu/gemm/plan.h"
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"
#include "cpu/model/cpu_model.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {
namespace {

// The product [batches..., m, k]·[batches..., k, n] after merging batches: where b is the same for neighbouring batches
// and a's rows continue evenly, the batch is just more rows.
struct Product {
  std::int64_t m = 0, n = 0, k = 0, batches = 1;
  std::int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0, c_row = 0;
  int batch_rank = 0;
  std::int64_t size[Shape::kMaxRank] = {}, a_batch[Shape::kMaxRank] = {}, b_batch[Shape::kMaxRank] = {};

  Product(const View& a, const View& b, const View& out) {
    const int rank = a.shape.rank();
    m = a.shape[rank - 2];
    k = a.shape[rank - 1];
    n = b.shape[rank - 1];
    a_row = a.strides[rank - 2];
    a_col = a.strides[rank - 1];
    b_row = b.strides[rank - 2];
    b_col = b.strides[rank - 1];
    c_row = n + out.room;
    int d = rank - 3;
    for (; d >= 0; --d) {
      if (a.shape[d] == 1) continue;
      if (b.strides[d] != 0) break;
      if (m > 1 && a.strides[d] != m * a_row) break;
      if (m == 1) a_row = a.strides[d];
      m *= a.shape[d];
    }
    for (; d >= 0; --d) {
      size[batch_rank] = a.shape[d];  // innermost first
      a_batch[batch_rank] = a.strides[d];
      b_batch[batch_rank] = b.strides[d];
      ++batch_rank;
      batches *= a.shape[d];
    }
  }
  std::int64_t a_offset(std::int64_t batch) const { return offset(batch, a_batch); }
  std::int64_t b_offset(std::int64_t batch) const { return offset(batch, b_batch); }

 private:
  std::int64_t offset(std::int64_t batch, const std::int64_t* stride) const {
    std::int64_t at = 0;
    for (int d = 0; d < batch_rank; ++d) {
      at += batch % size[d] * stride[d];
      batch /= size[d];
    }
    return at;
  }
};

double flops_of(const Product& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

// Calls body(batch, piece) over `pieces` of every batch. Several small products form a task: a task should last longer
// than handing it out.
template <class Body>
void for_each_piece(const Product& p, std::int64_t pieces, Body&& body) {
  const std::int64_t group =
      pieces > 1 ? 1
                 : std::clamp<std::int64_t>(
                       static_cast<std::int64_t>(cpu_model().batch_task_flops / std::max(1.0, flops_of(p))), 1,
                       cpu_model().most_batches_of_task);
  parallel_for(ceil_div(p.batches, group) * pieces, [&](std::int64_t task) {
    const std::int64_t first = task / pieces * group, last = std::min(p.batches, first + group);
    for (std::int64_t batch = first; batch < last; ++batch) body(batch, task % pieces);
  });
}

// Whether threads share the batches, or each product in turn. The bits are the same.
bool share_batches(const Product& p) {
  return p.batches > 1 && (p.batches >= cpu_model().many_batches || flops_of(p) < cpu_model().shared_batch_flops);
}

template <class T>
Matrix<T> matrix_of(const View& x, std::int64_t offset, std::int64_t row_stride, std::int64_t col_stride) {
  return {element_at(x, offset), row_stride, col_stride, x.dtype};
}

// A column times a row, as in the gradient of a matrix times a vector: bound by memory, so nothing is packed. The bits
// are those of a sum starting from 0.
template <class T>
void outer_product(const Product& p, const View& a, const View& b, const View& out) {
  constexpr std::int64_t kRows = 16, kCols = 4096;
  const std::int64_t across = ceil_div(p.n, kCols);
  for_each_piece(p, ceil_div(p.m, kRows) * across, [&](std::int64_t batch, std::int64_t piece) {
    const std::int64_t i = piece / across * kRows, rows = std::min(kRows, p.m - i);
    const std::int64_t j = piece % across * kCols, cols = std::min(kCols, p.n - j);
    const T* const from_a = static_cast<const T*>(a.data) + p.a_offset(batch) + i * p.a_row;
    const T* from_b = static_cast<const T*>(b.data) + p.b_offset(batch) + j * p.b_col;
    std::array<T, kCols> row;
    if (p.b_col != 1) {
      for (std::int64_t c = 0; c < cols; ++c) row[static_cast<std::size_t>(c)] = from_b[c * p.b_col];
      from_b = row.data();
    }
    T* const to = static_cast<T*>(out.data) + (batch * p.m + i) * p.n + j;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T x = from_a[r * p.a_row];
      T* const row_c = to + r * p.n;
      for (std::int64_t c = 0; c < cols; ++c) row_c[c] = x * from_b[c] + T(0);
    }
  });
}

// Many products of few numbers each: planning and packing would take longer than multiplying.
bool is_small(const Product& p, const View& a, const View& b, const View& out) {
  const CpuModel& model = cpu_model();
  const bool own = a.dtype == out.dtype && b.dtype == out.dtype && !is_half(out.dtype);
  return own && p.batches >= model.many_batches && p.n <= kSmallGemm && p.k <= kSmallGemm &&
         p.m * p.n * p.k <= model.small_multiplications;
}
template <class T>
void small_products(const Product& p, const View& a, const View& b, const View& out, bool adds) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  const auto* data_b = static_cast<const T*>(b.data);
  std::int64_t last = 0;  // element of B
  for (int d = 0; d < b.shape.rank(); ++d) last += std::max<std::int64_t>(0, (b.shape[d] - 1) * b.strides[d]);
  for_each_piece(p, 1, [&](std::int64_t i, std::int64_t) {
    kernels.multiply_small({p.m, p.n, p.k, static_cast<const T*>(a.data) + p.a_offset(i), p.a_row, p.a_col,
                            data_b + p.b_offset(i), p.b_row, p.b_col, data_b + last + 1,
                            static_cast<T*>(out.data) + i * p.m * p.n, adds});
  });
}

template <class T>
void float_matmul(const View& a, const View& b, const View& out, bool adds) {
  const Product p(a, b, out);
  if (p.k == 1 && a.dtype == out.dtype && !adds) return outer_product<T>(p, a, b, out);
  if (is_small(p, a, b, out)) return small_products<T>(p, a, b, out, adds);
  const auto multiply = [&](auto* product, std::int64_t i) {
    product(p.m, p.n, p.k, T(1), matrix_of<T>(a, p.a_offset(i), p.a_row, p.a_col),
            matrix_of<T>(b, p.b_offset(i), p.b_row, p.b_col), T(adds), static_cast<T*>(out.data) + i * p.m * p.n, p.n);
  };
  if (share_batches(p))
    return for_each_piece(p, 1, [&](std::int64_t i, std::int64_t) { multiply(&gemm_serial<T>, i); });
  for (std::int64_t i = 0; i < p.batches; ++i) multiply(&gemm<T>, i);
}

// f16 and bf16: products and sums are f32 (see gemm.h), the result is rounded once.
void half_matmul(const View& a, const View& b, const View& out) {
  const Product p(a, b, out);
  const auto multiply = [&](auto* product, std::int64_t i) {
    product(p.m, p.n, p.k, matrix_of<float>(a, p.a_offset(i), p.a_row, p.a_col),
            matrix_of<float>(b, p.b_offset(i), p.b_row, p.b_col), out.dtype, element_at(out, i * p.m * p.c_row), p.c_row);
  };
  if (share_batches(p))
    return for_each_piece(p, 1, [&](std::int64_t i, std::int64_t) { multiply(&gemm_to_halves_serial, i); });
  for (std::int64_t i = 0; i < p.batches; ++i) multiply(&gemm_to_halves, i);
}

// Integers wrap. Rows of C are computed from rows of B (a is any shape), in blocks of columns that stay in L1.
template <class T>
void integer_matmul(const View& a, const View& b, const View& out) {
  const Product p(a, b, out);
  constexpr std::int64_t kRows = 16, kCols = 1024;
  const std::int64_t across = ceil_div(p.n, kCols);
  const auto* data_a = static_cast<const T*>(a.data);
  const auto* data_b = static_cast<const T*>(b.data);
  for_each_piece(p, ceil_div(p.m, kRows) * across, [&](std::int64_t batch, std::int64_t piece) {
    const std::int64_t i = piece / across * kRows, rows = std::min(kRows, p.m - i);
    const std::int64_t j = piece % across * kCols, cols = std::min(kCols, p.n - j);
    const T* from_a = data_a + p.a_offset(batch) + i * p.a_row;
    const T* from_b = data_b + p.b_offset(batch) + j * p.b_col;
    T* to = static_cast<T*>(out.data) + (batch * p.m + i) * p.n + j;
    for (std::int64_t r = 0; r < rows; ++r) std::memset(to + r * p.n, 0, static_cast<std::size_t>(cols) * sizeof(T));
    for (std::int64_t k = 0; k < p.k; ++k) {
      const T* row_b = from_b + k * p.b_row;
      for (std::int64_t r = 0; r < rows; ++r) {
        const T x = from_a[r * p.a_row + k * p.a_col];
        T* row_c = to + r * p.n;
        if (p.b_col == 1) {
          for (std::int64_t c = 0; c < cols; ++c) row_c[c] = static_cast<T>(row_c[c] + static_cast<T>(x * row_b[c]));
        } else {
          for (std::int64_t c = 0; c < cols; ++c)
            row_c[c] = static_cast<T>(row_c[c] + static_cast<T>(x * row_b[c * p.b_col]));
        }
      }
    }
  });
}

}  // namespace

std::string describe_matmul(const LibraryCall& call) {
  const View &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  if (out.shape.numel() == 0 || !is_floating(a.dtype) || a.shape[a.shape.rank() - 1] == 0) return "";
  if (is_fp8(call.attrs)) return describe_error(options_as<Fp8Product>(call.attrs), a.shape[1], out.dtype);
  const Product p(a, b, out);
  if (p.k == 1 && a.dtype == out.dtype && !is_half(a.dtype)) return "outer product";
  if (is_small(p, a, b, out)) return fmt::format("{} small products, shared among threads", p.batches);
  const bool by_batch = share_batches(p);
  const auto one = [&](auto type) {
    using T = decltype(type);
    const Matrix<T> x{nullptr, p.a_row, p.a_col, a.dtype}, y{nullptr, p.b_row, p.b_col, b.dtype};
    return describe(plan_of<T>(p.m, p.n, p.k, x, y, !by_batch));
  };
  const std::string how = a.dtype == DType::f64 ? one(double()) : one(float());
  if (p.batches == 1) return how;
  return fmt::format("{} products, {}: {}", p.batches, by_batch ? "shared among threads" : "one after the other", how);
}

void run_matmul(const LibraryCall& call) {
  const View &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  if (out.shape.numel() == 0) return;
  if (a.shape[a.shape.rank() - 1] == 0) return call.adds ? void() : zero_elements(out);
  if (is_fp8(call.attrs)) return run_fp8_matmul(call);
  switch (a.dtype) {
    case DType::f64:
      return float_matmul<double>(a, b, out, call.adds);
    case DType::f32:
      return float_matmul<float>(a, b, out, call.adds);
    case DType::f16:
    case DType::bf16:
      if (out.dtype == DType::f32) return float_matmul<float>(a, b, out, call.adds);  // the sums, unrounded
      return half_matmul(a, b, out);
    case DType::i64:
      return integer_matmul<std::uint64_t>(a, b, out);
    case DType::i32:
      return integer_matmul<std::uint32_t>(a, b, out);
    case DType::u8:
      return integer_matmul<std::uint8_t>(a, b, out);
    default:
      fail(Error::Kind::type, "{}: bool matrices have no product; cast them to a number first", label_of(call));
  }
}

}  // namespace ebb::cpu
