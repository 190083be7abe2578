// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ebb/tensor.h"

namespace ebb {

using Batch = std::vector<Tensor>;

struct LoaderOptions {
  std::int64_t batch_size = 32;
  bool shuffle = true;
  bool drop_last = false;  // omit an incomplete last batch
  int workers = 0;         // threads that prepare batches; 0: the calling thread
  int prefetch = 2;        // batches prepared ahead per worker
  std::uint64_t seed = 0;
  // Every batch is divided into this many shards, of which those in [first_shard, last_shard) are made: a rank of a
  // distributed program makes its own (ebb/distributed.h), and which items they hold does not depend on who makes them.
  int shards = 1, first_shard = 0, last_shard = 1;
};

// Some shards of a batch of `rows` items.
struct ShardedBatch {
  std::vector<Batch> shards;
  std::int64_t rows = 0;
  // The first item of a shard; shards are as even as possible.
  static constexpr std::int64_t begin_of(std::int64_t rows, int shards, int shard) { return rows * shard / shards; }
};

// The position of a loader: batch `batch` of epoch `epoch` comes next.
struct LoaderPosition {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  bool operator==(const LoaderPosition&) const = default;
};

// Batches of a data set, epoch after epoch. The contents of a batch depend only on the seed, the epoch and its number,
// not on the workers, so a loader restored to a position continues bit-identically.
// Batches of tensors are on the device that was the default one when the loader was made.
class DataLoader {
 public:
  // Makes the batch of these items, on a worker's thread: it must be safe to call from several threads. Within it the
  // thread's random numbers (rand, bernoulli, ...) are seeded by the batch's position, so augmentation is reproducible.
  using Make = std::function<Batch(const std::vector<std::int64_t>& items)>;

  // Rows of tensors of equal length: DataLoader({images, labels}, {.batch_size = 64}).
  explicit DataLoader(std::vector<Tensor> columns, const LoaderOptions& options = {});
  DataLoader(std::int64_t size, Make make, const LoaderOptions& options = {});
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;

  std::int64_t size() const;     // items
  std::int64_t batches() const;  // in an epoch

  // The next batch; nothing once at the end of each epoch. An exception from `make` is rethrown here, and the next call
  // retries the same batch.
  std::optional<Batch> next();
  // The same for a loader with several shards.
  std::optional<ShardedBatch> next_shards();

  LoaderPosition position() const;
  void restore(const LoaderPosition& position);

  // for (const Batch& batch : loader): the rest of the epoch.
  class Iterator {
   public:
    Iterator() = default;
    explicit Iterator(DataLoader* loader) : loader_(loader), batch_(loader->next()) {}
    const Batch& operator*() const { return *batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    bool operator!=(const Iterator&) const { return batch_.has_value(); }

   private:
    DataLoader* loader_ = nullptr;
    std::optional<Batch> batch_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return {}; }

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ebb
