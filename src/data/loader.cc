// SPDX-License-Identifier: MIT
#include "ebb/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "core/copy_stream.h"
#include "core/format_error.h"
#include "core/random.h"
#include "ebb/stream.h"
#include "graph/node.h"

namespace ebb {
namespace {

using Order = std::shared_ptr<const std::vector<std::int64_t>>;

// A number in [0, n), uniformly distributed: the high half of a 64 × 64 bit product, rejected where it would favour
// small ones (Lemire 2019).
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  std::uint64_t below(std::uint64_t n) {
    const std::uint64_t refused = -n % n;
    for (;;) {
      const unsigned __int128 product = static_cast<unsigned __int128>(word()) * n;
      if (static_cast<std::uint64_t>(product) >= refused) return static_cast<std::uint64_t>(product >> 64);
    }
  }

 private:
  std::uint64_t word() {
    if (used_ == 2) {
      philox_block(seed_, stream_, block_++, words_);
      used_ = 0;
    }
    const std::uint64_t value = std::uint64_t{words_[2 * used_]} << 32 | words_[2 * used_ + 1];
    ++used_;
    return value;
  }
  std::uint64_t seed_, stream_, block_ = 0;
  std::uint32_t words_[4] = {};
  int used_ = 2;
};

// The order of an epoch's items, by Fisher and Yates.
Order epoch_order(std::int64_t size, bool shuffle, std::uint64_t seed, std::int64_t epoch) {
  auto order = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(size));
  std::iota(order->begin(), order->end(), 0);
  if (shuffle) {
    Draws draws(seed, static_cast<std::uint64_t>(epoch));
    for (std::size_t i = order->size(); i > 1; --i) std::swap((*order)[i - 1], (*order)[draws.below(i)]);
  }
  return order;
}

// Seed of the random numbers inside one shard of a batch: words of a key the shuffles do not use.
RandomState batch_random(const LoaderPosition& p, int shard) {
  std::uint32_t words[4];
  philox_block(~p.seed, static_cast<std::uint64_t>(p.epoch), static_cast<std::uint64_t>(p.batch), words);
  const std::uint64_t whole = std::uint64_t{words[0]} << 32 | words[1];
  if (shard == 0) return {whole, 0};
  philox_block(whole, ~std::uint64_t{0}, static_cast<std::uint64_t>(shard), words);
  return {std::uint64_t{words[0]} << 32 | words[1], 0};
}

class BorrowedRandom {
 public:
  explicit BorrowedRandom(const RandomState& state) : before_(random_state()) { random_state() = state; }
  ~BorrowedRandom() { random_state() = before_; }

 private:
  RandomState before_;
};

// Copies rows: a worker builds no graph and holds no lock while doing it.
Tensor take_rows(const Tensor& column, const std::vector<std::int64_t>& items) {
  const Storage& from = evaluated_storage(column);
  const Shape shape = column.shape().with(0, static_cast<std::int64_t>(items.size()));
  const std::size_t element = size_of(column.dtype());
  const std::size_t row = column.size(0) == 0 ? 0 : static_cast<std::size_t>(column.numel() / column.size(0)) * element;
  BufferPtr buffer = BufferPtr::allocate(row * items.size(), "a batch");
  const std::byte* data = from.buffer.data() + static_cast<std::size_t>(from.offset) * element;
  if (row > 0) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::memcpy(buffer.data() + i * row, data + static_cast<std::size_t>(items[i]) * row, row);
    }
  }
  return make_data(column.dtype(), shape, std::move(buffer));
}

}  // namespace

// Batches are numbered across epochs. Workers take numbers in order and put their batches into `ready`; next() takes
// them out in order. A worker may be ahead of next() by at most the window.
class DataLoader::State {
 public:
  State(std::int64_t size, Make make, const LoaderOptions& options)
      : size_(size), make_(std::move(make)), options_(options), position_{options.seed, 0, 0} {
    require(size >= 0, "DataLoader: the number of items must not be negative, got {}", size);
    require(options.batch_size > 0, "DataLoader: batch_size must be positive, got {}", options.batch_size);
    require(options.workers >= 0 && options.workers <= 1024, "DataLoader: workers must lie in [0, 1024], got {}",
            options.workers);
    require(options.prefetch > 0, "DataLoader: prefetch must be positive, got {}", options.prefetch);
    require(options.shards > 0 && options.first_shard >= 0 && options.first_shard < options.last_shard &&
                options.last_shard <= options.shards,
            "DataLoader: shards [{}, {}) of {} do not exist", options.first_shard, options.last_shard, options.shards);
    batches_ = options.drop_last ? size / options.batch_size
                                 : size / options.batch_size + (size % options.batch_size != 0 ? 1 : 0);
  }
  ~State() { stop(); }

  std::int64_t size() const { return size_; }
  std::int64_t batches() const { return batches_; }
  const LoaderPosition& position() const { return position_; }

  void restore(const LoaderPosition& p) {
    require(p.epoch >= 0 && p.batch >= 0 && p.batch <= batches_,
            "DataLoader: batch {} of epoch {} does not exist, an epoch has {} batches", p.batch, p.epoch, batches_);
    stop();
    position_ = p;
    order_.reset();
  }

  const LoaderOptions& options() const { return options_; }

