#include "cuda/emulated_device.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "cuda/kernel_store.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/driver.h"
#include "cuda/runtime/gpu.h"

namespace ebb::testing {
namespace {

using namespace cuda;

bool emulated = false;
std::mutex device;         // one thing at a time
std::string recording_to;  // kernels are written there and never run

Result fine() { return kSuccess; }

// What the streams were asked for.
std::mutex calls_mutex;
std::vector<std::string> calls;
std::uintptr_t streams = 0, captured_stream = 0;
int capture_mode = 0;
bool unfinished = false;
Result note(const char* call, Stream stream) {
  std::lock_guard guard(calls_mutex);
  const auto number = reinterpret_cast<std::uintptr_t>(stream);
  if (calls.size() > 10000) calls.clear();  // nobody asks
  calls.push_back(std::string(call) + " " + std::to_string(number / 16));
  return kSuccess;
}
Stream new_stream() { return reinterpret_cast<Stream>(++streams * 16); }  // small numbers have a meaning
// What the driver refuses while a graph is captured: whatever could wait for it, and events of its stream.
Result unless_captured(Stream stream) {
  constexpr Result kCaptureUnsupported = 900;
  return captured_stream && reinterpret_cast<std::uintptr_t>(stream) == captured_stream ? kCaptureUnsupported
                                                                                        : kSuccess;
}
Result unless_capture_forbids() {
  constexpr Result kCaptureUnsupported = 900;
  return captured_stream && capture_mode != kRelaxedCapture ? kCaptureUnsupported : kSuccess;
}

// A program's machine code is its text; a module is that text without the prelude, and its kernels are in the store.
struct Text {
  std::string source;
};

Result create_program(RtcProgram* program, const char* source, const char*, int, const char* const*,
                      const char* const*) {
  *program = reinterpret_cast<RtcProgram>(new Text{source});
  return kSuccess;
}
Text& text_of(RtcProgram program) { return *reinterpret_cast<Text*>(program); }

Result load_module(Module* module, const void* code) {
  const std::string source = static_cast<const char*>(code);
  auto* const text = new std::string(source.substr(std::string(prelude()).size()));
  if (!recording_to.empty()) KernelStore::add_text(recording_to, *text);
  *module = reinterpret_cast<Module>(text);
  return kSuccess;
}

Result find_function(Function* f, Module module, const char* name) {
  static int nothing = 0;
  *f = reinterpret_cast<Function>(
      recording_to.empty() ? KernelStore::get().kernel(*reinterpret_cast<std::string*>(module), name) : &nothing);
  return *f ? kSuccess : Result{1};
}

}  // namespace

std::vector<std::string> emulated_stream_calls() {
  std::lock_guard guard(calls_mutex);
  return std::exchange(calls, {});
}
void leave_emulated_work_unfinished(bool on) { unfinished = on; }
void* new_emulated_stream() { return new_stream(); }
void capture_emulated_stream(void* stream, bool on) {
  captured_stream = on ? reinterpret_cast<std::uintptr_t>(stream) : 0;
}

bool device_is_emulated() { return emulated; }
bool device_records() { return !recording_to.empty(); }

void record_kernels(const std::string& path) {
  recording_to = path;
  emulate_device();
}

void use_emulated_device_without_gpu() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!emulated && Gpu::count() == 0) emulate_device();
  });
}

