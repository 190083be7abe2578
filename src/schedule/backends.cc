#include <atomic>

#include "backend/backend.h"
#include "core/format_error.h"
#include "cpu/backend.h"

namespace ebb {
namespace {

PerDevice<std::atomic<Backend*>>& installed() {
  static auto* all = new PerDevice<std::atomic<Backend*>>;
  return *all;
}

Backend* find_backend(Device device) {
  if (device == Device{}) return &cpu::backend();
  return installed()[device].load(std::memory_order_acquire);
}

}  // namespace

Backend& backend_of(Device device) {
  Backend* const found = find_backend(device);
  require(found != nullptr, "device: there is no {} on this machine; `ebb info` lists the available devices",
          name(device));
  return *found;
}

void install_backend(Device device, Backend& backend) {
  require(find_backend(device) == nullptr, "device: {} already exists", name(device));
  set_block_source(device, &backend.memory());
  installed()[device].store(&backend, std::memory_order_release);
}

bool is_available(Device device) { return find_backend(device) != nullptr; }

void synchronize(Device device) { backend_of(device).synchronize(); }

}  // namespace ebb
