// SPDX-License-Identifier: MIT
#include "ebb/nn/parameters.h"

namespace ebb {

std::int64_t count_elements(const Parameters& parameters) {
  std::int64_t n = 0;
  for (const Parameter& p : parameters) n += p.tensor->numel();
  return n;
}

}  // namespace ebb
