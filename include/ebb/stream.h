// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/standard.h"

#include <cstddef>
#include <memory>

#include "ebb/device.h"

namespace ebb {

// Memory for what is computed on a stream. Its owner knows the order of the stream, and so when a block may be used
// again.
class StreamMemory {
 public:
  virtual ~StreamMemory() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // null: out of memory
  // Work that was given to the stream before may still use it.
  virtual void free(void* data) noexcept = 0;
};

// Another library's stream (a CUstream; null is the default stream) as the calling thread's stream on a GPU, within a
// scope. Work is given to it in its order and nothing waits for the device, so that results can be handed to that
// library without synchronisation. What the device's own stream was given before comes first, and what it is given
// after the scope comes later.
//
// `memory` is where results and temporaries come from; without it, the driver's stream-ordered allocator. While a CUDA
// graph is captured from the stream, memory must be the graph's own and values cannot be read. Errors of the data (an
// index out of range) that such work ran into are thrown by a later scope on the device, or by synchronize().
class OnStream {
 public:
  OnStream(Device device, void* stream, std::shared_ptr<StreamMemory> memory = nullptr);
  ~OnStream();
  OnStream(const OnStream&) = delete;

 private:
  class Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace ebb
