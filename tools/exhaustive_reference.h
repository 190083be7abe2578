// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "graph/op_table.h"

// The reference of all results: the C library in double precision, whose own error, below an ulp of f64, is 2⁻²⁹
// ulp of f32.
namespace ebb {

double exact_value(Op op, double x, double y = 0);

// The same for many numbers, several times as fast if the C library has vector functions (libmvec of glibc, on
// x86-64), which promise 4 ulp of f64. Good enough to rule a number out; reported errors are measured against
// exact_value().
class QuickReference {
 public:
  // Twice 4 ulp of f64 for products of two functions, and plenty of room, in units in the last place of f32.
  static constexpr double kSlack = 0x1p-20;

  explicit QuickReference(Op op);
  // out[i] is the value at x[i], and y[i] for functions of two numbers, with an error below kSlack. Every 64th is
  // checked against exact_value(): throws an Error if its error is larger.
  void operator()(const double* x, const double* y, double* out, std::size_t n) const;

 private:
  using Function = void (*)();  // of libmvec, of four numbers at a time
  double value(double x, double y) const;

  Op op_;
  Function function_ = nullptr, second_ = nullptr;
};

}  // namespace ebb
