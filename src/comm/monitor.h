#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ebb::comm {

// Watches over the ranks, beside the transport: a thread of each rank keeps a TCP connection to rank 0 and says twice a
// second that it is there, and how far its program is. A connection that breaks is a rank that died, one that is silent
// for five seconds one that was stopped or cut off. Rank 0 tells everyone; if rank 0 itself is gone, all others see it.
class Monitor {
 public:
  // Rank 0 listens; `share` hands its text to all ranks (a broadcast). Returns when all ranks are connected.
  Monitor(int rank, std::vector<std::string> hosts, const std::function<std::string(std::string)>& share);
  ~Monitor();
  Monitor(const Monitor&) = delete;

  // Why the world has ended; empty as long as all is well.
  std::string failure() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  // This rank's program has arrived at the collective of this number.
  void arrived(std::uint64_t number) { number_.store(number, std::memory_order_relaxed); }
  void set_patience(double seconds) { patience_.store(seconds, std::memory_order_relaxed); }

  // No more watching. Said to the others, unless the world has failed: to them this rank then is gone.
  void stop(bool goodbye) noexcept;

 private:
  struct Peer;
  enum class Reason : std::uint8_t { died = 1, silent = 2, hangs = 3 };
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
  std::atomic<double> patience_{600};
  std::uint64_t own_before_ = 0;  // number_, as it was at own_moved_
  std::chrono::steady_clock::time_point own_moved_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::string failure_;
  std::thread thread_;
};

}  // namespace ebb::comm
