// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/own_progress.h"

namespace ebb::comm {

// Watches over the ranks, in addition to the transport: a thread of each rank keeps a TCP connection to rank 0 and
// reports twice a second that it is alive, how far its program is, and since when it has been idle. A connection that
// breaks is a rank that died; one that is silent for five seconds, one that was stopped or cut off; an idle rank that
// others wait for hangs. Rank 0 tells everyone; if rank 0 itself is gone, all others notice.
class Monitor {
 public:
  // Rank 0 listens; `share` hands its text to all ranks (a broadcast). Returns when all ranks are connected.
  Monitor(int rank, std::vector<std::string> hosts, const std::function<std::string(std::string)>& share);
  ~Monitor();
  Monitor(const Monitor&) = delete;

  // Why the world has ended; empty as long as all ranks are well.
  std::string failure() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  // This rank's program has arrived at the collective of this number.
  void arrived(std::uint64_t number) { number_.store(number, std::memory_order_relaxed); }
  void set_patience(double seconds, double idle) {
    patience_.store(seconds, std::memory_order_relaxed);
    idle_patience_.store(idle, std::memory_order_relaxed);
  }

  // Stops watching. Tells the others unless the world has failed: to them this rank is then gone.
  void stop(bool goodbye) noexcept;

 private:
  struct Peer;
  enum class Reason : std::uint8_t { died = 1, silent = 2, late = 3, hangs = 4 };
  static constexpr std::uint8_t kBeat = 'B', kGoodbye = 'G', kFailed = 'F';

  void listen_and_accept(const std::function<std::string(std::string)>& share);
  void connect_to(const std::string& text);
  void watch();
  void read_from(Peer& peer);
  void message(Peer& peer);
  void note(int rank, Reason reason);
  void look_for_silence();
  void look_for_hangs();
  void send_beats();

  int rank_;
  std::vector<std::string> hosts_;
  std::vector<Peer> peers_;  // rank 0: all others; others: rank 0
  int wake_[2] = {-1, -1};
  std::atomic<bool> failed_{false}, stopping_{false};
  std::atomic<std::uint64_t> number_{0};
  std::atomic<double> patience_{600}, idle_patience_{8};
  OwnProgress own_;
  double own_idle_ = 0;
  struct Awaited {  // the rank that is furthest behind
    int rank = 0;
    std::uint64_t number = 0;
    bool operator==(const Awaited&) const = default;
  } awaited_;
  std::chrono::steady_clock::time_point awaited_since_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::string failure_;
  std::thread thread_;
};

}  // namespace ebb::comm
