// SPDX-License-Identifier: MIT
#include "comm/near_memory.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <random>

namespace ebb::comm {
namespace {

struct MemoryCard {
  std::int32_t process = 0;
  std::uint64_t address = 0, value = 0;  // a number in its memory: a rank that reads it has found the right process
};

}  // namespace

NearMemory::NearMemory(int rank, int size, const Gather& gather) : size_(size) {
  // Ubuntu lets only a parent read a process's memory; this permits the launcher and everything it started.
  ::prctl(PR_SET_PTRACER, static_cast<unsigned long>(::getppid()), 0, 0, 0);
  std::random_device random;
  const std::uint64_t value = std::uint64_t{random()} << 32 | random();
  const MemoryCard own{::getpid(), reinterpret_cast<std::uint64_t>(&value), value};
  const std::vector<std::byte> cards = gather(&own, sizeof own);
  std::vector<std::uint8_t> mine(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    MemoryCard card;
    std::memcpy(&card, cards.data() + static_cast<std::size_t>(r) * sizeof card, sizeof card);
    processes_.push_back(card.process);
    std::uint64_t found = 0;
    mine[static_cast<std::size_t>(r)] =
        r == rank || (read(r, card.address, &found, sizeof found) && found == card.value);
  }
  const std::vector<std::byte> all = gather(mine.data(), mine.size());  // `value` lives until everyone has tried
  can_.resize(all.size());
  std::memcpy(can_.data(), all.data(), all.size());
}

bool NearMemory::read(int rank, std::uint64_t address, void* to, std::size_t bytes) const {
  auto* into = static_cast<std::byte*>(to);
  while (bytes > 0) {
    iovec here{into, bytes}, there{reinterpret_cast<void*>(address), bytes};
    const ssize_t n = ::process_vm_readv(processes_[static_cast<std::size_t>(rank)], &here, 1, &there, 1, 0);
    if (n <= 0) return false;
    into += n;
    address += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace ebb::comm
