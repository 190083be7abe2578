// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "backend/collective.h"

namespace ebb::comm {

// Moves bytes between ranks. Every function is called by all ranks in the same order, with the same sizes (Group
// ensures this), and returns when this rank's part is done. Throws an Error if a rank can no longer take part.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& host(int rank) const = 0;

  // Collects the `bytes` of every rank, in rank order.
  virtual void all_gather(const void* mine, void* all, std::size_t bytes) = 0;
  // Part r of `given`, `bytes` long, goes to rank r; part r of `taken` came from rank r.
  virtual void all_to_all(const void* given, void* taken, std::size_t bytes) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  // Messages between two ranks arrive in the order they were sent. Some ranks may have none.
  virtual void exchange(std::span<const Message> sent, std::span<const Message> received) = 0;

  // Processes of one host can read each other's memory: no rank has to pack data for another. Does rank `by` read that
  // of `of`? All ranks get the same answer.
  virtual bool reads(int by, int of) const = 0;
  // Copies from that rank's memory, which must not change until all ranks know that it was read (synchronize).
  virtual void read(int rank, std::uint64_t address, void* to, std::size_t bytes) = 0;
  // Returns once all ranks have called it.
  void synchronize() {
    const char mine = 0;
    std::string all(static_cast<std::size_t>(size()), '\0');
    all_gather(&mine, all.data(), 1);
  }

  // Throws an Error if a rank is lost.
  virtual void require_ranks() const {}
  // Reports that this rank has arrived at the collective of this number.
  virtual void arrived(std::uint64_t) {}
  // The last call. `together`: all ranks end here; otherwise the world is left as it is.
  virtual void leave(bool /*together*/) noexcept {}
};

}  // namespace ebb::comm
