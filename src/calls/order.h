// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "graph/node.h"

// Options of the calls that sort and search. The axis is attrs.i[0].
namespace ebb {

// argsort (x) -> i64: the stable order of the elements along the axis, or [first, first + count) of it; with `values`
// of all, a second output: the elements in this order, each with its own bits.
struct ArgsortCall {
  bool descending = false;
  std::int64_t first = 0, count = 0;  // count 0: all
  bool values = false;

  bool operator==(const ArgsortCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("descending", descending);
    visit("first", first);
    visit("count", count);
    visit("values", values);
  }
};

// searchsorted (sorted, values) -> i64: how many elements of its line are less than each value.
struct SearchsortedCall {
  bool right = false;  // or equal

  bool operator==(const SearchsortedCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("right", right);
  }
};

template <class Options>
Attrs along_axis(std::int64_t axis, const Options& options) {
  Attrs attrs = with_options(options);
  attrs.i[0] = axis;
  return attrs;
}

}  // namespace ebb
