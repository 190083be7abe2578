// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdio>
#include <vector>

#include "ebb/ebb.h"

// Two interleaved spirals, a problem for a small network, and its initial weights: shared by chained_backward.cc and
// mlp_autograd.cc, whose outputs must be equal to the last digit.
namespace spiral {

struct Problem {
  ebb::Tensor points;  // [n, 2]
  ebb::Tensor side;    // [n, 1]: which spiral, 0 or 1
  ebb::Tensor w1, b1, w2, b2;
};

inline Problem make() {
  using namespace ebb;
  manual_seed(7);
  const std::int64_t n = 200;
  const Tensor t = linspace(0.3, 1.0, n), angle = 4.0 * t;
  const Tensor arm = stack({t * cos(angle), t * sin(angle)}, 1) + 0.02 * randn({n, 2});
  Problem p;
  p.points = cat({arm, -arm});
  p.side = cat({zeros({n, 1}), ones({n, 1})});
  p.w1 = randn({2, 32}), p.b1 = zeros({32}), p.w2 = randn({32, 1}) * 0.2, p.b2 = zeros({1});
  eval({p.points, p.side, p.w1, p.w2});
  return p;
}

// Prints the loss now and then; returns true if training reached its goal.
inline bool report(int step, int steps, const ebb::Tensor& loss) {
  if (step % 100 == 0 || step == steps) std::printf("step %3d   loss %.8f\n", step, loss.item());
  return step < steps || loss.item() < 0.02;
}

}  // namespace spiral
