// SPDX-License-Identifier: MIT
#include "ebb/device.h"

#include <atomic>
#include <charconv>
#include <optional>
#include <ostream>

#include "core/device_table.h"
#include "core/format_error.h"
#include "ebb/memory.h"

namespace ebb {

std::string why_unavailable(Device device);  // defined by the schedule layer, next to is_available()

namespace {

std::atomic<Device> everywhere{Device{}};
std::atomic<bool> rows_alone{false};
std::atomic<bool> fewer_digits{false};
thread_local std::optional<Device> in_scope;

}  // namespace

std::string name(Device device) {
  return device.kind == Device::Kind::cpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

std::ostream& operator<<(std::ostream& os, Device device) { return os << name(device); }

Device device_from_name(std::string_view text) {
  if (text == "cpu") return {};
  std::string_view rest = text;
  unsigned index = 0;
  bool good = rest.starts_with("cuda");
  if (good) rest.remove_prefix(4);
  if (good && !rest.empty()) {
    good = rest.front() == ':';
    rest.remove_prefix(1);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
    good = good && error == std::errc() && end == rest.data() + rest.size() && index < kMostDevices;
  }
  require(good, "device: '{}' is not a device; use cpu, cuda or cuda:N with N below {}", text, kMostDevices);
  return {Device::Kind::cuda, static_cast<std::uint8_t>(index)};
}

void set_batch_invariant(bool on) { rows_alone.store(on, std::memory_order_relaxed); }
bool batch_invariant() { return rows_alone.load(std::memory_order_relaxed); }

void set_tf32(bool on) { fewer_digits.store(on, std::memory_order_relaxed); }
bool tf32() { return fewer_digits.load(std::memory_order_relaxed) && !batch_invariant(); }

Device default_device() { return in_scope ? *in_scope : everywhere.load(std::memory_order_relaxed); }

void require_available(Device device) {
  require(is_available(device), "device: there is no {} on this machine: {}; `ebb info` lists the available devices",
          name(device), why_unavailable(device));
}

void set_default_device(Device device) {
  require_available(device);
  everywhere.store(device, std::memory_order_relaxed);
}

OnDevice::OnDevice(Device device) : before_(in_scope) {
  require_available(device);
  in_scope = device;
}
OnDevice::~OnDevice() { in_scope = before_; }

}  // namespace ebb
