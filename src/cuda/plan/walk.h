// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "sweep/program.h"

namespace ebb::cuda {

// Neighbouring dimensions of a program that a kernel walks by one number ("row", "col", "e"), with as few as the
// strides of everything in memory allow: dimensions of size 1 go, and two become one where nobody sees the difference.
struct Walk {
  std::string linear;      // the number
  std::string coordinate;  // prefix of its coordinates
  std::vector<std::int64_t> sizes;
  std::vector<int> last;  // the program's dimension whose stride each has: the innermost of those it is made of

  std::int64_t elements() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  }
  // The coordinate along dimension d, in the text.
  std::string at(std::size_t d) const { return sizes.size() == 1 ? linear : coordinate + std::to_string(d); }

  bool operator==(const Walk&) const = default;
};

// The stride along its innermost dimension.
inline std::int64_t strides_along(const Walk& w, const Strides& strides) {
  return w.sizes.empty() ? 0 : strides[w.last.back()];
}

// Covers dimensions [from, to) of the program.
Walk make_walk(const Program& program, int from, int to, const std::string& linear, const std::string& coordinate);

}  // namespace ebb::cuda
