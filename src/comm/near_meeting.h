// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ebb::comm {

// Where ranks of one host meet: a page of shared memory with a place for each of them. A rank that waits sleeps (a
// futex) and is woken by the one it waits for, so that it takes no processor time from it; polling MPI does, and is
// punished by the scheduler for the time it took when other programs want the cores as well.
class NearMeeting {
 public:
  static constexpr std::size_t kMost = 320;  // bytes of a message

  // Hands this rank's bytes to all ranks and returns those of everyone, one after the other.
  using Gather = std::function<std::vector<std::byte>(const void* mine, std::size_t bytes)>;
  NearMeeting(int rank, int size, const Gather& gather);
  ~NearMeeting();
  NearMeeting(const NearMeeting&) = delete;

  // Do all ranks share this memory? Every rank gives the same answer.
  bool works() const { return works_; }
  // The `bytes` of every rank, in their order. `look` is called now and then while this rank waits, and throws to end
  // it.
  void all_gather(const void* mine, void* all, std::size_t bytes, const std::function<void()>& look);

 private:
  struct Place;
  int rank_, size_;
  Place* places_ = nullptr;
  std::uint32_t turn_ = 0;
  bool works_ = false;
};

}  // namespace ebb::comm
