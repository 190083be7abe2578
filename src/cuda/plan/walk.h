// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "sweep/program.h"

namespace ebb::cuda {

// Neighbouring dimensions of a program that a kernel walks by one number ("row", "col", "e"), merged as far as all
// strides in memory allow: dimensions of size 1 are dropped, and two become one where no stride tells them apart.
struct Walk {
  std::string linear;      // the number
  std::string coordinate;  // prefix of its coordinates
  std::vector<std::int64_t> sizes;
  std::vector<int> last;  // for each, the program's dimension whose stride it has: the innermost of those merged

  std::int64_t elements() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  }
  // The text of the coordinate along dimension d.
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
