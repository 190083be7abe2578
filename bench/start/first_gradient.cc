// SPDX-License-Identifier: MIT
#include <cstdio>

#include "ebb/ebb.h"

// From the start of a process to its first gradient.
int main() {
  const ebb::Tensor x = ebb::variable(ebb::arange(1000.0) / 1000.0);
  const ebb::Tensor loss = ebb::sum(ebb::square(x));
  std::printf("%.4f\n", ebb::backward(loss)[x].to_vector<double>().back());
}
