// SPDX-License-Identifier: MIT
#include "comm/group.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <type_traits>
#include <utility>

#include "backend/background.h"
#include "core/format_error.h"
#include "core/host_lock.h"
#include "graph/effects.h"

namespace ebb::distributed::detail {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr std::uint64_t kCompiled = ~std::uint64_t{0};  // instead of the number of a created collective

void set_label(Announcement& announcement, const char* label) {
  std::strncpy(announcement.label, label, sizeof announcement.label - 1);
}

// The common base of all collectives of a group.
class Exchange : public RankedCollective {
 public:
  Exchange(Group& group, const Announcement& announcement, std::uint64_t created)
      : group_(group), announced_(announcement), created_(created) {
    kind = announcement.kind;
  }
  const void* world() const override { return group_.identity(); }
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::vector<std::byte> gather(const void* mine, std::size_t bytes) const override {
    return group_.gather(mine, bytes);
  }
  void require_ranks() const override { group_.require_ranks(); }
  void run(const LibraryCall& call) const override { group_.run(announced_, call, created_, nullptr); }
  void run_on(const LibraryCall& call, DeviceTransport& device) const override {
    group_.run(announced_, call, created_, &device);
  }

 protected:
  Group& group_;  // a world outlives its collectives
  Announcement announced_;
  std::uint64_t created_;
};

class ExchangeOfLists final : public Exchange {
 public:
  ExchangeOfLists(Group& group, const Announcement& announcement, std::uint64_t created,
                  std::shared_ptr<const comm::ListExchange> what, std::size_t count, bool later)
      : Exchange(group, announcement, created), what_(std::move(what)) {
    inputs = count;
    posted = later;
  }
  void run(const LibraryCall& call) const override {
    if (!posted) return group_.run(*what_, announced_, call, created_, nullptr);
    struct Kept {
      std::vector<View> inputs, outputs;
      LibraryCall call;
    };
    auto kept = std::make_shared<Kept>(
        Kept{{call.inputs.begin(), call.inputs.end()}, {call.outputs.begin(), call.outputs.end()}, call});
    kept->call.inputs = kept->inputs;
    kept->call.outputs = kept->outputs;
    group_.post([kept, what = what_, announcement = announced_, created = created_, group = &group_] {
      group->run(*what, announcement, kept->call, created, nullptr);
    });
  }
  void run_on(const LibraryCall& call, DeviceTransport& device) const override {
    group_.run(*what_, announced_, call, created_, &device);
  }

 private:
  std::shared_ptr<const comm::ListExchange> what_;
};

// Waits for posted collectives. No rank waits for another here, so there is nothing to compare.
class Finish final : public Exchange {
 public:
  Finish(Group& group, std::uint64_t created) : Exchange(group, {}, created) { inputs = 0; }
  void run(const LibraryCall&) const override { group_.finish(created_); }
  void run_on(const LibraryCall&, DeviceTransport&) const override { group_.finish(created_); }
};

std::uint64_t digest_of(const std::vector<std::pair<Shape, DType>>& list) {
  std::uint64_t h = 1469598103934665603u;
  const auto mix = [&h](std::int64_t v) { h = (h ^ static_cast<std::uint64_t>(v)) * 1099511628211u; };
  for (const auto& [shape, dtype] : list) {
    mix(static_cast<std::int64_t>(dtype));
    for (std::int64_t size : shape) mix(size);
    mix(-1);
  }
  return h;
}

}  // namespace

static_assert(std::is_trivially_copyable_v<Announcement>);

bool Announcement::same_as(const Announcement& o) const {
  return number == o.number && what == o.what && kind == o.kind && dtype == o.dtype && rank == o.rank &&
         root == o.root && tensors == o.tensors && digest == o.digest &&
         std::memcmp(sizes, o.sizes, sizeof sizes) == 0 && std::memcmp(label, o.label, sizeof label) == 0;
}

std::string Announcement::str() const {
  if (what == What::end) return "has ended its program";
  if (what == What::lists) return fmt::format("does {} of {} tensors with {} elements", label, tensors, sizes[0]);
  if (what != What::collective) return fmt::format("does {}", label);
  const Shape shape(std::vector<std::int64_t>(sizes, sizes + rank));
  return fmt::format("does {} of {} {}{}", label, dtype, shape,
                     kind == Collective::Kind::broadcast ? fmt::format(" from rank {}", root) : "");
}

Group::Group(std::unique_ptr<comm::Transport> transport) : transport_(std::move(transport)) {
  static std::atomic<std::uintptr_t> worlds{0};
  identity_ = reinterpret_cast<const void*>(++worlds);
  if (!transport_) return;
  rank_ = transport_->rank();
  size_ = transport_->size();
}

