// SPDX-License-Identifier: MIT
#include "comm/mpi_transport.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/monitor.h"
#include "comm/mpi_library.h"
#include "comm/near_meeting.h"
#include "comm/near_memory.h"
#include "core/format_error.h"

namespace ebb::comm {
namespace {

std::atomic<double> patience{600}, idle_patience{8};

// MPI counts in ints.
constexpr std::size_t kMost = std::size_t{1} << 30;

std::string own_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Starting MPI waits for all ranks; only the end of the process can stop that.
class StartWatch {
 public:
  StartWatch() : thread_([this] { watch(); }) {}
  ~StartWatch() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  StartWatch(const StartWatch&) = delete;

 private:
  static constexpr std::chrono::seconds kMost{60};
  void watch() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kMost, [this] { return done_; })) return;
    std::fprintf(stderr, "World: MPI has not started after %d s on %s: a rank that was launched does not take part\n",
                 static_cast<int>(kMost.count()), own_host().c_str());
    ::_exit(1);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport() : mpi_(mpi_library()) {
    const StartWatch watch;
    int started = 0, provided = 0;
    mpi_.Initialized(&started);
    if (!started) check(mpi_.Init_thread(nullptr, nullptr, kMpiThreadMultiple, &provided), "MPI_Init_thread");
    own_ = !started;
    check(mpi_.Comm_dup(mpi_.world, &comm_), "MPI_Comm_dup");
    mpi_.Comm_set_errhandler(comm_, mpi_.errors_return);
    check(mpi_.Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(mpi_.Comm_size(comm_, &size_), "MPI_Comm_size");
    hosts_ = all_hosts();
    if (size_ == 1) return;
    monitor_ = std::make_unique<Monitor>(rank_, hosts_, [this](std::string text) { return shared(std::move(text)); });
    monitor_->set_patience(patience.load(), idle_patience.load());
    const auto gather = [this](const void* mine, std::size_t bytes) {
      std::vector<std::byte> all(bytes * static_cast<std::size_t>(size_));
      all_gather(mine, all.data(), bytes);
      return all;
    };
    memory_ = std::make_unique<NearMemory>(rank_, size_, gather);
    auto meeting = std::make_unique<NearMeeting>(rank_, size_, gather);
    if (meeting->works()) meeting_ = std::move(meeting);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& host(int rank) const override { return hosts_[static_cast<std::size_t>(rank)]; }

  void all_gather(const void* mine, void* all, std::size_t bytes) override {
    if (meeting_ && bytes <= NearMeeting::kMost) {
      meeting_->all_gather(mine, all, bytes, [this] { require_ranks(); });
      return;
    }
    if (bytes <= kMost) {
      MpiRequest request = nullptr;
      const int count = static_cast<int>(bytes);
      check(mpi_.Iallgather(mine, count, mpi_.byte, all, count, mpi_.byte, comm_, &request), "MPI_Iallgather");
      wait(request);
      return;
    }
    for (int r = 0; r < size_; ++r) {
      auto* const part = static_cast<std::byte*>(all) + static_cast<std::size_t>(r) * bytes;
      if (r == rank_) std::memcpy(part, mine, bytes);
      broadcast(part, bytes, r);
    }
  }

  // Each pair of ranks separately: nothing is packed, and the parts may be of any length.
  void all_to_all(const void* given, void* taken, std::size_t bytes) override {
    auto* const from = const_cast<std::byte*>(static_cast<const std::byte*>(given));
    auto* const to = static_cast<std::byte*>(taken);
    const auto at = [&](int r) { return static_cast<std::size_t>(r) * bytes; };
    std::vector<Message> sent, received;
    for (int k = 1; k < size_; ++k) {
      const int source = (rank_ + size_ - k) % size_, target = (rank_ + k) % size_;
      received.push_back({source, to + at(source), bytes});
      sent.push_back({target, from + at(target), bytes});
    }
    std::memcpy(to + at(rank_), from + at(rank_), bytes);
    exchange(sent, received);
  }

  void exchange(std::span<const Message> sent, std::span<const Message> received) override {
    std::vector<MpiRequest> requests;
    const auto each_part = [](const Message& message, auto use) {
      for (std::size_t done = 0; done < message.bytes; done += kMost) {
        use(static_cast<std::byte*>(message.data) + done, static_cast<int>(std::min(kMost, message.bytes - done)));
      }
    };
    for (const Message& m : received) {
      each_part(m, [&](std::byte* data, int count) {
        check(mpi_.Irecv(data, count, mpi_.byte, m.rank, 0, comm_, &requests.emplace_back()), "MPI_Irecv");
      });
    }
    for (const Message& m : sent) {
      each_part(m, [&](const std::byte* data, int count) {
        check(mpi_.Isend(data, count, mpi_.byte, m.rank, 0, comm_, &requests.emplace_back()), "MPI_Isend");
      });
    }
    for (MpiRequest& r : requests) wait(r);
  }

  bool reads(int by, int of) const override { return memory_ && memory_->reads(by, of); }
  void read(int rank, std::uint64_t address, void* to, std::size_t bytes) override {
    if (memory_->read(rank, address, to, bytes)) return;
    // Its process is gone: the monitor is about to notice.
    for (int k = 0; k < 100 && !monitor_->failed(); ++k) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (monitor_->failed()) fail(Error::Kind::io, "{}", monitor_->failure());
    fail(Error::Kind::io, "World: the memory of rank {} on {} cannot be read any more", rank, host(rank));
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    for (std::size_t done = 0; done < bytes; done += kMost) {
      MpiRequest request = nullptr;
      const int count = static_cast<int>(std::min(kMost, bytes - done));
      check(mpi_.Ibcast(static_cast<std::byte*>(data) + done, count, mpi_.byte, root, comm_, &request), "MPI_Ibcast");
      wait(request);
    }
  }

  void require_ranks() const override {
    if (monitor_ && monitor_->failed()) fail(Error::Kind::io, "{}", monitor_->failure());
  }
  void arrived(std::uint64_t number) override {
    if (!monitor_) return;
    monitor_->set_patience(patience.load(std::memory_order_relaxed), idle_patience.load(std::memory_order_relaxed));
    monitor_->arrived(number);
  }

  // MPI cannot finalize without all ranks: it would wait for the missing one.
  void leave(bool together) noexcept override {
    if (monitor_) monitor_->stop(together);
    int ended = 0;
    mpi_.Finalized(&ended);
    if (own_ && together && !ended) mpi_.Finalize();
  }

 private:
  void check(int code, const char* call) const {
    if (code == 0) return;
    std::array<char, 1024> text{};
    int length = 0;
    mpi_.Error_string(code, text.data(), &length);
    fail(Error::Kind::io, "MPI: {} failed: {}", call, text.data());
  }

  // Waits without MPI's own waiting, which would never return after a rank is gone. Abandoned requests are left alone:
  // MPI touches their memory only when it is called, and it is not called again.
  void wait(MpiRequest& request) const {
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0;; ++round) {
      int done = 0;
      check(mpi_.Test(&request, &done, nullptr), "MPI_Test");
      if (done) return;
      if (monitor_ && monitor_->failed()) fail(Error::Kind::io, "{}", monitor_->failure());
      if (round < 100) continue;
      // Another rank may need this core to arrive.
      if (round % 64 == 0 && std::chrono::steady_clock::now() - start > std::chrono::milliseconds(2)) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      } else {
        ::sched_yield();
      }
    }
  }

