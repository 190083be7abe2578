// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <mutex>

#include "comm/buckets.h"
#include "comm/local.h"
#include "ebb/distributed.h"
#include "ebb/ops.h"

// Sums of lists over the shards of a world, in every dtype: bit-identical to one rank, however the ranks are spread
// over hosts (those of one host read each other's memory, others send messages) and whichever rank adds up what.
namespace ebb::comm {
namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::u8, DType::f64, DType::bf16, DType::i32, DType::i64};
constexpr int kShards = 7;

// Sums of halves are rounded, so that their order counts; bytes wrap around.
Tensor of_shard(int shard, DType dtype, std::int64_t numel) {
  return cast(remainder(arange(numel) * (37 + shard) + 11 * shard, 1021) * 0.37, dtype).eval();
}

// The sums of all tensors as every rank has them, in f64, which holds all numbers here.
std::vector<std::vector<double>> sums(int ranks, int per_host, std::int64_t numel, std::int64_t bucket_bytes,
                                      bool overlap) {
  std::mutex mutex;
  std::vector<std::vector<std::vector<double>>> of_ranks;
  distributed::run_as_threads(
      ranks,
      [&] {
        distributed::detail::Group& group = distributed::world().group();
        std::vector<std::vector<Tensor>> mine;
        for (int s = first_shard(kShards, ranks, group.rank()); s < first_shard(kShards, ranks, group.rank() + 1);
             ++s) {
          mine.emplace_back();
          for (const DType dtype : kDTypes) mine.back().push_back(of_shard(s, dtype, numel));
        }
        std::vector<std::vector<double>> got;
        for (const Tensor& t : total_over_shards(mine, kShards, bucket_bytes, group, {}, overlap))
          got.push_back(t.to_vector());
        const std::lock_guard lock(mutex);
        of_ranks.push_back(got);
      },
      per_host);
  for (const auto& one : of_ranks) EXPECT_EQ(one, of_ranks[0]) << "ranks disagree";
  return of_ranks[0];
}

TEST(OrderedSum, HasTheBitsOfOneRankInEveryDType) {
  // Few elements are added up by everyone; with many, every rank adds a share and sends it to the others.
  for (const std::int64_t numel : {100, 5001, 40007}) {
    const std::vector<std::vector<double>> alone = sums(1, 1, numel, 1 << 30, false);
    for (std::size_t k = 0; k < std::size(kDTypes); ++k) {
      if (is_floating(kDTypes[k])) continue;
      Tensor exact = zeros({numel}, DType::i64);
      for (int s = 0; s < kShards; ++s) exact = exact + cast(of_shard(s, kDTypes[k], numel), DType::i64);
      EXPECT_EQ(alone[k], cast(kDTypes[k] == DType::u8 ? remainder(exact, 256) : exact, DType::f64).to_vector());
    }
    for (const auto& [ranks, per_host] : {std::pair{2, 2}, {2, 1}, {3, 1}, {5, 2}, {7, 3}}) {
      for (const bool overlap : {false, true}) {
        EXPECT_EQ(sums(ranks, per_host, numel, overlap ? 50'000 : 1 << 30, overlap), alone)
            << numel << " elements, " << ranks << " ranks, " << per_host << " on a host";
      }
    }
  }
}

}  // namespace
}  // namespace ebb::comm