  std::optional<ShardedBatch> next() {
    if (position_.batch == batches_) {
      position_ = {position_.seed, position_.epoch + 1, 0};
      return {};
    }
    ShardedBatch batch = options_.workers == 0 ? make(position_, items(position_)) : from_worker();
    ++position_.batch;
    return batch;
  }

 private:
  std::vector<std::int64_t> items(const LoaderPosition& p) {
    if (!order_ || order_epoch_ != p.epoch) {
      order_ = epoch_order(size_, options_.shuffle, p.seed, p.epoch);
      order_epoch_ = p.epoch;
    }
    const std::int64_t first = p.batch * options_.batch_size, last = std::min(size_, first + options_.batch_size);
    return {order_->begin() + first, order_->begin() + last};
  }

  ShardedBatch make(const LoaderPosition& p, const std::vector<std::int64_t>& items) const {
    ShardedBatch batch{{}, static_cast<std::int64_t>(items.size())};
    for (int shard = options_.first_shard; shard < options_.last_shard; ++shard) {
      const BorrowedRandom random(batch_random(p, shard));
      const auto at = [&](int s) { return items.begin() + ShardedBatch::begin_of(batch.rows, options_.shards, s); };
      eval(batch.shards.emplace_back(make_({at(shard), at(shard + 1)})));
    }
    return batch;
  }

  struct Made {
    ShardedBatch batch;
    std::exception_ptr error;
  };

  ShardedBatch from_worker() {
    if (threads_.empty()) start();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_.contains(next_out_); });
    Made made = std::move(ready_.extract(next_out_).mapped());
    if (made.error) {
      lock.unlock();
      stop();  // batches prepared after it are discarded and redone
      std::rethrow_exception(made.error);
    }
    ++next_out_;
    changed_.notify_all();
    return std::move(made.batch);
  }

  void start() {
    ready_.clear();
    next_out_ = next_in_ = 0;
    stopping_ = false;
    claim_ = position_;
    const auto count = static_cast<std::size_t>(options_.workers);
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    ready_.clear();
  }

  void work() {
    const std::int64_t window = std::int64_t{options_.workers} * options_.prefetch;
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || next_in_ < next_out_ + window; });
      if (stopping_) return;
      const std::int64_t number = next_in_++;
      Made made;
      try {
        const LoaderPosition p = claim_;
        const std::vector<std::int64_t> mine = items(p);
        if (++claim_.batch == batches_) claim_ = {claim_.seed, claim_.epoch + 1, 0};
        lock.unlock();
        made.batch = make(p, mine);
      } catch (...) {
        made.error = std::current_exception();
      }
      if (!lock.owns_lock()) lock.lock();
      ready_.emplace(number, std::move(made));
      changed_.notify_all();
    }
  }

  std::int64_t size_, batches_ = 0;
  Make make_;
  LoaderOptions options_;
  LoaderPosition position_;  // of next(); the workers do not use it

  std::mutex mutex_;  // guards what follows while workers run
  std::condition_variable changed_;
  std::map<std::int64_t, Made> ready_;
  std::int64_t next_in_ = 0, next_out_ = 0;
  LoaderPosition claim_;  // the batch the next worker takes
  Order order_;
  std::int64_t order_epoch_ = -1;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

DataLoader::DataLoader(std::int64_t size, Make make, const LoaderOptions& options)
    : state_(std::make_unique<State>(size, std::move(make), options)) {}

DataLoader::DataLoader(std::vector<Tensor> columns, const LoaderOptions& options) {
  require(!columns.empty(), "DataLoader: it needs at least one tensor");
  for (const Tensor& column : columns) {
    require(column.defined() && column.rank() >= 1, "DataLoader: its tensors must have rows, one has none");
    require(column.size(0) == columns[0].size(0),
            "DataLoader: tensors must have the same number of rows, got {} and {}", columns[0].size(0), column.size(0));
  }
  for (Tensor& column : columns) column = column.to(Device{});  // batches are assembled on the host
  eval(columns);
  for (const Tensor& column : columns) evaluated_storage(column);  // contiguous from here on
  const std::int64_t size = columns[0].size(0);
  // Copied to the device by the worker that makes the batch, while the program computes on earlier ones.
  const auto make = [columns = std::move(columns), device = default_device()](const std::vector<std::int64_t>& items) {
    Batch batch;
    std::optional<OnStream> beside;
    if (void* const stream = copy_stream(device)) beside.emplace(device, stream);
    for (const Tensor& column : columns) batch.push_back(take_rows(column, items).to(device).eval());
    return batch;
  };
  state_ = std::make_unique<State>(size, make, options);
}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

std::int64_t DataLoader::size() const { return state_->size(); }
std::int64_t DataLoader::batches() const { return state_->batches(); }
std::optional<Batch> DataLoader::next() {
  require(state_->options().shards == 1, "DataLoader: its batches have {} shards; call next_shards()",
          state_->options().shards);
  std::optional<ShardedBatch> batch = state_->next();
  if (!batch) return {};
  return std::move(batch->shards[0]);
}
std::optional<ShardedBatch> DataLoader::next_shards() { return state_->next(); }
LoaderPosition DataLoader::position() const { return state_->position(); }
void DataLoader::restore(const LoaderPosition& position) { state_->restore(position); }

}  // namespace ebb
