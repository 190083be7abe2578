#include "comm/buckets.h"

#include <algorithm>

#include "ebb/ops/create.h"
#include "ebb/ops/elementwise.h"
#include "ebb/ops/shape.h"

namespace ebb::comm {
namespace {

using Kind = Collective::Kind;
using distributed::detail::Group;

constexpr const char* kLabel = "DataParallel";
constexpr std::int64_t kSmall = 32 << 10;  // bytes that all ranks send to all

std::int64_t bytes_of(const Tensor& t) { return t.numel() * static_cast<std::int64_t>(size_of(t.dtype())); }

// Tensors of one dtype, not more than fit: their positions in the list.
std::vector<std::vector<std::size_t>> buckets_of(const std::vector<Tensor>& tensors, std::int64_t most) {
  std::vector<std::vector<std::size_t>> all;
  for (int d = 0; d < kDTypeCount; ++d) {
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      if (tensors[k].dtype() != static_cast<DType>(d)) continue;
      if (bytes == 0 || bytes + bytes_of(tensors[k]) > most) {
        all.emplace_back();
        bytes = 0;
      }
      all.back().push_back(k);
      bytes += std::max<std::int64_t>(1, bytes_of(tensors[k]));
    }
  }
  return all;
}

// One rank's blocks of a bucket, [blocks, n]; ranks with fewer blocks than others fill up with zeros.
Tensor packed(const std::vector<std::vector<Tensor>>& blocks, const std::vector<std::size_t>& bucket, std::size_t count,
              std::int64_t length) {
  std::vector<Tensor> rows;
  const DType dtype = blocks[0][bucket[0]].dtype();
  for (const std::vector<Tensor>& block : blocks) {
    std::vector<Tensor> parts;
    std::int64_t n = 0;
    for (std::size_t k : bucket) {
      parts.push_back(reshape(block[k], {-1}));
      n += block[k].numel();
    }
    if (n < length) parts.push_back(zeros({length - n}, dtype));
    rows.push_back(cat(parts));
  }
  while (rows.size() < count) rows.push_back(zeros({length}, dtype));
  return rows.size() == 1 ? reshape(rows[0], {1, length}) : stack(rows);
}

// Sums [ranks, blocks, n] to [n].
Tensor add_up(const Tensor& all, const std::vector<std::vector<Block>>& blocks_of_ranks) {
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  Tree<Tensor, decltype(add)> tree(add);
  for (std::size_t r = 0; r < blocks_of_ranks.size(); ++r) {
    for (std::size_t b = 0; b < blocks_of_ranks[r].size(); ++b) {
      tree.put(blocks_of_ranks[r][b],
               select(select(all, 0, static_cast<std::int64_t>(r)), 0, static_cast<std::int64_t>(b)));
    }
  }
  return tree.total();
}

}  // namespace

std::vector<Tensor> sum_over_shards(const std::vector<std::vector<Tensor>>& blocks, int shards,
                                    std::int64_t bucket_bytes, Group& group) {
  const std::int64_t ranks = group.size();
  std::vector<std::vector<Block>> of_ranks;
  std::size_t most = 0;
  for (int r = 0; r < group.size(); ++r) {
    of_ranks.push_back(blocks_of(first_shard(shards, group.size(), r), first_shard(shards, group.size(), r + 1)));
    most = std::max(most, of_ranks.back().size());
  }
  const auto count = static_cast<std::int64_t>(most);
  std::vector<Tensor> sums(blocks[0].size());
  for (const std::vector<std::size_t>& bucket : buckets_of(blocks[0], bucket_bytes)) {
    std::int64_t n = 0;
    for (std::size_t k : bucket) n += blocks[0][k].numel();
    const bool small = n * static_cast<std::int64_t>(size_of(blocks[0][bucket[0]].dtype())) <= kSmall;
    const std::int64_t part = small ? n : (n + ranks - 1) / ranks;
    const Tensor mine = packed(blocks, bucket, most, small ? n : part * ranks);
    Tensor flat;
    if (small) {
      flat = add_up(group.collective(Kind::all_gather, kLabel, mine, {ranks, count, n}), of_ranks);
    } else {  // each rank adds up its part of the bucket, then everyone gets all parts
      const Tensor given = permute(reshape(mine, {count, ranks, part}), {1, 0, 2});
      const Tensor own = add_up(group.collective(Kind::all_to_all, kLabel, given, given.shape()), of_ranks);
      flat = reshape(group.collective(Kind::all_gather, kLabel, own, {ranks, part}), {-1});
    }
    std::int64_t at = 0;
    for (std::size_t k : bucket) {
      sums[k] = reshape(narrow(flat, 0, at, blocks[0][k].numel()), blocks[0][k].shape());
      at += blocks[0][k].numel();
    }
  }
  return sums;
}

}  // namespace ebb::comm