void emulate_device() {
  emulated = true;
  setenv("EBB_CUDA_CACHE_MB", "0", 1);  // the store keeps what costs time
  install_emulated_lt();
  Compiler c;
  c.version = [](int* major, int* minor) {
    *major = *minor = 0;
    return kSuccess;
  };
  c.create = create_program;
  c.destroy = [](RtcProgram* program) {
    delete &text_of(*program);
    return kSuccess;
  };
  c.compile = [](RtcProgram, int, const char* const*) { return kSuccess; };
  c.log_size = [](RtcProgram, std::size_t* n) {
    *n = 0;
    return kSuccess;
  };
  c.log = [](RtcProgram, char*) { return kSuccess; };
  c.code_size = [](RtcProgram program, std::size_t* n) {
    *n = text_of(program).source.size() + 1;
    return kSuccess;
  };
  c.code = [](RtcProgram program, char* to) {
    std::memcpy(to, text_of(program).source.c_str(), text_of(program).source.size() + 1);
    return kSuccess;
  };
  Driver d;
  d.init = [](unsigned) { return kSuccess; };
  d.version = [](int* v) {
    *v = 0;
    return kSuccess;
  };
  d.error_name = d.error_text = [](Result, const char** text) {
    *text = "an error of the emulated device";
    return kSuccess;
  };
  d.device_count = [](int* n) {
    *n = 1;
    return kSuccess;
  };
  d.device = [](int* device, int) {
    *device = 0;
    return kSuccess;
  };
  d.device_name = [](char* text, int n, int) {
    std::strncpy(text, "emulated", static_cast<std::size_t>(n));
    return kSuccess;
  };
  d.device_attribute = [](int* value, int attribute, int) {
    *value = attribute == kMultiprocessors ? 4 : attribute == kCapabilityMajor ? 9 : 0;
    return kSuccess;
  };
  d.total_memory = [](std::size_t* bytes, int) {
    *bytes = std::size_t{4} << 30;
    return kSuccess;
  };
  d.retain_context = [](Context*, int) { return kSuccess; };
  d.set_context = [](Context) { return kSuccess; };
  d.current_context = [](Context* context) {
    *context = nullptr;
    return kSuccess;
  };
  d.allocate = [](Address* address, std::size_t bytes) {
    if (unless_capture_forbids() != kSuccess) return unless_capture_forbids();
    if (bytes > std::size_t{4} << 30) return kOutOfMemory;
    void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!memory) return kOutOfMemory;
    std::memset(memory, 0xA5, bytes);
    *address = reinterpret_cast<Address>(memory);
    return kSuccess;
  };
  d.free = [](Address address) {
    std::free(reinterpret_cast<void*>(address));
    return kSuccess;
  };
  static const auto allocate = d.allocate;
  static const auto free = d.free;
  d.allocate_async = [](Address* address, std::size_t bytes, Stream stream) {
    note("allocate", stream);
    return allocate(address, bytes);
  };
  d.free_async = [](Address address, Stream stream) {
    note("free", stream);
    return free(address);
  };
  d.default_pool = [](MemoryPool*, int) { return kSuccess; };
  d.set_pool = [](MemoryPool, int, void*) { return kSuccess; };
  d.allocate_host = [](void** memory, std::size_t bytes, unsigned) {
    *memory = std::malloc(bytes);
    return kSuccess;
  };
  d.to_device = [](Address to, const void* from, std::size_t n, Stream stream) {
    note("copy", stream);
    if (!device_records()) std::memcpy(reinterpret_cast<void*>(to), from, n);
    return kSuccess;
  };
  d.to_host = [](void* to, Address from, std::size_t n, Stream) {
    if (!device_records()) std::memcpy(to, reinterpret_cast<const void*>(from), n);
    return kSuccess;
  };
  d.set_bytes = [](Address to, unsigned char x, std::size_t n, Stream) {
    if (!device_records()) std::memset(reinterpret_cast<void*>(to), x, n);
    return kSuccess;
  };
  d.create_stream = [](Stream* stream, unsigned) {
    *stream = new_stream();
    return kSuccess;
  };
  d.synchronize = [](Stream stream) {
    note("synchronize", stream);
    return unless_captured(stream) == kSuccess ? unless_capture_forbids() : unless_captured(stream);
  };
  d.create_event = [](Event*, unsigned) { return fine(); };
  d.record = [](Event, Stream stream) {
    note("record", stream);
    return unless_captured(stream);
  };
  d.stream_wait = [](Stream stream, Event, unsigned) {
    note("wait", stream);
    return unless_captured(stream);
  };
  d.is_capturing = [](Stream stream, int* status) {
    *status = unless_captured(stream) != kSuccess;
    return kSuccess;
  };
  d.capture_mode = [](int* mode) {
    std::swap(*mode, capture_mode);
    return kSuccess;
  };
  d.wait = [](Event) { return unless_capture_forbids(); };
  d.query = [](Event) { return unfinished ? kNotReady : unless_capture_forbids(); };
  d.load_module = load_module;
  d.function = find_function;
  d.launch = [](Function f, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream stream,
                void** parameters, void**) {
    note("launch", stream);
    static unsigned long long seed = 1;
    if (!recording_to.empty()) return kSuccess;
    std::lock_guard guard(device);
    using Run = int (*)(unsigned, const void*, unsigned long long);
    return reinterpret_cast<Run>(f)(blocks, parameters[0], ++seed);
  };
  install_driver(d, c);
}

}  // namespace ebb::testing
