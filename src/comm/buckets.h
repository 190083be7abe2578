#pragma once
#include <vector>

#include "comm/group.h"
#include "comm/tree.h"

namespace ebb::comm {

// The sums of tensors over all shards of the world, in the order of the tree (comm/tree.h). `blocks[b]` are the sums
// that this rank has of its block b, a list of tensors with the same shapes and dtypes on all ranks. They travel in
// buckets of about `bucket_bytes`. `owners` says which rank gets each of them, kEveryone where it is empty; what this
// rank does not get is left undefined.
std::vector<Tensor> sum_over_shards(const std::vector<std::vector<Tensor>>& blocks, int shards,
                                    std::int64_t bucket_bytes, distributed::detail::Group& group,
                                    const std::vector<int>& owners = {});

// In place of a gradient that another rank has: reading it is an Error.
Tensor elsewhere(const Shape& shape, DType dtype);

}  // namespace ebb::comm
