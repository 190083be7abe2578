// SPDX-License-Identifier: MIT
#include "comm/buckets.h"

#include <algorithm>
#include <map>

#include "comm/ordered_sum.h"
#include "ops/build.h"

namespace ebb::comm {
namespace {

using distributed::detail::Group;

constexpr const char* kLabel = "DataParallel";

std::int64_t bytes_of(const Tensor& t) { return t.numel() * static_cast<std::int64_t>(size_of(t.dtype())); }

// Positions in the list, from its end: consecutive ones, as many as fit.
std::vector<std::vector<std::size_t>> buckets_of(const std::vector<Tensor>& tensors, std::int64_t most) {
  std::vector<std::vector<std::size_t>> all;
  std::int64_t bytes = 0;
  for (std::size_t k = tensors.size(); k-- > 0;) {
    if (all.empty() || bytes + bytes_of(tensors[k]) > most) {
      all.emplace_back();
      bytes = 0;
    }
    all.back().push_back(k);
    bytes += bytes_of(tensors[k]);
  }
  return all;
}

// Ranks add up equal shares of all bytes. Segments begin at multiples of a cache line.
std::vector<Segment> equal_shares(const std::vector<Tensor>& list, int ranks) {
  std::int64_t all = 0, before = 0;
  for (const Tensor& t : list) all += bytes_of(t);
  std::vector<Segment> segments;
  for (std::size_t k = 0; k < list.size(); ++k) {
    const auto size = static_cast<std::int64_t>(size_of(list[k].dtype()));
    std::int64_t from = 0;
    for (int r = 0; r < ranks && from < list[k].numel(); ++r) {
      const std::int64_t end = (all * (r + 1) / ranks - before) / size / 64 * 64;
      const std::int64_t to = r + 1 == ranks ? list[k].numel() : std::clamp(end, from, list[k].numel());
      if (to > from) segments.push_back({k, from, to, r});
      from = to;
    }
    before += bytes_of(list[k]);
  }
  return segments;
}

}  // namespace

std::vector<Tensor> sum_over_shards(const std::vector<std::vector<Tensor>>& blocks, int shards,
                                    std::int64_t bucket_bytes, Group& group, const std::vector<Parts>& parts,
                                    bool overlap) {
  std::vector<std::vector<Block>> of_ranks;
  for (int r = 0; r < group.size(); ++r)
    of_ranks.push_back(blocks_of(first_shard(shards, group.size(), r), first_shard(shards, group.size(), r + 1)));
  std::vector<Tensor> sums(blocks[0].size());
  Group::Overlapped overlapped(group);
  for (const std::vector<std::size_t>& bucket : buckets_of(blocks[0], bucket_bytes)) {
    std::vector<Tensor> inputs, list;
    for (const std::vector<Tensor>& block : blocks) {
      for (std::size_t k : bucket) inputs.push_back(block[k]);
    }
    list.assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(bucket.size()));
    auto sum = std::make_shared<ListSum>();
    sum->blocks = of_ranks;
    sum->tensors = list.size();
    sum->output.resize(list.size(), -1);
    std::int64_t bytes = 0;
    for (const Tensor& t : list) bytes += bytes_of(t);
    sum->to_all = parts.empty() && bytes > kSummedByEveryone;
    if (sum->to_all) sum->segments = equal_shares(list, group.size());
    sum->output_from.resize(list.size(), 0);
    std::vector<std::pair<Shape, DType>> facts, outputs;
    std::vector<std::size_t> taken;
    for (std::size_t k = 0; k < list.size(); ++k) {
      facts.emplace_back(list[k].shape(), list[k].dtype());
      const bool owned = !parts.empty() && !parts[bucket[k]].empty();
      if (!sum->to_all && !owned) sum->segments.push_back({k, 0, list[k].numel(), kEveryone});
      std::pair<Shape, DType> own = facts.back();
      if (owned) {
        for (const OwnedPart& p : parts[bucket[k]]) sum->segments.push_back({k, p.from, p.to, p.owner});
        const OwnedPart* const mine = part_of(parts[bucket[k]], group.rank());
        if (!mine) continue;
        if (mine->size() < list[k].numel()) own.first = Shape{mine->size()};
        sum->output_from[k] = mine->from;
      }
      sum->output[k] = static_cast<int>(outputs.size());
      outputs.push_back(own);
      taken.push_back(bucket[k]);
    }
    const std::vector<Tensor> results = overlap ? overlapped.collective(sum, kLabel, facts, inputs, outputs)
                                                : group.collective(sum, kLabel, facts, inputs, outputs);
    for (std::size_t k = 0; k < taken.size(); ++k) sums[taken[k]] = results[k];
  }
  return overlap ? overlapped.finished(sums) : sums;
}

std::vector<Tensor> total_over_shards(std::vector<std::vector<Tensor>> of_shards, int shards, std::int64_t bucket_bytes,
                                      Group& group, const std::vector<Parts>& parts, bool overlap) {
  const auto add = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    std::vector<Tensor> sum;
    for (std::size_t k = 0; k < a.size(); ++k) sum.push_back(a[k] + b[k]);
    return sum;
  };
  Tree<std::vector<Tensor>, decltype(add)> tree(add);
  const int first = first_shard(shards, group.size(), group.rank());
  for (std::size_t k = 0; k < of_shards.size(); ++k)
    tree.put({first + static_cast<int>(k), 1}, std::move(of_shards[k]));
  if (group.size() == 1) return tree.total();
  std::vector<std::vector<Tensor>> blocks;
  for (auto& [block, values] : tree.blocks()) blocks.push_back(std::move(values));
  return sum_over_shards(blocks, shards, bucket_bytes, group, parts, overlap);
}

std::vector<Parts> parts_of_gradients(const Parameters& parameters, const std::vector<std::size_t>& used, int ranks) {
  std::vector<Parts> all = divide(parameters, ranks), parts;
  std::map<const Node*, int> times;
  for (const Parameter& p : parameters) ++times[p.tensor->node()];
  for (std::size_t p : used) parts.push_back(times[parameters[p].tensor->node()] == 1 ? all[p] : Parts{});
  return parts;
}

Tensor gradient_from(const Tensor& got, const Shape& shape, DType dtype) {
  return got.defined() && got.shape() == shape ? got : gradient_with_part(shape, dtype, got);
}

}  // namespace ebb::comm
