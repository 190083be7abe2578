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

Matrix AlignedProduct::aligned(const Matrix& x, std::int64_t rows, std::int64_t columns, BufferPtr& keep) const {
  View from{x.data, product_.in, Shape{rows, columns}, {}};
  from.strides[0] = x.row_step, from.strides[1] = x.column_step;
  const std::int64_t step = aligned_step(gpu_.model(), x.by_rows() ? columns : rows);
  View to = workspace(gpu_, product_.in, Shape{x.by_rows() ? rows : columns, step}, keep, "matmul");
  to.shape = from.shape;
  to.strides[0] = x.by_rows() ? step : 1, to.strides[1] = x.by_rows() ? 1 : step;
  copy_elements(gpu_, to, from);
  return {element_at(to, 0), to.strides[0], to.strides[1], 0};
}

AlignedProduct::AlignedProduct(Gpu& gpu, const Product& given, bool align_result) : gpu_(gpu), product_(given) {
  const GpuModel& model = gpu.model();
  Product& p = product_;
  if (!is_half(p.in) || p.batches != 1 || std::min(p.k, p.n) < model.worth_aligning) return;
  if (!is_aligned(p.a.data, p.a.step(), p.in)) p.a = aligned(given.a, p.m, p.k, keep_[0]);
  const bool pays = p.k * p.n <= model.small_factor || p.m >= model.rows_of_large_factor;
  if (!is_aligned(p.b.data, p.b.step(), p.in) && pays) p.b = aligned(given.b, p.k, p.n, keep_[1]);
  if (is_aligned(p.c, p.c_step, p.out) || p.add || !align_result) return;
  to_ = {given.c, p.out, Shape{p.m, p.n}, {}};
  to_.strides[0] = given.c_step, to_.strides[1] = 1;
  p.c_step = aligned_step(model, p.n);
  p.c_batch = p.m * p.c_step;
  result_ = workspace(gpu, p.out, Shape{p.m, p.c_step}, keep_[2], "matmul");
  result_.shape = to_.shape;
  p.c = element_at(result_, 0);
}

void AlignedProduct::finish() const {
  if (result_.data) copy_elements(gpu_, to_, result_);
}

}  // namespace ebb::cuda