Group::~Group() {
  end();
  {
    const std::lock_guard lock(posting_);
    stopping_ = true;
  }
  posted_.notify_all();
  if (worker_.joinable()) worker_.join();
}

const std::string& Group::host(int rank) const {
  static const std::string here = "localhost";
  require(rank >= 0 && rank < size_, "World: there is no rank {}, the world has {}", rank, size_);
  return transport_ ? transport_->host(rank) : here;
}

Traffic Group::traffic() const {
  const std::lock_guard lock(counting_);
  return traffic_;
}

Tensor Group::create(const char* label, std::vector<Tensor> inputs, std::vector<std::pair<Shape, DType>> outputs,
                     const std::function<std::shared_ptr<const RankedCollective>(std::uint64_t number)>& make) {
  const NoHistory scope;
  const std::lock_guard creating(creating_);
  if (Effects* const effects = Effects::current()) {
    // In a compiled function: after earlier ones in the function; those from before the call are computed first.
    if (effects->last(this).defined()) inputs.push_back(effects->last(this));
    Tensor made = make_call(Op::collective, inputs, {}, std::move(outputs), make(kCompiled));
    effects->note(this, made, [this] { catch_up(); });
    return made;
  }
  require(!Tracing::is_on(), "{}: it cannot be part of a Jacobian that is computed many rows at a time", label);
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(order_);
    if (last_.defined()) inputs.push_back(last_);
    number = created_++;
  }
  Tensor made = make_call(Op::collective, inputs, {}, std::move(outputs), make(number));
  const std::lock_guard lock(order_);
  if (!made.evaluated()) last_ = made;  // otherwise an Eager scope has computed it already
  return made;
}

Tensor Group::collective(Collective::Kind kind, const char* label, const Tensor& x, const Shape& shape, int root) {
  Announcement announcement;
  announcement.what = Announcement::What::collective;
  announcement.kind = kind;
  announcement.dtype = x.dtype();
  announcement.rank = static_cast<std::uint8_t>(x.rank());
  announcement.root = root;
  for (int d = 0; d < x.rank(); ++d) announcement.sizes[d] = x.size(d);
  set_label(announcement, label);
  return create(label, {x}, {{shape, x.dtype()}},
                [&](std::uint64_t number) { return std::make_shared<Exchange>(*this, announcement, number); });
}

Announcement Group::announcement_of(const char* label, const std::vector<std::pair<Shape, DType>>& list) const {
  Announcement announcement;
  announcement.what = Announcement::What::lists;
  announcement.tensors = static_cast<std::int64_t>(list.size());
  announcement.digest = digest_of(list);
  announcement.rank = 1;
  for (const auto& [shape, dtype] : list) announcement.sizes[0] += shape.numel();
  set_label(announcement, label);
  return announcement;
}

std::vector<Tensor> Group::create_lists(std::shared_ptr<const comm::ListExchange> exchange, const char* label,
                                        const std::vector<std::pair<Shape, DType>>& list, std::vector<Tensor> inputs,
                                        const std::vector<std::pair<Shape, DType>>& outputs, bool posted) {
  const Announcement announcement = announcement_of(label, list);
  const std::size_t count = inputs.size();
  std::vector<std::pair<Shape, DType>> taken = outputs;
  if (taken.empty()) taken.push_back({Shape{0}, DType::u8});  // a node needs a value
  const Tensor made = create(label, std::move(inputs), std::move(taken), [&](std::uint64_t number) {
    return std::make_shared<ExchangeOfLists>(*this, announcement, number, exchange, count, posted);
  });
  std::vector<Tensor> all;
  for (std::size_t k = 0; k < std::max<std::size_t>(1, outputs.size()); ++k)
    all.push_back(output_of(made, static_cast<int>(k)));
  return all;
}

std::vector<Tensor> Group::collective(std::shared_ptr<const comm::ListExchange> exchange, const char* label,
                                      const std::vector<std::pair<Shape, DType>>& list, std::vector<Tensor> inputs,
                                      const std::vector<std::pair<Shape, DType>>& outputs) {
  std::vector<Tensor> all = create_lists(std::move(exchange), label, list, std::move(inputs), outputs, false);
  all.resize(outputs.size());
  return all;
}

std::vector<Tensor> Group::Overlapped::collective(std::shared_ptr<const comm::ListExchange> exchange, const char* label,
                                                  const std::vector<std::pair<Shape, DType>>& list,
                                                  const std::vector<Tensor>& inputs,
                                                  const std::vector<std::pair<Shape, DType>>& outputs) {
  std::vector<Tensor> all = group_.create_lists(std::move(exchange), label, list, inputs, outputs, true);
  used_.insert(used_.end(), inputs.begin(), inputs.end());
  used_.insert(used_.end(), all.begin(), all.end());
  all.resize(outputs.size());
  return all;
}

