// SPDX-License-Identifier: MIT
// A program outside the tree: it sees only the installed headers and library.
#include <ebb/ebb.h>

#include <cstdio>

int main() {
  const ebb::Tensor x = ebb::full({2, 3}, 2.0);
  const double total = ebb::sum(x * x).item();
  bool threw = false;
  try {
    ebb::add(x, ebb::full({4}, 1.0));
  } catch (const ebb::Error& error) {  // its type must be the same on both sides of the library boundary
    threw = error.kind() == ebb::Error::Kind::value;
  }
  std::printf("%g %d\n", total, threw);
  return total == 24.0 && threw ? 0 : 1;
}
