// SPDX-License-Identifier: MIT
#pragma once
#include "backend/backend.h"
#include "core/buffer.h"
#include "cuda/library/product.h"

namespace ebb::cuda {

// Elements between rows of so many, such that each begins at a multiple of 16 bytes.
inline std::int64_t aligned_step(const GpuModel& model, std::int64_t columns) {
  return (columns + model.aligned_elements - 1) / model.aligned_elements * model.aligned_elements;
}

// A product of halves whose rows do not begin at multiples of 16 bytes takes cuBLASLt several times as long. What is
// unaligned of large enough ones is copied to rows that do, and the result from there. Whether is decided by k and n,
// so that rows do not depend on their number; but a right factor that is large itself is copied for many rows alone.
class AlignedProduct {
 public:
  AlignedProduct(Gpu& gpu, const Product& given, bool align_result);
  const Product& product() const { return product_; }
  void finish() const;  // the result to where it belongs

 private:
  Matrix aligned(const Matrix& x, std::int64_t rows, std::int64_t columns, BufferPtr& keep) const;

  Gpu& gpu_;
  Product product_;
  View to_, result_;
  BufferPtr keep_[3];
};

}  // namespace ebb::cuda
