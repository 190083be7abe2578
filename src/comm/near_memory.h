// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ebb::comm {

// Memory of other processes of this host, read with the kernel's process_vm_readv: one copy, no setup. A system may
// forbid it (other containers, hardened kernels); then the ranks send messages.
class NearMemory {
 public:
  // `gather` hands this rank's bytes to all ranks and returns everyone's, one after the other.
  using Gather = std::function<std::vector<std::byte>(const void* mine, std::size_t bytes)>;
  NearMemory(int rank, int size, const Gather& gather);

  bool reads(int by, int of) const {
    return can_[static_cast<std::size_t>(by) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(of)] != 0;
  }
  bool read(int rank, std::uint64_t address, void* to, std::size_t bytes) const;  // false: the rank is gone

 private:
  int size_;
  std::vector<std::int32_t> processes_;
  std::vector<std::uint8_t> can_;  // [by, of]
};

}  // namespace ebb::comm
