// SPDX-License-Identifier: MIT
#include "ebb/distributed/data_parallel.h"

#include <algorithm>
#include <bit>

#include "comm/buckets.h"
#include "comm/group.h"
#include "core/format_error.h"
#include "core/random.h"
#include "ebb/ops/create.h"
#include "ebb/ops/shape.h"
#include "ops/build.h"

namespace ebb::distributed {
namespace {

constexpr int kUsualShards = 4;

void append(std::vector<Tensor>& to, const std::vector<Tensor>& more) { to.insert(to.end(), more.begin(), more.end()); }

Tensor scaled(const Tensor& x, double factor) { return factor == 1 ? x : x * factor; }

}  // namespace

DataParallel::DataParallel(const DataParallelOptions& options, const World& among)
    : world_(among), bucket_bytes_(options.bucket_bytes), to_owners_(options.to_owners), overlap_(options.overlap) {
  const int ranks = among.size();
  require(options.shards >= 0, "DataParallel: the number of shards must not be negative, got {}", options.shards);
  require(options.bucket_bytes > 0, "DataParallel: bucket_bytes must be positive, got {}", options.bucket_bytes);
  shards_ = options.shards > 0 ? options.shards
                               : std::max(kUsualShards, static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))));
  require(ranks <= shards_, "DataParallel: {} ranks cannot share {} shards of a batch; give at least {} shards", ranks,
          shards_, ranks);
  first_ = comm::first_shard(shards_, ranks, among.rank());
  last_ = comm::first_shard(shards_, ranks, among.rank() + 1);
}

LoaderOptions DataParallel::loader_options(LoaderOptions options) const {
  options.shards = shards_;
  options.first_shard = first_;
  options.last_shard = last_;
  return options;
}

ShardedBatch DataParallel::shards_of(const Batch& whole) const {
  require(!whole.empty(), "DataParallel: the batch has no tensors");
  ShardedBatch batch{{}, whole[0].size(0)};
  for (int s = first_; s < last_; ++s) {
    const std::int64_t from = ShardedBatch::begin_of(batch.rows, shards_, s),
                       to = ShardedBatch::begin_of(batch.rows, shards_, s + 1);
    Batch& shard = batch.shards.emplace_back();
    for (const Tensor& t : whole) shard.push_back(narrow(t, 0, from, to - from));
  }
  return batch;
}

void DataParallel::begin(const ShardedBatch& batch) {
  require(
      batch.rows >= shards_,
      "DataParallel: a batch of {} rows cannot be divided into {} shards; leave incomplete batches out (drop_last) or "
      "use fewer shards",
      batch.rows, shards_);
  require(static_cast<int>(batch.shards.size()) == last_ - first_,
          "DataParallel: this rank computes {} shards of a batch, got {}; make the loader with loader_options()",
          last_ - first_, batch.shards.size());
  if (batches_ > 0) eval_shards();  // so that activations of the previous batch are freed
  rows_ = batch.rows;
  local_.resize(static_cast<std::size_t>(last_ - first_));
  ++batches_;
}

// A single shard is the program without shards, and draws the same numbers.
void DataParallel::draw_for_shard(const RandomState& before, std::size_t k) const {
  if (shards_ == 1) return;
  std::uint32_t words[4];
  philox_block(~before.seed, before.next_operation, static_cast<std::uint64_t>(first_) + k, words);
  random_state() = {std::uint64_t{words[0]} << 32 | words[1], 0};
}
void DataParallel::draw_after(const RandomState& before) const {
  if (shards_ > 1) random_state() = {before.seed, before.next_operation + 1};
}

// A shard keeps its own buffers until the step is complete.
void DataParallel::take_shard_buffers(std::size_t k, const Parameters& into) const {
  if (batches_ == 1) return;
  for (std::size_t b = 0; b < into.size(); ++b) *into[b].tensor = local_[k].buffers[b];
}

