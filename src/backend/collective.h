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

// A device's own transport between ranks, on its own memory. Calls are executed in order, possibly after they return.
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

// The data of a call of Op::collective that can also run on device memory. Knows how many inputs it has (further ones
// are only computed before it).
struct RankedCollective : Collective {
  std::size_t inputs = 1;
  bool posted = false;  // its step only begins it, and is therefore scheduled as early as possible

  virtual const void* world() const = 0;  // the same for all collectives of these ranks
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Gathers bytes of host memory from all ranks, for them to agree on how device memory is moved. Itself a collective.
  virtual std::vector<std::byte> gather(const void* mine, std::size_t bytes) const = 0;
  // Throws when a rank is lost, which would make a device's transport wait forever.
  virtual void require_ranks() const = 0;
  virtual void run_on(const LibraryCall& call, DeviceTransport& device) const = 0;
};

}  // namespace ebb
