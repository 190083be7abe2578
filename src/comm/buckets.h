// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "comm/division.h"
#include "comm/group.h"
#include "comm/tree.h"

namespace ebb::comm {

// Sums of tensors over all shards of the world, in the order of the tree (comm/tree.h). `blocks[b]` are this rank's
// sums over its block b, a list of tensors with the same shapes and dtypes on all ranks. They travel in buckets of
// about `bucket_bytes`. `parts` says who owns which elements of each of them: a rank gets its part, [size], whole where
// it owns all of it, undefined where it owns nothing. No owners, or no parts at all: everyone gets everything.
//
// With `overlap` a bucket's exchange runs while later work is computed. The last tensors of the list go first: the
// reverse pass computes the gradients of the last layers first.
std::vector<Tensor> sum_over_shards(const std::vector<std::vector<Tensor>>& blocks, int shards,
                                    std::int64_t bucket_bytes, distributed::detail::Group& group,
                                    const std::vector<Parts>& parts = {}, bool overlap = false);

// The same from the lists of this rank's shards, in a world of any size.
std::vector<Tensor> total_over_shards(std::vector<std::vector<Tensor>> of_shards, int shards, std::int64_t bucket_bytes,
                                      distributed::detail::Group& group, const std::vector<Parts>& parts = {},
                                      bool overlap = false);

// The parts of gradients that go to owners: `used` are those of the parameters that have gradients. A tensor shared by
// several parameters (copies, before their first step) goes to everyone.
std::vector<Parts> parts_of_gradients(const Parameters& parameters, const std::vector<std::size_t>& used, int ranks);
// The gradient of a parameter from what this rank got of it.
Tensor gradient_from(const Tensor& got, const Shape& shape, DType dtype);

}  // namespace ebb::comm
