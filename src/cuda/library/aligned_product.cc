// SPDX-License-Identifier: MIT
#include "cuda/library/aligned_product.h"

#include <algorithm>

#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

bool is_aligned(const std::byte* data, std::int64_t step, DType dtype) {
  return (reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uint64_t>(step) * size_of(dtype)) % 16 == 0;
}

}  // namespace

Matrix AlignedProduct::padded(const Matrix& x, std::int64_t rows, std::int64_t columns, std::int64_t all_rows,
                              std::int64_t all_columns, BufferPtr& keep) const {
  View from{x.data, product_.in, Shape{rows, columns}, {}};
  from.strides[0] = x.row_step, from.strides[1] = x.column_step;
  const std::int64_t across = aligned_step(gpu_.model(), x.by_rows() ? all_columns : all_rows);
  View to = workspace(gpu_, product_.in, Shape{x.by_rows() ? all_rows : all_columns, across}, keep, "matmul");
  if (rows != all_rows || columns != all_columns)
    gpu_.clear(to.data, static_cast<std::size_t>(to.shape.numel()) * size_of(product_.in));
  to.shape = from.shape;
  to.strides[0] = x.by_rows() ? across : 1, to.strides[1] = x.by_rows() ? 1 : across;
  copy_elements(gpu_, to, from);
  return {element_at(to, 0), to.strides[0], to.strides[1], 0};
}

AlignedProduct::AlignedProduct(Gpu& gpu, const Product& given) : gpu_(gpu), product_(given) {
  const GpuModel& model = gpu.model();
  Product& p = product_;
  if (!is_half(p.in) || p.batches != 1 || p.add || std::min(p.k, p.n) < model.worth_aligning) return;
  if (p.k * p.n > model.small_factor && p.m < model.rows_of_large_factor) return;
  const std::int64_t m = given.a.by_rows() ? given.m : aligned_step(model, given.m);
  const std::int64_t k = aligned_step(model, given.k), n = aligned_step(model, given.n);
  if (m != given.m || k != given.k || !is_aligned(given.a.data, given.a.step(), p.in))
    p.a = padded(given.a, given.m, given.k, m, k, keep_[0]);
  if (k != given.k || n != given.n || !is_aligned(given.b.data, given.b.step(), p.in))
    p.b = padded(given.b, given.k, given.n, k, n, keep_[1]);
  p.m = m, p.k = k, p.n = n;
  if (m == given.m && n == given.n && is_aligned(given.c, given.c_step, p.out)) return;
  to_ = {given.c, p.out, Shape{given.m, given.n}, {}};
  to_.strides[0] = given.c_step, to_.strides[1] = 1;
  p.c_step = n;
  p.c_batch = m * n;
  result_ = workspace(gpu, p.out, Shape{m, n}, keep_[2], "matmul");
  p.c = element_at(result_, 0);
  result_.shape = to_.shape;
  if (p.bias && n != given.n) {
    const View row = workspace(gpu, p.out, Shape{n}, keep_[3], "matmul");
    gpu.clear(row.data, static_cast<std::size_t>(n) * size_of(p.out));
    const View from{const_cast<void*>(p.bias), p.out, Shape{given.n}, contiguous_strides(Shape{given.n})};
    copy_elements(gpu, part_of(row, 0, 0, given.n), from);
    p.bias = row.data;
  }
}

void AlignedProduct::finish() const {
  if (result_.data) copy_elements(gpu_, to_, result_);
}

}  // namespace ebb::cuda
