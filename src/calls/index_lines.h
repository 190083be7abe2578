// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace ebb {

// A known property of every line of an index along the axis of gather and scatter_zero_add, or of the index of
// index_select and index_zero_add.
enum class IndexLines : std::int64_t {
  any,
  different,  // no two elements are equal, as of a sort
  runs,       // element i is i, which begins a run, or equals the one before it, as of cummax
  ascending,  // no element is less than the one before it, as where an axis gets another size
};

}  // namespace ebb
