// SPDX-License-Identifier: MIT
#include "cuda/emulated_device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/kernel_store.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/driver.h"
#include "cuda/runtime/gpu.h"

namespace ebb::testing {
namespace {

using namespace cuda;

bool emulated = false;
std::mutex device;         // serialises all work
std::string recording_to;  // kernels are written there and never run

Result fine() { return kSuccess; }

// Protected by a key of its own; -1 where the processor has none.
int key() {
  static const int made = ::pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return made;
}
std::mutex blocks_mutex;
std::map<Address, std::size_t>& blocks() {
  static auto* const sizes = new std::map<Address, std::size_t>;
  return *sizes;
}

// Requests to the streams.
std::mutex calls_mutex;
std::vector<std::string> calls;
std::uintptr_t captured_stream = 0;
int capture_mode = 0;
bool unfinished = false;
Result note(const char* call, Stream stream) {
  std::lock_guard guard(calls_mutex);
  const auto number = reinterpret_cast<std::uintptr_t>(stream);
  if (calls.size() > 10000) calls.clear();  // they are never read
  calls.push_back(std::string(call) + " " + std::to_string(number / 16));
  return kSuccess;
}
// Calls that the driver refuses while a graph is captured: whatever could wait for it, and events of its stream.
constexpr Result kCaptureUnsupported = 900;
Result unless_captured(Stream stream) {
  return captured_stream && reinterpret_cast<std::uintptr_t>(stream) == captured_stream ? kCaptureUnsupported
                                                                                        : kSuccess;
}
Result unless_capture_forbids() {
  return captured_stream && capture_mode != kCaptureRelaxed ? kCaptureUnsupported : kSuccess;
}

Result allocate(Address* address, std::size_t bytes) {
  if (unless_capture_forbids() != kSuccess) return unless_capture_forbids();
  if (bytes > std::size_t{4} << 30) return kOutOfMemory;
  constexpr std::size_t kPage = 4096;
  const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  std::memset(memory, 0xA5, bytes);
  if (key() >= 0) ::pkey_mprotect(memory, size, PROT_READ | PROT_WRITE, key());
  *address = reinterpret_cast<Address>(memory);
  std::lock_guard guard(blocks_mutex);
  blocks()[*address] = size;
  return kSuccess;
}
Result free_block(Address address) {
  std::lock_guard guard(blocks_mutex);
  const auto block = blocks().extract(address);
  return block && ::munmap(reinterpret_cast<void*>(address), block.mapped()) == 0 ? kSuccess : Result{1};
}

// A program's machine code is a letter, 'a' if it was compiled for one architecture only ("sm_90a"), and its text; a
// module is that without the prelude, and its kernels are in the store.
struct Text {
  std::string source;
  bool one_architecture = false;
};

Result create_program(RtcProgram* program, const char* source, const char*, int, const char* const*,
                      const char* const*) {
  *program = reinterpret_cast<RtcProgram>(new Text{source});
  return kSuccess;
}
Text& text_of(RtcProgram program) { return *reinterpret_cast<Text*>(program); }

Result load_module(Module* module, const void* code) {
  const char* const text = static_cast<const char*>(code);
  auto* const source = new KernelSource{.text = text + 1 + std::strlen(prelude()), .warpgroups = text[0] == 'a'};
  if (!recording_to.empty()) KernelStore::add_text(recording_to, *source);
  *module = reinterpret_cast<Module>(source);
  return kSuccess;
}

Result find_function(Function* f, Module module, const char* name) {
  static int nothing = 0;
  *f = reinterpret_cast<Function>(
      recording_to.empty() ? KernelStore::get().kernel(*reinterpret_cast<KernelSource*>(module), name) : &nothing);
  return *f ? kSuccess : Result{1};
}

constexpr Result kWrong = 1;

using KernelFunction = KernelStore::Run;

Result run_kernel(Function f, unsigned blocks, unsigned threads, unsigned shared, const void* arguments) {
  static unsigned long long seed = 1;
  if (!recording_to.empty()) return kSuccess;
  std::lock_guard guard(device);
  const DeviceAccess access;
  return reinterpret_cast<KernelFunction>(f)(blocks, threads, shared, arguments, ++seed);
}

// Work that a stream captures instead of running it: kernels with their arguments, or anything else.
struct Captured {
  Function kernel = nullptr;
  unsigned blocks = 0, threads = 0, shared = 0;
  std::vector<std::byte> arguments;
  std::function<Result()> run;
};
using CapturedGraph = std::vector<std::unique_ptr<Captured>>;
struct Lane {
  bool capturing = false;
  std::unique_ptr<CapturedGraph> graph;
  GraphNode last = nullptr;
};
// A stream is 16 times its number: small numbers are special, and mean the default stream.
std::mutex lanes_mutex;
std::deque<Lane> lanes(1);
Lane& lane_of(Stream s) {
  std::lock_guard guard(lanes_mutex);
  return lanes.at(reinterpret_cast<std::uintptr_t>(s) / 16);
}
Stream new_stream() {
  std::lock_guard guard(lanes_mutex);
  lanes.emplace_back();
  return reinterpret_cast<Stream>((lanes.size() - 1) * 16);
}

void set_kernel(Captured& node, Function f, unsigned blocks, unsigned threads, unsigned shared, const void* arguments) {
  node.kernel = f;
  node.blocks = blocks;
  node.threads = threads;
  node.shared = shared;
  if (!recording_to.empty()) return;
  const int bytes = reinterpret_cast<KernelFunction>(f)(0, 0, 0, nullptr, 0);
  node.arguments.assign(static_cast<const std::byte*>(arguments), static_cast<const std::byte*>(arguments) + bytes);
}

Result launch_kernel(Function f, unsigned blocks, unsigned threads, unsigned shared, Stream s, const void* arguments) {
  note("launch", s);
  Lane& lane = lane_of(s);
  if (!lane.capturing) return run_kernel(f, blocks, threads, shared, arguments);
  lane.graph->emplace_back(std::make_unique<Captured>());
  set_kernel(*lane.graph->back(), f, blocks, threads, shared, arguments);
  return kSuccess;
}

}  // namespace

DeviceAccess::DeviceAccess() {
  if (key() >= 0) ::pkey_set(key(), 0);
}
DeviceAccess::~DeviceAccess() {
  if (key() >= 0) ::pkey_set(key(), PKEY_DISABLE_ACCESS);
}

Result in_stream(Stream s, std::function<Result()> work) {
  if (!lane_of(s).capturing) return work();
  lane_of(s).graph->emplace_back(std::make_unique<Captured>())->run = std::move(work);
  return kSuccess;
}

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
  setenv("EBB_CUDA_CACHE_MB", "0", 1);  // the store keeps what is expensive
  install_emulated_lt();
  cuda::install_cudnn(nullptr);
  cuda::install_cusolver(nullptr, nullptr);
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
  c.compile = [](RtcProgram program, int count, const char* const* options) {
    for (const std::string_view option : std::span(options, static_cast<std::size_t>(count)))
      text_of(program).one_architecture |= option.starts_with("--gpu-architecture=") && option.ends_with('a');
    return kSuccess;
  };
  c.log_size = [](RtcProgram, std::size_t* n) {
    *n = 0;
    return kSuccess;
  };
  c.log = [](RtcProgram, char*) { return kSuccess; };
  c.code_size = [](RtcProgram program, std::size_t* n) {
    *n = text_of(program).source.size() + 2;
    return kSuccess;
  };
  c.code = [](RtcProgram program, char* to) {
    *to = text_of(program).one_architecture ? 'a' : ' ';
    std::memcpy(to + 1, text_of(program).source.c_str(), text_of(program).source.size() + 1);
    return kSuccess;
  };
  Driver d;
  d.init = [](unsigned) { return kSuccess; };
  d.version = [](int* v) {
    *v = 13'000;
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
    *value = attribute == kMultiprocessors                                         ? 4
             : attribute == kCapabilityMajor                                       ? 9
             : attribute == kSharedOfBlock || attribute == kSharedOfMultiprocessor ? 227 << 10
                                                                                   : 0;
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
  d.allocate = allocate;
  d.free = free_block;
  d.allocate_async = [](Address* address, std::size_t bytes, Stream stream) {
    note("allocate", stream);
    return allocate(address, bytes);
  };
  d.free_async = [](Address address, Stream stream) {
    note("free", stream);
    return free_block(address);
  };
  d.default_pool = [](MemoryPool*, int) { return kSuccess; };
  d.set_pool = [](MemoryPool, int, void*) { return kSuccess; };
  d.allocate_host = [](void** memory, std::size_t bytes, unsigned) {
    *memory = std::malloc(bytes);
    return kSuccess;
  };
  d.to_device = [](Address to, const void* from, std::size_t n, Stream stream) {
    note("copy", stream);
    const DeviceAccess access;
    if (!device_records()) std::memcpy(reinterpret_cast<void*>(to), from, n);
    return kSuccess;
  };
  d.to_host = [](void* to, Address from, std::size_t n, Stream) {
    const DeviceAccess access;
    if (!device_records()) std::memcpy(to, reinterpret_cast<const void*>(from), n);
    return kSuccess;
  };
  d.set_bytes = [](Address to, unsigned char x, std::size_t n, Stream s) {
    return in_stream(s, [=] {
      const DeviceAccess access;
      if (!device_records()) std::memset(reinterpret_cast<void*>(to), x, n);
      return kSuccess;
    });
  };
  d.create_stream = [](Stream* s, unsigned) {
    *s = new_stream();
    return kSuccess;
  };
  d.synchronize_all = [] { return fine(); };
  d.synchronize = [](Stream stream) {
    note("synchronize", stream);
    return unless_captured(stream) == kSuccess ? unless_capture_forbids() : unless_captured(stream);
  };
  d.create_event = [](Event*, unsigned) { return fine(); };
  d.destroy_event = [](Event) { return fine(); };
  d.elapsed = [](float* milliseconds, Event, Event) {
    static float next = 1;
    *milliseconds = next *= 0.9F;  // whatever comes later is faster
    return fine();
  };
  d.record = [](Event, Stream stream) {
    note("record", stream);
    return unless_captured(stream);
  };
  d.stream_wait = [](Stream stream, Event, unsigned) {
    note("wait", stream);
    return unless_captured(stream);
  };
  d.is_capturing = [](Stream stream, int* status) {
    *status = lane_of(stream).capturing || unless_captured(stream) != kSuccess;
    return kSuccess;
  };
  d.capture_mode = [](int* mode) {
    std::swap(*mode, capture_mode);
    return kSuccess;
  };
  d.wait = [](Event) { return unless_capture_forbids(); };
  d.query = [](Event) { return unfinished ? kNotReady : unless_capture_forbids(); };
  d.set_function = [](Function, int, int) { return fine(); };
  d.blocks_of_multiprocessor = [](int* blocks, Function, int, std::size_t) {
    *blocks = 2;
    return fine();
  };
  d.load_module = load_module;
  d.function = find_function;
  d.launch = [](Function f, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned shared,
                Stream s, void** parameters,
                void**) { return launch_kernel(f, blocks, threads, shared, s, parameters[0]); };
  d.launch_with = [](const LaunchConfig* c, Function f, void** parameters, void**) {
    return launch_kernel(f, c->blocks[0], c->threads[0], c->shared_bytes, c->stream, parameters[0]);
  };
  d.begin_capture = [](Stream s, int) {
    Lane& lane = lane_of(s);
    if (lane.capturing) return kWrong;
    lane.capturing = true;
    lane.graph = std::make_unique<CapturedGraph>();
    return kSuccess;
  };
  d.end_capture = [](Stream s, Graph* graph) {
    Lane& lane = lane_of(s);
    if (!lane.capturing) return kWrong;
    lane.capturing = false;
    *graph = reinterpret_cast<Graph>(lane.graph.release());
    return kSuccess;
  };
  d.capture_info = [](Stream s, int* state, unsigned long long* id, Graph* graph, const GraphNode** last,
                      std::size_t* count) {
    Lane& lane = lane_of(s);
    if (!lane.capturing) return kWrong;
    *state = 1;
    *id = 1;
    *graph = reinterpret_cast<Graph>(lane.graph.get());
    lane.last = lane.graph->empty() ? nullptr : reinterpret_cast<GraphNode>(lane.graph->back().get());
    *last = &lane.last;
    *count = lane.last ? 1 : 0;
    return kSuccess;
  };
  // An executable graph is a copy, as on a GPU: changes to the graph's own nodes do not affect it.
  d.instantiate = [](GraphExec* exec, Graph graph, unsigned long long) {
    auto* const made = new std::vector<std::pair<GraphNode, Captured>>;
    for (const auto& node : *reinterpret_cast<CapturedGraph*>(graph))
      made->emplace_back(reinterpret_cast<GraphNode>(node.get()), *node);
    *exec = reinterpret_cast<GraphExec>(made);
    return kSuccess;
  };
  d.set_kernel = [](GraphExec exec, GraphNode node, const KernelNode* k) {
    for (auto& [of, captured] : *reinterpret_cast<std::vector<std::pair<GraphNode, Captured>>*>(exec)) {
      if (of != node) continue;
      if (captured.kernel != k->kernel) return kWrong;
      set_kernel(captured, k->kernel, k->blocks[0], k->threads[0], k->shared_bytes, k->parameters[0]);
      return kSuccess;
    }
    return kWrong;
  };
  d.launch_graph = [](GraphExec exec, Stream s) {
    note("graph", s);
    for (const auto& [node, captured] : *reinterpret_cast<std::vector<std::pair<GraphNode, Captured>>*>(exec)) {
      const Result result = captured.kernel ? run_kernel(captured.kernel, captured.blocks, captured.threads,
                                                         captured.shared, captured.arguments.data())
                                            : captured.run();
      if (result != kSuccess) return result;
    }
    return kSuccess;
  };
  d.destroy_exec = [](GraphExec exec) {
    delete reinterpret_cast<std::vector<std::pair<GraphNode, Captured>>*>(exec);
    return kSuccess;
  };
  d.destroy_graph = [](Graph graph) {
    delete reinterpret_cast<CapturedGraph*>(graph);
    return kSuccess;
  };
  install_driver(d, c);
}

}  // namespace ebb::testing