std::vector<Tensor> Group::Overlapped::finished(const std::vector<Tensor>& outputs) {
  const Tensor done = group_.create("DataParallel", used_, {{Shape{0}, DType::u8}},
                                    [&](std::uint64_t number) { return std::make_shared<Finish>(group_, number); });
  std::vector<Tensor> all;
  for (const Tensor& t : outputs)
    all.push_back(t.defined() ? make_node(Op::depend, t.dtype(), t.shape(), {t, done}) : Tensor());
  return all;
}

void Group::post(std::function<void()> work) {
  auto done = std::make_shared<std::promise<void>>();
  goes_on(done->get_future().share());
  const auto job = [done, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      done->set_value();
      throw;
    }
    done->set_value();
  };
  const std::lock_guard lock(posting_);
  if (!worker_.joinable()) {
    worker_ = std::thread([this] {
      std::unique_lock held(posting_);
      for (;;) {
        posted_.wait(held, [this] { return stopping_ || !jobs_.empty(); });
        if (jobs_.empty()) return;
        held.unlock();
        std::exception_ptr error;
        try {
          jobs_.front()();
        } catch (...) {
          error = std::current_exception();
        }
        held.lock();
        if (error && !broken_) broken_ = error;
        jobs_.pop_front();
        posted_.notify_all();
      }
    });
  }
  jobs_.push_back(job);
  posted_.notify_all();
}

void Group::finish_posted() {
  std::unique_lock lock(posting_);
  posted_.wait(lock, [this] { return jobs_.empty(); });
  if (broken_) std::rethrow_exception(std::exchange(broken_, nullptr));
}

void Group::finish(std::uint64_t created) {
  finish_posted();
  computed(created);
}

// Ranks compare their announcements with that of rank 0; all of them come to the same conclusion.
std::vector<Announcement> Group::meet(Announcement mine) {
  require(failure_.empty(), Error::Kind::io, "{}", failure_);
  mine.number = number_;
  std::vector<Announcement> all(static_cast<std::size_t>(size_));
  try {
    const auto start = std::chrono::steady_clock::now();
    transport_->arrived(number_);
    transport_->all_gather(&mine, all.data(), sizeof mine);
    const std::lock_guard lock(counting_);
    traffic_.waiting += seconds_since(start);
  } catch (const Error& e) {
    failure_ = e.what();
    throw;
  }
  for (int r = 1; r < size_; ++r) {
    const Announcement &first = all[0], &other = all[static_cast<std::size_t>(r)];
    if (other.same_as(first)) continue;
    failure_ = fmt::format(
        "{}: the programs of the ranks differ at collective {}: rank 0 on {} {}, rank {} on {} {}; all ranks must do "
        "the "
        "same collectives in the same order",
        mine.label, mine.number, host(0), first.str(), r, host(r), other.str());
    fail(Error::Kind::value, "{}", failure_);
  }
  ++number_;
  return all;
}

template <class Move>
void Group::transported(Move move) {
  const auto start = std::chrono::steady_clock::now();
  std::int64_t bytes = 0;
  try {
    bytes = move();
  } catch (const Error& e) {
    failure_ = e.what();
    throw;
  }
  const std::lock_guard lock(counting_);
  traffic_.moving += seconds_since(start);
  traffic_.bytes += bytes;
  ++traffic_.collectives;
}

void Group::computed(std::uint64_t created) {
  Tensor done;  // released after the lock
  const std::lock_guard creating(order_);
  if (created != kCompiled && created + 1 == created_) done = std::move(last_);
}

void Group::run(const comm::ListExchange& exchange, Announcement announcement, const LibraryCall& call,
                std::uint64_t created, DeviceTransport* device) {
  const std::lock_guard lock(running_);
  const std::vector<std::uint64_t> table = exchange.table(call);
  announcement.address = reinterpret_cast<std::uint64_t>(table.data());
  std::vector<std::uint64_t> tables;
  for (const Announcement& p : meet(announcement)) tables.push_back(p.address);
  transported([&] {
    return device ? exchange.move_on(call, *device, rank_, size_) : exchange.move(call, tables, *transport_);
  });
  computed(created);
}

