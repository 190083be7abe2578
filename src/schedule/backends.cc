#include <atomic>

#include "backend/backend.h"
#include "core/format_error.h"
#include "cpu/backend.h"
#include "cuda/backend.h"

namespace ebb {
namespace {

PerDevice<std::atomic<Backend*>>& installed() {
  static auto* all = new PerDevice<std::atomic<Backend*>>;
  return *all;
}

Backend* find_backend(Device device) {
  if (device == Device{}) return &cpu::backend();
  if (Backend* const test = installed()[device].load(std::memory_order_acquire)) return test;
  return device.kind == Device::Kind::cuda ? cuda::backend(device.index) : nullptr;
}

}  // namespace

std::string why_unavailable(Device device) {
  return device.kind == Device::Kind::cuda ? cuda::why_unavailable(device.index) : "";
}

Backend& backend_of(Device device) {
  Backend* const found = find_backend(device);
  if (!found) {
    fail(Error::Kind::value, "device: there is no {} on this machine: {}; `ebb info` lists the available devices",
         name(device), why_unavailable(device));
  }
  return *found;
}

void install_backend(Device device, Backend& backend) {
  require(block_source(device) == nullptr, "device: {} already exists", name(device));
  set_block_source(device, &backend.memory());
  installed()[device].store(&backend, std::memory_order_release);
}

bool is_available(Device device) {
  try {
    return find_backend(device) != nullptr;
  } catch (const Error&) {  // it is there, but too old: using it says so
    return false;
  }
}

void synchronize(Device device) { backend_of(device).synchronize(); }

}  // namespace ebb
