// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "cpu/sweep/accumulate.h"

namespace ebb::cpu {

std::string position_text(const std::vector<std::int64_t>& dims, std::size_t count, std::int64_t linear,
                          std::int64_t first) {
  std::vector<std::int64_t> index(count);
  for (std::size_t d = count; d-- > 0;) {
    index[d] = linear % dims[d];
    linear /= dims[d];
  }
  if (count > 0) index[0] += first;
  return fmt::format("[{}]", fmt::join(index, ", "));
}

std::string number_text(RegType t, const void* p) {
  const Accumulator a = read(t, p);
  return is_float(t) ? fmt::format("{:g}", a.real) : fmt::format("{}", a.integer);
}

}  // namespace ebb::cpu
