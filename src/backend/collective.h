// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "backend/call.h"

namespace ebb {

// A message that one rank sends to another, or receives from it.
struct Message {
  int rank = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
};

// A device's own way between ranks, on its own memory. Calls are done in order, perhaps later than they return.
class DeviceTransport {
 public:
  virtual ~DeviceTransport() = default;
  virtual void all_gather(const void* mine, void* all, std::size_t bytes) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  // Messages between two ranks arrive in the order they were sent. A rank may write to itself.
  virtual void exchange(std::span<const Message> sent, std::span<const Message> received) = 0;
  virtual void add(DType dtype, void* to, const void* a, const void* b, std::size_t elements) = 0;
  virtual void* scratch(std::size_t bytes) = 0;  // as long as the collective takes
};

// The data of a call of Op::collective. It says how many inputs it has (what follows them is only computed before), and
// can run on the memory of a device.
struct RankedCollective : Collective {
  std::size_t inputs = 1;
  bool posted = false;  // only begun by its step, which therefore comes as early as it can

  virtual const void* world() const = 0;  // the same for all collectives of these ranks
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Bytes of host memory of all ranks, for ranks to decide how they will move those of a device. A collective itself.
  virtual std::vector<std::byte> gather(const void* mine, std::size_t bytes) const = 0;
  // Throws when a rank is lost, by which a device's transport would wait forever.
  virtual void require_ranks() const = 0;
  virtual void run_on(const LibraryCall& call, DeviceTransport& device) const = 0;
};

}  // namespace ebb