void DataParallel::add_shard(std::size_t k, const Parameters& parameters, const Parameters& before,
                             const Parameters& after, const ShardLoss& one, const Backward& backward) {
  const Gradients g = backward ? backward(one.loss) : ebb::backward(one.loss);
  Shard& shard = local_[k];
  const int s = first_ + static_cast<int>(k);
  const auto rows =
      static_cast<double>(ShardedBatch::begin_of(rows_, shards_, s + 1) - ShardedBatch::begin_of(rows_, shards_, s));
  const double weight = rows * shards_ / static_cast<double>(rows_);  // 1 where shards are of equal size

  std::vector<std::size_t> used;
  std::vector<Tensor> gradients;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (!g.contains(*parameters[p].tensor)) continue;
    used.push_back(p);
    const Tensor gradient = g[*parameters[p].tensor];
    gradients.push_back(scaled(shards_ == 1 ? gradient : widen(gradient), weight));
  }
  const bool first = batches_ == 1;
  require((first && k == 0) || used == used_,
          "DataParallel: the loss depends on {} parameters in one shard and on {} in another; every shard must use the "
          "same ones",
          used_.size(), used.size());
  used_ = std::move(used);
  const Tensor loss = scaled(widen(stop_gradient(one.loss)), weight);
  if (first) {
    shard = {loss, one.sums, std::move(gradients), {}};
  } else {
    const auto sum = [](const Tensor& a, const Tensor& b) { return widen(a) + widen(b); };
    shard.loss = shard.loss + loss;
    for (std::size_t i = 0; i < shard.sums.size(); ++i) shard.sums[i] = shard.sums[i] + one.sums[i];
    for (std::size_t i = 0; i < gradients.size(); ++i) shard.gradients[i] = sum(shard.gradients[i], gradients[i]);
  }
  shard.buffers.clear();
  buffer_changes_.resize(before.size());
  for (std::size_t b = 0; b < before.size(); ++b) {
    shard.buffers.push_back(stop_gradient(*after[b].tensor));
    buffer_changes_[b] = before[b].tensor->node() != after[b].tensor->node();
  }
  if (k + 1 < local_.size()) eval_shards();  // the last one is computed together with the exchange
}

void DataParallel::eval_shards() const {
  std::vector<Tensor> all;
  for (const Shard& s : local_) {
    if (!s.loss.defined()) continue;
    all.push_back(s.loss);
    append(all, s.sums);
    append(all, s.gradients);
    append(all, s.buffers);
  }
  eval(all);
}

BatchGradients DataParallel::take_all(const Parameters& parameters, const Parameters& buffers) {
  require(batches_ > 0, "DataParallel: nothing was added since the gradients were last taken");
  const NoHistory scope;
  const auto averaged = [&](std::size_t b) { return buffer_changes_[b] && is_floating(local_[0].buffers[b].dtype()); };
  std::vector<std::vector<Tensor>> of_shards;
  for (const Shard& s : local_) {
    std::vector<Tensor>& all = of_shards.emplace_back();
    all.push_back(s.loss);
    append(all, s.sums);
    append(all, s.gradients);
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      if (shards_ > 1 && averaged(b)) all.push_back(widen(s.buffers[b]));
    }
  }
  std::vector<comm::Parts> parts;  // for the summed tensors: every rank gets all but the gradients
  if (to_owners_ && world_.size() > 1) {
    parts.resize(of_shards[0].size());
    std::ranges::copy(comm::parts_of_gradients(parameters, used_, world_.size()),
                      parts.begin() + 1 + static_cast<std::ptrdiff_t>(local_[0].sums.size()));
  }
  std::vector<Tensor> sums =
      comm::total_over_shards(std::move(of_shards), shards_, bucket_bytes_, world_.group(), parts, overlap_);
  const double share = 1.0 / (static_cast<double>(shards_) * batches_);
  std::size_t next = 0;
  const Tensor loss = scaled(sums[next++], share);
  std::vector<Tensor> further;
  for (std::size_t i = 0; i < local_[0].sums.size(); ++i) further.push_back(sums[next++]);
  std::vector<std::pair<Tensor, Tensor>> gradients;
  for (std::size_t k = 0; k < used_.size(); ++k, ++next) {
    const Tensor& parameter = *parameters[used_[k]].tensor;
    const Tensor got = sums[next].defined() ? scaled(sums[next], share) : Tensor();
    gradients.emplace_back(parameter, comm::gradient_from(got, parameter.shape(), local_[0].gradients[k].dtype()));
  }
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const Tensor& own = local_[0].buffers[b];
    if (!buffer_changes_[b]) continue;
    *buffers[b].tensor = shards_ > 1 && averaged(b) ? cast(scaled(sums[next++], 1.0 / shards_), own.dtype()) : own;
  }
  local_.clear();
  batches_ = 0;
  return {loss, std::move(further), Gradients(std::move(gradients))};
}

}  // namespace ebb::distributed
