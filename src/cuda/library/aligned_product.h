// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "backend/backend.h"
#include "core/buffer.h"
#include "cuda/library/product.h"

namespace ebb::cuda {

// That number of elements or, if rows should begin at multiples of 16 bytes, a few more.
inline std::int64_t aligned_step(const GpuModel& model, std::int64_t columns) {
  return (columns + model.aligned_elements - 1) / model.aligned_elements * model.aligned_elements;
}

// A product of halves whose rows do not begin at multiples of 16 bytes, or whose sizes are not multiples of eight,
// takes cuBLASLt several times as long. Large enough ones use padded copies, and their result is copied from where it
// has room; of a long side that is odd the last columns (or rows) are a second product, so that the rest is read in
// place. Whether and how is decided by k and n, and for a left factor stored by columns by m: the order of a row's sum
// does not depend on the number of rows. A matrix with room after its rows is its own padded copy: the same products
// then work in place, once the room is zeroed where sums run over it.
class AlignedProduct {
 public:
  AlignedProduct(Gpu& gpu, const Product& given, bool align_result);
  const std::vector<Product>& products() const { return products_; }
  void finish() const;  // copies the result to its destination

 private:
  enum class Sum : std::uint8_t { over_rows, over_columns };  // which sum of the product runs over the factor's index
  Matrix with_padding(const Matrix& x, std::int64_t rows, std::int64_t columns, std::int64_t all_rows,
                      std::int64_t all_columns, Sum sum);
  Matrix padded(const Matrix& x, std::int64_t rows, std::int64_t columns, std::int64_t all_rows,
                std::int64_t all_columns);
  void make_room(Product& p, std::int64_t rows, std::int64_t columns);
  void pad_bias(Product& p, std::int64_t columns);
  Product last_rows(const Product& rest, std::int64_t k);
  Product last_columns(const Product& rest, std::int64_t k);
  View of(std::byte* data, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t step) const;

  Gpu& gpu_;
  const Product given_;
  std::vector<Product> products_;
  View to_, result_;  // where the result, or its last rows, are copied, and where they are computed
  std::vector<BufferPtr> keep_;
};

}  // namespace ebb::cuda
