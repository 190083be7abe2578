// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>

#include "ebb/device.h"

namespace ebb {

// One T per device.
template <class T>
class PerDevice {
 public:
  T& operator[](Device d) { return all_[static_cast<std::size_t>(d.kind) * kMostDevices + d.index]; }

 private:
  std::array<T, kDeviceKinds * kMostDevices> all_{};
};

// Throws an Error that says why if there is no such device.
void require_available(Device device);

// Where a device's pool gets its memory from.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual std::byte* allocate(std::size_t bytes) = 0;  // null: out of memory
  virtual void free(std::byte* data, std::size_t bytes) noexcept = 0;
};
// The CPU has one from the start, a GPU from its first use on. Null: none yet. A device keeps its source until the
// program ends.
BlockSource* block_source(Device device);
void set_block_source(Device device, BlockSource* source);

}  // namespace ebb
