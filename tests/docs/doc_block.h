// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ebb/ebb.h"

// The harness of the docs' code blocks; tools/doc_blocks.py writes the tests.
namespace ebb {

// Compares word by word. Numbers may differ by 5 %, and tiny ones, which are rounding errors, by any amount: a trained
// model's result depends on the processor's rounding.
inline void expect_same_text(const std::string& got, const std::string& want) {
  std::istringstream a(got), b(want);
  for (std::string x, y; true;) {
    const bool more_a = static_cast<bool>(a >> x), more_b = static_cast<bool>(b >> y);
    ASSERT_EQ(more_a, more_b) << "printed:\n" << got << "\nthe page says:\n" << want;
    if (!more_a) return;
    std::size_t end_x = 0, end_y = 0;
    double u = 0, v = 0;
    try {
      u = std::stod(x, &end_x), v = std::stod(y, &end_y);
    } catch (const std::exception&) {
    }
    const bool numbers = end_x == x.size() && end_y == y.size();
    ASSERT_TRUE(x == y || (numbers && std::fabs(u - v) <= 0.05 * std::fabs(v) + 1e-6))
        << "'" << x << "' instead of '" << y << "'; printed:\n"
        << got << "\nthe page says:\n"
        << want;
  }
}

template <class T>
void expect_prints(const T& value, const std::string& want) {
  std::ostringstream out;
  out << value;
  EXPECT_EQ(out.str(), want);
}

// Captures output to std::cout.
class Printed {
 public:
  Printed() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~Printed() { std::cout.rdbuf(before_); }
  void expect(const std::string& want) {
    expect_same_text(text_.str(), want);
    drop();
  }
  void drop() { text_.str(""); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

}  // namespace ebb
