// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "graph/lock.h"

namespace ebb {

// Computes a graph with a hole (a placeholder) for many values of the hole at once: every operation that depends on the
// hole gets an extra leading axis, the rest is computed once for all. Products of a matrix with many vectors become one
// product of matrices.
//
// The copies carry no history of the formulas they came from: use them only where nothing is differentiated any more.
class Batch {
 public:
  Batch(const Tensor& root, const Tensor& hole);

  // False if an operation involved has no batched form (a convolution, attention...).
  bool possible() const { return possible_; }
  // Elements of the largest value that depends on the hole, for one value of it.
  std::int64_t largest() const { return largest_; }
  // [n, root's shape] from values [n, hole's shape].
  Tensor of(const Tensor& values) const;

 private:
  bool sort(GraphLock& lock);

  Tensor root_, hole_;
  // Nodes that depend on the hole, inputs first. Such nodes are never evaluated: nothing changes them, and root_ keeps
  // them alive.
  std::vector<Node*> order_;
  bool possible_ = true;
  std::int64_t largest_ = 1;
};

}  // namespace ebb
