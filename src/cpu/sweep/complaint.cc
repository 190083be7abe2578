// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "cpu/sweep/accumulate.h"

namespace ebb::cpu {

std::string number_text(RegType t, const void* p) {
  const Accumulator a = read(t, p);
  return is_float(t) ? fmt::format("{:g}", a.real) : fmt::format("{}", a.integer);
}

}  // namespace ebb::cpu
