// SPDX-License-Identifier: MIT
#include <atomic>

#include "backend/backend.h"
#include "core/copy_stream.h"
#include "core/format_error.h"
#include "cpu/backend.h"
#include "cuda/backend.h"
#include "ebb/stream.h"

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

void Backend::scale(const View&, const View&) { fail(Error::Kind::value, "internal: scale is for GPUs"); }

void install_backend(Device device, Backend& backend) {
  require(block_source(device) == nullptr, "device: {} already exists", name(device));
  set_block_source(device, &backend.memory());
  installed()[device].store(&backend, std::memory_order_release);
}

bool is_available(Device device) {
  try {
    return find_backend(device) != nullptr;
  } catch (const Error&) {  // it exists but is too old: using it reports that
    return false;
  }
}

void synchronize(Device device) { backend_of(device).synchronize(); }

void* copy_stream(Device device) {
  if (device.kind != Device::Kind::cuda || installed()[device].load(std::memory_order_acquire)) return nullptr;
  return cuda::copy_stream(device.index);
}

// In this order: at the end the stream is left first, then the memory.
class OnStream::Scope {
 public:
  Scope(Streams& streams, Device device, void* stream, std::shared_ptr<StreamMemory> memory)
      : memory_(device, streams.memory(stream, std::move(memory))), streams_(streams) {
    streams.enter(stream);
  }
  ~Scope() { streams_.leave(); }
  Scope(const Scope&) = delete;

 private:
  ThreadMemory memory_;
  Streams& streams_;
};

OnStream::OnStream(Device device, void* stream, std::shared_ptr<StreamMemory> memory) {
  Streams* const streams = backend_of(device).streams();
  require(streams != nullptr, "stream: {} has no streams, only GPUs have", name(device));
  const bool own_memory = memory != nullptr;
  scope_ = std::make_unique<Scope>(*streams, device, stream, std::move(memory));
  if (own_memory || !streams->capturing()) return;
  scope_.reset();
  fail(Error::Kind::value,
       "stream: a graph is captured from it, and what is computed needs memory of the graph's own; pass it");
}
OnStream::~OnStream() = default;

}  // namespace ebb
