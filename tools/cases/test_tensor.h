// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "ebb/ops.h"

namespace ebb::table {

// The one place where the cases of the op table, the oracle's programs and the random programs get their initial
// tensors: putting these on a device runs all of them there.
template <class T>
Tensor test_tensor(const std::vector<T>& values, const Shape& shape, DType dtype) {
  return cast(from_data(values, shape), dtype).eval();
}

}  // namespace ebb::table
