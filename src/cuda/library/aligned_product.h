// SPDX-License-Identifier: MIT
#pragma once
#include "backend/call.h"
#include "core/buffer.h"
#include "cuda/library/product.h"

namespace ebb::cuda {

// So many elements or, if rows shall begin at multiples of 16 bytes, some more.
inline std::int64_t aligned_step(const GpuModel& model, std::int64_t columns) {
  return (columns + model.aligned_elements - 1) / model.aligned_elements * model.aligned_elements;
}

// A product of halves whose rows do not begin at multiples of 16 bytes, or whose sizes are not multiples of eight,
// takes cuBLASLt several times as long. Large enough ones are made of padded copies, with zeros behind what is summed,
// and their result is copied from there. Whether is decided by k and n, so that rows do not depend on their number; but
// not for few rows where the right factor is large itself.
class AlignedProduct {
 public:
  AlignedProduct(Gpu& gpu, const Product& given);
  const Product& product() const { return product_; }
  void finish() const;  // the result to where it belongs

 private:
  // x [rows, columns] with zeros behind it.
  Matrix padded(const Matrix& x, std::int64_t rows, std::int64_t columns, std::int64_t all_rows,
                std::int64_t all_columns, BufferPtr& keep) const;

  Gpu& gpu_;
  Product product_;
  View to_, result_;
  BufferPtr keep_[4];
};

}  // namespace ebb::cuda
