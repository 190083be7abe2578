// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <vector>

#include "ebb/ebb.h"

namespace ebb::testing {

// Numbers with many ties; some floats are NaN or zeros of either sign, or infinite.
inline Tensor tied(const Shape& shape, DType dtype, std::int64_t kinds = 30) {
  if (dtype == DType::bool_) return (randint(0, 2, shape) == 1).eval();
  const Tensor x = randint(dtype == DType::u8 ? 0 : -kinds / 2, kinds / 2 + 1, shape);
  if (!is_floating(dtype)) return cast(x, dtype).eval();
  std::vector<double> values = x.to_vector<double>();
  const std::vector<double> special = {std::nan(""), -0.0, 0.0, HUGE_VAL, -HUGE_VAL, -std::nan("")};
  const std::vector<std::int64_t> which = randint(0, 40, shape).to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (which[i] < 6) values[i] = special[static_cast<std::size_t>(which[i])];
  }
  return tensor_from(values, shape, dtype).eval();
}

}  // namespace ebb::testing
