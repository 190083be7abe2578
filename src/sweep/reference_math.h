#pragma once
#include <cstdint>

#include "graph/op_table.h"

namespace ebb {

// A number of the oracle: floats are real, integers and truth values integer.
struct Number {
  double real = 0;
  std::int64_t integer = 0;
};

// One elementwise operation on floats, by the C library or a textbook series. Comparisons answer in `integer`.
Number reference_real(Op op, Number a, Number b, Number c);
// The same on integers, which wrap at `bits` bits, and on truth values (bits = 1).
Number reference_integer(Op op, int bits, Number a, Number b, Number c);

}  // namespace ebb
