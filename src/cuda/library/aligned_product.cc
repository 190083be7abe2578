// SPDX-License-Identifier: MIT
#include "cuda/library/aligned_product.h"

#include <algorithm>
#include <utility>

#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

bool is_aligned(const std::byte* data, std::int64_t step, DType dtype) {
  return (reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uint64_t>(step) * size_of(dtype)) % 16 == 0;
}
bool is_aligned(const Matrix& x, DType dtype) { return is_aligned(x.data, x.step(), dtype); }

}  // namespace

View AlignedProduct::of(std::byte* data, DType dtype, std::int64_t rows, std::int64_t columns,
                        std::int64_t step) const {
  View v{data, dtype, Shape{rows, columns}, {}};
  v.strides[0] = step, v.strides[1] = 1;
  return v;
}

// The matrix in place, if there is room for the padding.
Matrix AlignedProduct::with_padding(const Matrix& x, std::int64_t rows, std::int64_t columns, std::int64_t all_rows,
                                    std::int64_t all_columns, Sum sum) {
  const bool by_rows = x.by_rows();
  const std::int64_t live = by_rows ? columns : rows, more = (by_rows ? all_columns : all_rows) - live;
  const std::int64_t lines = by_rows ? rows : columns;
  if (x.room == 0 || x.room < more || lines != (by_rows ? all_rows : all_columns) || !is_aligned(x, given_.in))
    return padded(x, rows, columns, all_rows, all_columns);
  if (more > 0 && by_rows == (sum == Sum::over_columns))
    clear_elements(gpu_, of(x.data + live * static_cast<std::int64_t>(size_of(given_.in)), given_.in, lines, more,
                            x.step()));
  return x;
}

Matrix AlignedProduct::padded(const Matrix& x, std::int64_t rows, std::int64_t columns, std::int64_t all_rows,
                              std::int64_t all_columns) {
  // A matrix by columns is, in memory, its transpose.
  const bool by_rows = x.by_rows();
  if (!by_rows) std::swap(rows, columns), std::swap(all_rows, all_columns);
  const std::int64_t step = aligned_step(gpu_.model(), all_columns);
  View to = workspace(gpu_, given_.in, Shape{all_rows, step}, keep_.emplace_back(), "matmul");
  to.shape = Shape{all_rows, all_columns};
  copy_padded(gpu_, to, of(x.data, given_.in, rows, columns, x.step()));
  return {element_at(to, 0), by_rows ? step : 1, by_rows ? 1 : step, 0};
}

// Gives the result memory of its own, with room for padding.
void AlignedProduct::make_room(Product& p, std::int64_t rows, std::int64_t columns) {
  to_ = of(given_.c, p.out, given_.m, given_.n, given_.c_step);
  result_ = workspace(gpu_, p.out, Shape{rows, columns}, keep_.emplace_back(), "matmul");
  p.c = element_at(result_, 0);
  p.c_step = columns;
  p.c_batch = rows * columns;
  result_.shape = to_.shape;
  if (p.add) copy_elements(gpu_, result_, to_);
}

void AlignedProduct::pad_bias(Product& p, std::int64_t columns) {
  if (!p.bias || columns == given_.n) return;
  const View row = workspace(gpu_, p.out, Shape{1, columns}, keep_.emplace_back(), "matmul");
  copy_padded(gpu_, row, of(static_cast<std::byte*>(const_cast<void*>(p.bias)), p.out, 1, given_.n, given_.n));
  p.bias = row.data;
}

// The remaining rows after the first, computed in memory of their own.
Product AlignedProduct::last_rows(const Product& rest, std::int64_t k) {
  Product p = rest;
  p.m = gpu_.model().last_part;
  const std::int64_t live = given_.m - rest.m;
  p.a.data += rest.m * static_cast<std::int64_t>(size_of(p.in));
  if (rest.a.data == given_.a.data && given_.a.room < p.m - live) p.a = padded(p.a, live, k, p.m, k);
  to_ = of(given_.c + rest.m * given_.c_step * static_cast<std::int64_t>(size_of(p.out)), p.out, live, p.n,
           given_.c_step);
  result_ = workspace(gpu_, p.out, Shape{p.m, p.n}, keep_.emplace_back(), "matmul");
  p.c = element_at(result_, 0);
  p.c_step = p.n;
  p.c_batch = p.m * p.n;
  result_.shape = to_.shape;
  if (p.add) copy_elements(gpu_, result_, to_);
  return p;
}

// The remaining columns after the first; the result has room for them.
Product AlignedProduct::last_columns(const Product& rest, std::int64_t k) {
  Product p = rest;
  p.n = gpu_.model().last_part;
  p.b.data += rest.n * p.b.column_step * static_cast<std::int64_t>(size_of(p.in));
  p.b = padded(p.b, k, given_.n - rest.n, k, p.n);
  p.c += rest.n * static_cast<std::int64_t>(size_of(p.out));
  if (p.bias) p.bias = static_cast<const std::byte*>(p.bias) + rest.n * static_cast<std::int64_t>(size_of(p.out));
  return p;
}

AlignedProduct::AlignedProduct(Gpu& gpu, const Product& given, bool align_result) : gpu_(gpu), given_(given) {
  const GpuModel& model = gpu.model();
  Product& p = products_.emplace_back(given);
  if (!is_half(p.in) || p.batches != 1 || std::min(p.k, p.n) < model.worth_aligning) return;
  const auto up = [&](std::int64_t n) { return aligned_step(model, n); };
  const std::int64_t m = given.a.by_rows() ? given.m : up(given.m), k = up(given.k), n = up(given.n);
  bool room = n != given.n || (!is_aligned(p.c, p.c_step, p.out) && !p.add && align_result);
  const bool rows_apart = m != given.m && !room && m >= model.worth_dividing;
  if (m != given.m && !rows_apart) room = true;
  const bool copy_b = k != given.k || !is_aligned(given.b, p.in) || (n != given.n && given.b.by_rows());
  const bool columns_apart = n != given.n && !copy_b && n >= model.worth_dividing;
  p.m = m, p.k = k, p.n = n;
  if (k != given.k || !is_aligned(given.a, p.in) || (m != given.m && !rows_apart))
    p.a = with_padding(given.a, given.m, given.k, m, k, Sum::over_columns);
  if (copy_b || (n != given.n && !columns_apart))
    p.b = with_padding(given.b, given.k, given.n, k, n, Sum::over_rows);
  const bool has_room = m == given.m && p.c_room > 0 && p.c_room >= n - given.n && is_aligned(p.c, p.c_step, p.out);
  if (room && !has_room) make_room(p, m, n);
  pad_bias(p, n);
  if (rows_apart) {
    p.m -= model.last_part;
    products_.push_back(last_rows(Product(p), k));
  } else if (columns_apart) {
    p.n -= model.last_part;
    products_.push_back(last_columns(Product(p), k));
  }
}

void AlignedProduct::finish() const {
  if (result_.data) copy_elements(gpu_, to_, result_);
}

}  // namespace ebb::cuda
