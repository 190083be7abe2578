// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>

#include "cuda/runtime/driver.h"

namespace ebb::testing {

// Calls of the driver, an emulated one or a GPU's, since count_driver_calls() put counters in front of it; and which of
// them should fail.
struct DriverCalls {
  std::atomic<long> launches{0}, early{0}, waits{0}, copies_to_host{0}, records{0}, queries{0};
  std::atomic<long> captures{0}, instantiations{0}, graph_launches{0}, kernels_set{0};
  std::atomic<bool> fail_capture{false}, fail_end{false}, fail_instantiation{false}, fail_graph_launch{false};
  std::atomic<bool> fail_record{false};

  void reset() {
    for (std::atomic<long>* n : {&launches, &early, &waits, &copies_to_host, &records, &queries, &captures,
                                 &instantiations, &graph_launches, &kernels_set})
      *n = 0;
    for (std::atomic<bool>* f : {&fail_capture, &fail_end, &fail_instantiation, &fail_graph_launch, &fail_record})
      *f = false;
  }
};

inline DriverCalls& driver_calls() {
  static DriverCalls calls;
  return calls;
}

inline void count_driver_calls() {
  using namespace cuda;
  static const Driver inner = driver();
  static const bool once = [] {
    constexpr Result kRefused = 1;
    Driver d = inner;
    d.launch = [](cuda::Function f, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                  unsigned s, Stream stream, void** parameters, void** extra) {
      ++driver_calls().launches;
      return inner.launch(f, bx, by, bz, tx, ty, tz, s, stream, parameters, extra);
    };
    d.launch_with = [](const LaunchConfig* c, cuda::Function f, void** parameters, void** extra) {
      ++driver_calls().launches;
      if (c->count == 1 && c->attributes[0].id == kBeginsEarly && c->attributes[0].value) ++driver_calls().early;
      return inner.launch_with(c, f, parameters, extra);
    };
    d.synchronize = [](Stream s) {
      ++driver_calls().waits;
      return inner.synchronize(s);
    };
    d.wait = [](Event e) {
      ++driver_calls().waits;
      return inner.wait(e);
    };
    d.to_host = [](void* to, Address from, std::size_t bytes, Stream s) {
      ++driver_calls().copies_to_host;
      return inner.to_host(to, from, bytes, s);
    };
    d.record = [](Event e, Stream s) {
      ++driver_calls().records;
      return driver_calls().fail_record ? kRefused : inner.record(e, s);
    };
    d.query = [](Event e) {
      ++driver_calls().queries;
      return inner.query(e);
    };
    d.begin_capture = [](Stream s, int mode) {
      ++driver_calls().captures;
      return driver_calls().fail_capture ? kRefused : inner.begin_capture(s, mode);
    };
    d.end_capture = [](Stream s, Graph* graph) {
      const Result result = inner.end_capture(s, graph);
      if (!driver_calls().fail_end) return result;
      if (*graph) inner.destroy_graph(*graph);
      *graph = nullptr;
      return kRefused;
    };
    d.instantiate = [](GraphExec* exec, Graph graph, unsigned long long flags) {
      ++driver_calls().instantiations;
      return driver_calls().fail_instantiation ? kRefused : inner.instantiate(exec, graph, flags);
    };
    d.launch_graph = [](GraphExec exec, Stream s) {
      ++driver_calls().graph_launches;
      return driver_calls().fail_graph_launch ? kRefused : inner.launch_graph(exec, s);
    };
    d.set_kernel = [](GraphExec exec, GraphNode node, const KernelNode* kernel) {
      ++driver_calls().kernels_set;
      return inner.set_kernel(exec, node, kernel);
    };
    install_driver(d, compiler());
    return true;
  }();
  static_cast<void>(once);
  driver_calls().reset();
}

}  // namespace ebb::testing
