// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/standard.h"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace ebb {

// Where tensors live and are computed: the CPU, or a GPU by its number. A default-constructed Device is the CPU.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  std::uint8_t index = 0;  // always 0 for the CPU
  bool operator==(const Device&) const = default;
};
inline constexpr int kDeviceKinds = 2, kMostDevices = 16;  // kinds, and devices of one kind

std::string name(Device device);                 // "cpu", "cuda:1"
Device device_from_name(std::string_view name);  // also "cuda", which is "cuda:0"; other names are an Error

std::ostream& operator<<(std::ostream& os, Device device);  // its name

// Whether tensors can be placed there. On a machine without a GPU this is true only for the CPU.
bool is_available(Device device);

// The default device: where data supplied by the program is placed, and variables made only from numbers (zeros, random
// numbers...); and where such values are computed when nothing else determines it. The CPU unless set.
Device default_device();
void set_default_device(Device device);  // for all threads; an Error if the device is not available

// The calling thread's default device within a scope.
class OnDevice {
 public:
  explicit OnDevice(Device device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;

 private:
  std::optional<Device> before_;
};

// Waits until everything started on the device is done, and throws if something failed there.
void synchronize(Device device);

}  // namespace ebb
