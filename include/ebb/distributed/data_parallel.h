// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "ebb/data/loader.h"
#include "ebb/distributed/world.h"
#include "ebb/nn/parameters.h"
#include "ebb/random.h"

namespace ebb::distributed {

struct DataParallelOptions {
  int shards = 0;  // of a batch; 0: 4, or the number of ranks rounded up to a power of two if that is more
  std::int64_t bucket_bytes = 8 << 20;  // gradients travel in buckets of this size
  // Gradients go only to the ranks that own their parameters or parts of them, see ShardedOptimizer, whose step and
  // clip_by_norm need no more; looking at another is an Error. This halves what ranks send.
  bool to_owners = false;
  // A bucket's exchange goes on while the gradients of earlier layers are computed, on a thread of its own. The bits
  // are the same.
  bool overlap = false;
};

// The contribution of a shard: its loss, a mean over its rows, and other numbers to be summed over all shards (how many
// answers were right).
struct ShardLoss {
  Tensor loss;
  std::vector<Tensor> sums = {};
};

// Results for the whole batch, the same on every rank, to the last bit.
struct BatchGradients {
  Tensor loss;  // the mean over all rows
  std::vector<Tensor> sums;
  Gradients gradients;
};

// Ranks that hold the same model and compute the gradients of parts of a batch.
//
//   distributed::DataParallel parallel;
//   DataLoader loader({images, labels}, parallel.loader_options({.batch_size = 256}));
//   for (auto batch = loader.next_shards(); batch; batch = loader.next_shards()) {
//     auto [loss, sums, gradients] = parallel.gradients(model, *batch, [](Mlp& m, const Batch& b) {
//       return ShardLoss{cross_entropy(m(b[0]), b[1])};
//     });
//     optimizer.step(model, gradients);
//   }
//
// **The bits of a step do not depend on the number of ranks.** A batch has a fixed number of shards, whoever computes
// them. Each shard is computed by itself, from the same parameters and buffers, with random numbers of its own;
// gradients are weighted by rows and added as a binary tree over the shards, then divided by their number. So 1, 2, 3
// or 4 ranks with 4 shards give the same parameters; another number of shards gives other last bits. More ranks than
// shards are an Error. Clipping and the decision to skip a step follow from the gradients, so they are the same on all
// ranks.
//
// Layers see one shard at a time. Batch norm takes its statistics over the rows of a shard, and running statistics (all
// floating-point buffers that change) become the mean over the shards; other buffers become those of the first shard.
class DataParallel {
 public:
  explicit DataParallel(const DataParallelOptions& options = {}, const World& among = world());

  const World& among() const { return world_; }
  int shards() const { return shards_; }
  int first_shard() const { return first_; }  // this rank's are [first_shard, last_shard)
  int last_shard() const { return last_; }

  // For a loader of this rank's shards, and this rank's shards of a batch that all ranks have.
  LoaderOptions loader_options(LoaderOptions options) const;
  ShardedBatch shards_of(const Batch& whole) const;

  // From the loss of a shard its gradients; for loss scaling. They are weighted and summed afterwards.
  using Backward = std::function<Gradients(const Tensor& loss)>;

  // Adds the gradients of a batch; several batches make one step (gradient accumulation). The loss is called as
  // loss(copy of the model, shard) and returns a ShardLoss.
  template <class Model, class Loss>
  void add(Model& model, const ShardedBatch& batch, Loss loss, const Backward& backward = {}) {
    begin(batch);
    const RandomState before = random_state();
    for (std::size_t k = 0; k < batch.shards.size(); ++k) {
      draw_for_shard(before, k);
      Model copy = model;
      take_shard_buffers(k, buffers(copy));
      ShardLoss one = loss(copy, batch.shards[k]);
      add_shard(k, parameters(model), buffers(model), buffers(copy), one, backward);
    }
    draw_after(before);
  }
  // The mean over the batches that were added; the model's buffers are replaced.
  template <class Model>
  BatchGradients take(Model& model) {
    return take_all(parameters(model), buffers(model));
  }
  // Both, for steps of one batch.
  template <class Model, class Loss>
  BatchGradients gradients(Model& model, const ShardedBatch& batch, Loss loss, const Backward& backward = {}) {
    add(model, batch, loss, backward);
    return take(model);
  }

 private:
  struct Shard {
    Tensor loss;
    std::vector<Tensor> sums, gradients, buffers;
  };

  void begin(const ShardedBatch& batch);
  void draw_for_shard(const RandomState& before, std::size_t k) const;
  void draw_after(const RandomState& before) const;
  void take_shard_buffers(std::size_t k, const Parameters& into) const;
  void add_shard(std::size_t k, const Parameters& parameters, const Parameters& before, const Parameters& after,
                 const ShardLoss& one, const Backward& backward);
  BatchGradients take_all(const Parameters& parameters, const Parameters& buffers);
  void eval_shards() const;

  World world_;
  int shards_ = 1, first_ = 0, last_ = 1;
  std::int64_t bucket_bytes_;
  bool to_owners_, overlap_;
  int batches_ = 0;
  std::int64_t rows_ = 0;             // of the current batch
  std::vector<Shard> local_;          // sums over the batches, of each of this rank's shards
  std::vector<std::size_t> used_;     // the parameters that have gradients
  std::vector<bool> buffer_changes_;  // of each buffer
};

}  // namespace ebb::distributed