void Group::run(const Announcement& announcement, const LibraryCall& call, std::uint64_t created,
                DeviceTransport* device) {
  const std::lock_guard lock(running_);
  const View &given = call.inputs[0], &taken = call.outputs[0];
  meet(announcement);
  const std::size_t bytes = static_cast<std::size_t>(given.shape.numel()) * size_of(given.dtype);
  const std::size_t part = bytes / static_cast<std::size_t>(size_);
  const auto others = static_cast<std::int64_t>(size_ - 1), all = static_cast<std::int64_t>(bytes);
  transported([&]() -> std::int64_t {
    if (announcement.kind == Collective::Kind::all_gather) {
      device ? device->all_gather(given.data, taken.data, bytes)
             : transport_->all_gather(given.data, taken.data, bytes);
      return all * others;
    }
    if (announcement.kind == Collective::Kind::all_to_all && !device) {
      transport_->all_to_all(given.data, taken.data, part);
      return all / size_ * others;
    }
    std::vector<Message> sent, received;  // a broadcast sends one to itself
    if (announcement.kind == Collective::Kind::all_to_all) {
      for (int r = 0; r < size_; ++r) {
        sent.push_back({r, static_cast<std::byte*>(given.data) + static_cast<std::size_t>(r) * part, part});
        received.push_back({r, static_cast<std::byte*>(taken.data) + static_cast<std::size_t>(r) * part, part});
      }
      device->exchange(sent, received);
      return all / size_ * others;
    }
    if (device) {
      if (rank_ == announcement.root)
        sent.push_back({rank_, given.data, bytes}), received.push_back({rank_, taken.data, bytes});
      device->exchange(sent, received);
      device->broadcast(taken.data, bytes, announcement.root);
    } else {
      if (rank_ == announcement.root) std::memcpy(taken.data, given.data, bytes);
      transport_->broadcast(taken.data, bytes, announcement.root);
    }
    return rank_ == announcement.root ? all : 0;
  });
  computed(created);
}

std::vector<std::byte> Group::gather(const void* mine, std::size_t bytes) {
  const std::lock_guard lock(running_);
  Announcement announcement;
  announcement.what = Announcement::What::text;
  announcement.sizes[0] = static_cast<std::int64_t>(bytes);
  set_label(announcement, "looking for NCCL");
  meet(announcement);
  std::vector<std::byte> all(bytes * static_cast<std::size_t>(size_));
  transport_->all_gather(mine, all.data(), bytes);
  return all;
}

void Group::require_ranks() const { transport_->require_ranks(); }

Tensor Group::pending() {
  const std::lock_guard lock(order_);
  return last_;
}

void Group::catch_up() {
  if (const Tensor last = pending(); last.defined()) last.eval();
}

void Group::barrier() {
  if (size_ == 1) return;
  const OutsideHostLock waiting;
  catch_up();
  const std::lock_guard lock(running_);
  Announcement announcement;
  set_label(announcement, "barrier");
  meet(announcement);
}

bool Group::any(bool mine) {
  if (size_ == 1) return mine;
  const OutsideHostLock waiting;
  catch_up();
  const std::lock_guard lock(running_);
  Announcement announcement;
  announcement.what = Announcement::What::any;
  announcement.flag = mine;
  set_label(announcement, "any");
  for (const Announcement& p : meet(announcement)) mine |= p.flag != 0;
  return mine;
}

std::vector<std::string> Group::gather_text(const std::string& mine) {
  if (size_ == 1) return {mine};
  const OutsideHostLock waiting;
  catch_up();
  const std::lock_guard lock(running_);
  Announcement announcement;
  announcement.what = Announcement::What::text;
  announcement.bytes = static_cast<std::int64_t>(mine.size());
  set_label(announcement, "gather_text");
  const std::vector<Announcement> announcements = meet(announcement);
  std::size_t longest = 1;
  for (const Announcement& p : announcements) longest = std::max(longest, static_cast<std::size_t>(p.bytes));
  std::string padded = mine, together(longest * announcements.size(), '\0');
  padded.resize(longest);
  transported([&] {
    transport_->all_gather(padded.data(), together.data(), longest);
    return static_cast<std::int64_t>(longest) * (size_ - 1);
  });
  std::vector<std::string> all;
  for (std::size_t r = 0; r < announcements.size(); ++r)
    all.push_back(together.substr(r * longest, static_cast<std::size_t>(announcements[r].bytes)));
  return all;
}

bool Group::end() noexcept {
  if (!transport_ || ended_) return together_;
  ended_ = true;
  together_ = size_ == 1;
  try {
    if (failure_.empty() && size_ > 1) {
      catch_up();  // others may wait for a result that this rank never requested
      const std::lock_guard lock(running_);
      Announcement announcement;
      announcement.what = Announcement::What::end;
      set_label(announcement, "the end");
      meet(announcement);
      together_ = true;
    }
  } catch (const std::exception&) {
    // The others report what happened; this program is ending anyway.
  }
  transport_->leave(together_);
  return together_;
}

}  // namespace ebb::distributed::detail