  std::vector<std::string> all_hosts() {
    std::array<char, 256> own{};
    const std::string name = own_host();
    std::memcpy(own.data(), name.c_str(), std::min(name.size(), own.size() - 1));
    std::vector<char> all(own.size() * static_cast<std::size_t>(size_));
    all_gather(own.data(), all.data(), own.size());
    std::vector<std::string> hosts;
    for (int r = 0; r < size_; ++r) hosts.emplace_back(all.data() + own.size() * static_cast<std::size_t>(r));
    return hosts;
  }

  // Broadcasts rank 0's text to all ranks.
  std::string shared(std::string text) {
    text.resize(4096);
    broadcast(text.data(), text.size(), 0);
    return text.c_str();
  }

  const MpiLibrary& mpi_;
  MpiHandle comm_ = nullptr;
  int rank_ = 0, size_ = 1;
  bool own_ = true;  // not started by someone else
  std::vector<std::string> hosts_;
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<NearMemory> memory_;
  std::unique_ptr<NearMeeting> meeting_;  // if all ranks are on one host
};

}  // namespace

std::unique_ptr<Transport> start_mpi() {
  auto transport = std::make_unique<MpiTransport>();
  return transport;
}

void set_patience(double seconds, double idle) {
  patience.store(seconds);
  idle_patience.store(idle);
}

}  // namespace ebb::comm
