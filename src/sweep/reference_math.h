// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>

#include "graph/op_table.h"

namespace ebb {

// A number of the oracle: floats use real, integers integer; truth values use both.
struct Number {
  double real = 0;
  std::int64_t integer = 0;
};

// An elementwise operation that is exact, or consists of correctly rounded steps of T alone: every device gives these
// bits. Empty for the others. T is float or double.
template <class T>
std::optional<T> reference_step(Op op, T a, T b, T c);

// One elementwise operation on floats in double precision, by the C library or a textbook series.
Number reference_real(Op op, Number a, Number b, Number c);
// The same on integers, which wrap at `bits` bits, and on truth values (bits = 1).
Number reference_integer(Op op, int bits, Number a, Number b, Number c);

}  // namespace ebb
