#include <algorithm>
#include <cstring>
#include <vector>

#include "core/format_error.h"
#include "core/parallel.h"
#include "cpu/copy.h"
#include "cpu/elements.h"
#include "cpu/gemm.h"
#include "cpu/library_ops.h"

namespace ebb::cpu {
namespace {

// The product [batches..., m, k]·[batches..., k, n] once batches are merged: where b is the same for neighbouring
// batches and a's rows go on evenly, the batch is only more rows.
struct Product {
  std::int64_t m = 0, n = 0, k = 0, batches = 1;
  std::int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0;
  int batch_rank = 0;
  std::int64_t size[Shape::kMaxRank] = {}, a_batch[Shape::kMaxRank] = {}, b_batch[Shape::kMaxRank] = {};

  Product(const View& a, const View& b) {
    const int rank = a.shape.rank();
    m = a.shape[rank - 2];
    k = a.shape[rank - 1];
    n = b.shape[rank - 1];
    a_row = a.strides[rank - 2];
    a_col = a.strides[rank - 1];
    b_row = b.strides[rank - 2];
    b_col = b.strides[rank - 1];
    int d = rank - 3;
    for (; d >= 0; --d) {
      if (a.shape[d] == 1) continue;
      if (b.strides[d] != 0) break;
      // The rows must go on evenly, and BLAS must still be able to read them as one matrix.
      if (m > 1 ? a.strides[d] != m * a_row : a.strides[d] < k) break;
      if (a_col != 1 && (m == 1 || a_col < m * a.shape[d])) break;
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

std::int64_t pieces_of(std::int64_t size, std::int64_t block) { return (size + block - 1) / block; }

// Small products are made several to a task: a task should last longer than handing it out.
std::int64_t batches_per_task(const Product& p) {
  const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(2e6 / std::max(1.0, flops)), 1, 4096);
}

// body(batch, piece) over `pieces` of every batch.
template <class Body>
void for_each_piece(const Product& p, std::int64_t pieces, Body&& body) {
  const std::int64_t group = pieces > 1 ? 1 : batches_per_task(p);
  parallel_for(pieces_of(p.batches, group) * pieces, [&](std::int64_t task) {
    const std::int64_t first = task / pieces * group, last = std::min(p.batches, first + group);
    for (std::int64_t batch = first; batch < last; ++batch) body(batch, task % pieces);
  });
}

template <class T>
void float_matmul(const View& a, const View& b, const View& out) {
  const Product p(a, b);
  T* c = static_cast<T*>(out.data);
  const auto matrix_a = [&](std::int64_t i) {
    return Matrix<T>{static_cast<const T*>(a.data) + p.a_offset(i), p.a_row, p.a_col};
  };
  const auto matrix_b = [&](std::int64_t i) {
    return Matrix<T>{static_cast<const T*>(b.data) + p.b_offset(i), p.b_row, p.b_col};
  };
  const GemmCut cut = gemm_cut(p.m, p.n, p.k, p.batches);
  const bool few_vectors = (p.m == 1 || p.n == 1) && p.batches < 16;
  if (p.batches == 1 || few_vectors || cut.depth < p.k) {  // each product is shared, one after the other
    for (std::int64_t i = 0; i < p.batches; ++i)
      gemm<T>(p.m, p.n, p.k, T(1), matrix_a(i), matrix_b(i), T(0), c + i * p.m * p.n, p.n);
    return;
  }
  const std::int64_t across = pieces_of(p.n, cut.cols);
  for_each_piece(p, pieces_of(p.m, cut.rows) * across, [&](std::int64_t batch, std::int64_t piece) {
    const std::int64_t i = piece / across * cut.rows, j = piece % across * cut.cols;
    Matrix<T> block_a = matrix_a(batch), block_b = matrix_b(batch);
    block_a.data += i * p.a_row;
    block_b.data += j * p.b_col;
    gemm_serial<T>(std::min(cut.rows, p.m - i), std::min(cut.cols, p.n - j), p.k, T(1), block_a, block_b, T(0),
                   c + (batch * p.m + i) * p.n + j, p.n);
  });
}

// A block of a half matrix in f32, dense along whichever direction it is dense in memory.
Matrix<float> block_as_float(DType dtype, const void* data, std::int64_t row_stride, std::int64_t col_stride,
                             std::int64_t rows, std::int64_t cols, float* to) {
  const bool by_cols = col_stride != 1 && row_stride == 1;
  if (by_cols) std::swap(rows, cols), std::swap(row_stride, col_stride);
  const auto* bits = static_cast<const std::uint16_t*>(data);
  for (std::int64_t i = 0; i < rows; ++i)
    halves_to_float(dtype, bits + i * row_stride, col_stride, to + i * cols, cols);
  return by_cols ? Matrix<float>{to, 1, cols} : Matrix<float>{to, cols, 1};
}

// f16 and bf16: blocks of both factors become f32, products and sums are f32, the result is rounded once.
void half_matmul(const View& a, const View& b, const View& out) {
  const Product p(a, b);
  constexpr std::int64_t kDepth = 1024;  // bounds the memory of a piece
  GemmCut cut = gemm_cut(p.m, p.n, p.k, p.batches);
  if (cut.depth < p.k) cut = {std::min<std::int64_t>(p.m, 64), std::min<std::int64_t>(p.n, 64), p.k};
  cut = {std::min<std::int64_t>(cut.rows, 512), std::min<std::int64_t>(cut.cols, 1024), std::min(p.k, kDepth)};
  const std::int64_t across = pieces_of(p.n, cut.cols);
  const auto* bits_a = static_cast<const std::uint16_t*>(a.data);
  const auto* bits_b = static_cast<const std::uint16_t*>(b.data);
  auto* c = static_cast<std::uint16_t*>(out.data);
  for_each_piece(p, pieces_of(p.m, cut.rows) * across, [&](std::int64_t batch, std::int64_t piece) {
    const std::int64_t i = piece / across * cut.rows, rows = std::min(cut.rows, p.m - i);
    const std::int64_t j = piece % across * cut.cols, cols = std::min(cut.cols, p.n - j);
    const std::size_t elements = static_cast<std::size_t>(rows * cut.depth + cut.depth * cols + rows * cols);
    const BufferPtr scratch = BufferPtr::allocate(elements * sizeof(float), "matmul");
    float* fa = reinterpret_cast<float*>(scratch.data());
    float* fb = fa + rows * cut.depth;
    float* fc = fb + cut.depth * cols;
    for (std::int64_t k = 0; k < p.k; k += cut.depth) {
      const std::int64_t depth = std::min(cut.depth, p.k - k);
      const Matrix<float> ma = block_as_float(a.dtype, bits_a + p.a_offset(batch) + i * p.a_row + k * p.a_col, p.a_row,
                                              p.a_col, rows, depth, fa);
      const Matrix<float> mb = block_as_float(b.dtype, bits_b + p.b_offset(batch) + k * p.b_row + j * p.b_col, p.b_row,
                                              p.b_col, depth, cols, fb);
      gemm_serial<float>(rows, cols, depth, 1.0f, ma, mb, k == 0 ? 0.0f : 1.0f, fc, cols);
    }
    for (std::int64_t r = 0; r < rows; ++r)
      float_to_halves(out.dtype, fc + r * cols, c + (batch * p.m + i + r) * p.n + j, cols);
  });
}

// Integers wrap. Rows of C are made from rows of B (a is any shape), in blocks of columns that stay in L1.
template <class T>
void integer_matmul(const View& a, const View& b, const View& out) {
  const Product p(a, b);
  constexpr std::int64_t kRows = 16, kCols = 1024;
  const std::int64_t across = pieces_of(p.n, kCols);
  const auto* data_a = static_cast<const T*>(a.data);
  const auto* data_b = static_cast<const T*>(b.data);
  for_each_piece(p, pieces_of(p.m, kRows) * across, [&](std::int64_t batch, std::int64_t piece) {
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

// What OpenBLAS cannot read in place is packed.
template <class T>
View readable(const View& x, BufferPtr& keep) {
  const int rank = x.shape.rank();
  const Matrix<T> matrix{static_cast<const T*>(x.data), x.strides[rank - 2], x.strides[rank - 1]};
  if (readable_in_place(matrix, x.shape[rank - 2], x.shape[rank - 1])) return x;
  // Batches that repeat one matrix stay one matrix.
  View once = x;
  for (int d = 0; d < rank - 2; ++d) {
    if (x.strides[d] == 0) once.shape = once.shape.with(d, std::min<std::int64_t>(1, x.shape[d]));
  }
  View dense = packed(once, keep, "matmul");
  for (int d = 0; d < rank - 2; ++d) {
    if (x.strides[d] == 0) dense.strides[d] = 0;
  }
  dense.shape = x.shape;
  return dense;
}

}  // namespace

void run_matmul(const LibraryCall& call) {
  const View &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  if (out.shape.numel() == 0) return;
  if (a.shape[a.shape.rank() - 1] == 0) return zero_elements(out);
  BufferPtr keep_a, keep_b;
  switch (a.dtype) {
    case DType::f64:
      return float_matmul<double>(readable<double>(a, keep_a), readable<double>(b, keep_b), out);
    case DType::f32:
      return float_matmul<float>(readable<float>(a, keep_a), readable<float>(b, keep_b), out);
    case DType::f16:
    case DType::bf16:
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
