// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "calls/distances.h"
#include "ebb/tensor.h"

// Shared by cdist, pdist and their gradient rules; shapes and dtypes as in calls/distances.h.
namespace ebb {

Tensor distances_node(const std::vector<Tensor>& rows, const DistanceCall& call);
Tensor distances_gradient_node(const Tensor& grad, const Tensor& distances, const std::vector<Tensor>& rows,
                               const DistanceCall& call);

// i and j of every pair i < j of n rows, i64.
struct PairIndex {
  Tensor first, second;
};
PairIndex index_of_pairs(std::int64_t n);

}  // namespace ebb
