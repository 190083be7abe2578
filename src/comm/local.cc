// SPDX-License-Identifier: MIT
#include "comm/local.h"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <exception>
#include <thread>

#include "comm/group.h"

namespace ebb::comm {
namespace {

struct Meeting {
  explicit Meeting(int size) : all(size), pointers(static_cast<std::size_t>(size)) {}
  std::barrier<> all;
  std::vector<const void*> pointers;  // of each rank
  int per_host = 1;
};

class LocalRank final : public Transport {
 public:
  LocalRank(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_->pointers.size()); }
  const std::string& host(int) const override {
    static const std::string name = "localhost";
    return name;
  }

  void all_gather(const void* mine, void* all, std::size_t bytes) override {
    each_rank(mine, [&](int r, const std::byte* theirs) { std::memcpy(part(all, r, bytes), theirs, bytes); });
  }
  void all_to_all(const void* given, void* taken, std::size_t bytes) override {
    each_rank(given, [&](int r, const std::byte* theirs) {
      std::memcpy(part(taken, r, bytes), theirs + static_cast<std::size_t>(rank_) * bytes, bytes);
    });
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    each_rank(data, [&](int r, const std::byte* theirs) {
      if (r == root && r != rank_) std::memcpy(data, theirs, bytes);
    });
  }
  void exchange(std::span<const Message> sent, std::span<const Message> received) override {
    meeting_->pointers[static_cast<std::size_t>(rank_)] = &sent;
    meeting_->all.arrive_and_wait();
    std::vector<std::size_t> next(meeting_->pointers.size());  // message of each sender
    for (const Message& mine : received) {
      const auto& theirs = *static_cast<const std::span<const Message>*>(meeting_->pointers[index(mine.rank)]);
      std::size_t& k = next[index(mine.rank)];
      while (theirs[k].rank != rank_) ++k;
      std::memcpy(mine.data, theirs[k].data, std::min(mine.bytes, theirs[k].bytes));
      ++k;
    }
    meeting_->all.arrive_and_wait();
  }
  bool reads(int by, int of) const override { return by / meeting_->per_host == of / meeting_->per_host; }
  void read(int, std::uint64_t address, void* to, std::size_t bytes) override {
    std::memcpy(to, reinterpret_cast<const void*>(address), bytes);
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  static std::byte* part(void* all, int r, std::size_t bytes) {
    return static_cast<std::byte*>(all) + static_cast<std::size_t>(r) * bytes;
  }
  template <class Use>
  void each_rank(const void* mine, Use use) {
    meeting_->pointers[static_cast<std::size_t>(rank_)] = mine;
    meeting_->all.arrive_and_wait();
    for (int r = 0; r < size(); ++r)
      use(r, static_cast<const std::byte*>(meeting_->pointers[static_cast<std::size_t>(r)]));
    meeting_->all.arrive_and_wait();
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> local_ranks(int size, int per_host) {
  auto meeting = std::make_shared<Meeting>(size);
  meeting->per_host = per_host;
  std::vector<std::unique_ptr<Transport>> all;
  for (int r = 0; r < size; ++r) all.push_back(std::make_unique<LocalRank>(meeting, r));
  return all;
}

}  // namespace ebb::comm

namespace ebb::distributed {

void run_as_threads(int ranks, const std::function<void()>& f, int per_host) {
  std::vector<std::unique_ptr<comm::Transport>> transports = comm::local_ranks(ranks, per_host);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < transports.size(); ++r) {
    threads.emplace_back([&, r] {
      const World own(std::make_shared<detail::Group>(std::move(transports[r])));
      const detail::InWorld scope(own);
      try {
        f();
      } catch (...) {
        errors[r] = std::current_exception();
      }
      own.group().end();
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& e : errors) {
    if (e) std::rethrow_exception(e);
  }
}

}  // namespace ebb::distributed
