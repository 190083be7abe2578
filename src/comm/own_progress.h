// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstdint>

namespace ebb::comm {

// Is this process making progress? One that computes uses processor time; one that loads data or saves a checkpoint
// moves bytes or waits for a disk. A hung program (a deadlock, a lost connection, a lock on a file) does none of that.
// An endless loop cannot be told from long work.
class OwnProgress {
 public:
  // Seconds without progress; called about twice a second, always by the same thread, whose own time does not count.
  double idle_seconds();

 private:
  std::uint64_t moved_bytes();
  bool waits_for_disk();

  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  double processor_ = -1;
  std::uint64_t bytes_ = 0, own_reads_ = 0;
};

}  // namespace ebb::comm
