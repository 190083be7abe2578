// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ebb::comm {

// A page of shared memory where ranks of one host meet, with a slot for each. A waiting rank sleeps (a futex) and is
// woken by the rank it waits for, so that it takes no processor time from it; MPI polls, and the scheduler penalises it
// for the time used when other programs want the cores as well.
class NearMeeting {
 public:
  static constexpr std::size_t kMost = 320;  // bytes of a message

  // Hands this rank's bytes to all ranks and returns everyone's, one after the other.
  using Gather = std::function<std::vector<std::byte>(const void* mine, std::size_t bytes)>;
  NearMeeting(int rank, int size, const Gather& gather);
  ~NearMeeting();
  NearMeeting(const NearMeeting&) = delete;

  // Do all ranks share this memory? All ranks get the same answer.
  bool works() const { return works_; }
  // Collects the `bytes` of every rank, in rank order. `look` is called now and then while this rank waits, and throws
  // to end the wait.
  void all_gather(const void* mine, void* all, std::size_t bytes, const std::function<void()>& look);

 private:
  struct Place;
  int rank_, size_;
  Place* places_ = nullptr;
  std::uint32_t turn_ = 0;
  bool works_ = false;
};

}  // namespace ebb::comm
