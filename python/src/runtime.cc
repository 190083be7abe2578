// SPDX-License-Identifier: MIT
#include <vector>

#include "bind.h"
#include "core/worker_seed.h"
#include "doctor/findings.h"
#include "ebb/memory.h"
#include "ebb/origins.h"
#include "ebb/random.h"
#include "graph/op_table.h"
#include "graph/origin.h"

// Evaluation, random numbers, threads and memory.
namespace ebb::python {

void bind_runtime(const Api& api) {
  nb::module_& m = api.module;
  m.def(
      "eval",
      [](nb::args tensors) {
        std::vector<Tensor> all;
        for (nb::handle h : tensors) {
          if (tensor_in(h)) {
            all.push_back(*tensor_in(h));
          } else {
            for (const Tensor& t : nb::cast<std::vector<Tensor>>(h)) all.push_back(t);
          }
        }
        eval(all);
      },
      "tensors"_a, "Computes several tensors (or lists of them) together: what they share is computed once.");
  function(api, "print_schedule", print_schedule, "tensors"_a);
  function(api, "set_graph_bound", set_graph_bound, "depth"_a);
  function(api, "manual_seed", manual_seed, "seed"_a);
  m.def(
      "random_state", [] { return std::make_pair(random_state().seed, random_state().next_operation); },
      "The calling thread's random state: its seed and the number of the next random operation.");
  m.def(
      "set_random_state",
      [](std::uint64_t seed, std::uint64_t next) {
        random_state() = {seed, next};
      },
      "seed"_a, "next_operation"_a, "Puts the calling thread's random state back.");
  m.def("_seed_worker", seed_worker, "seed"_a);
  m.def(
      "memory_stats",
      [](nb::handle device) {
        const MemoryStats s = memory_stats(device_or_default(device));
        nb::dict d;
        d["live"] = s.live;
        d["peak"] = s.peak;
        d["cached"] = s.cached;
        d["limit"] = s.limit;
        return d;
      },
      "device"_a.none() = nb::none(),
      "Bytes of a device's tensor memory (of the default device unless named): live, peak, cached for reuse, and the "
      "limit (0: none).");
  m.def(
      "reset_peak_memory", [](nb::handle device) { reset_peak_memory(device_or_default(device)); },
      "device"_a.none() = nb::none(), "Makes the peak of memory_stats what is live now.");
  m.def(
      "set_memory_limit",
      [](std::size_t bytes, nb::handle device) { set_memory_limit(bytes, device_or_default(device)); }, "bytes"_a,
      "device"_a.none() = nb::none(), "Exceeding the limit raises MemoryError; 0 lifts it.");
  m.def(
      "set_memory_budget",
      [](std::size_t bytes, nb::handle device) { set_memory_budget(bytes, device_or_default(device)); }, "bytes"_a,
      "device"_a.none() = nb::none(),
      "How much memory a computation should take, inputs and results included: large products are computed in strips "
      "until it does. 0: as much as is fast.");
  m.def(
      "_memory_budget", [](nb::handle device) { return memory_budget(device_or_default(device)); },
      "device"_a.none() = nb::none(), "The budget that set_memory_budget has set, in bytes; 0: none.");
  m.def(
      "release_cached_memory", [](nb::handle device) { release_cached_memory(device_or_default(device)); },
      "device"_a.none() = nb::none(), "Gives memory that is cached for reuse back to the system.");
  function(api, "set_num_threads", set_num_threads, "n"_a);
  function(api, "set_batch_invariant", set_batch_invariant, "on"_a);
  m.def("batch_invariant", batch_invariant, "Whether products of f32 on GPUs have the same bits in every batch.");
  function(api, "set_tf32", set_tf32, "on"_a);
  m.def("tf32", tf32, "Whether products and convolutions of f32 on GPUs round their factors to TF32.");
  m.def("num_threads", num_threads, "How many threads computations may use.");

  struct EagerScope {
    std::optional<Eager> scope;
  };
  nb::class_<EagerScope>(m, "Eager", "with ebb.Eager(): every operation is computed at once, for debugging.")
      .def(nb::init<>())
      .def("__enter__", [](EagerScope& e) { e.scope.emplace(); })
      .def(
          "__exit__", [](EagerScope& e, nb::handle, nb::handle, nb::handle) { e.scope.reset(); }, nb::arg().none(),
          nb::arg().none(), nb::arg().none());

  function(api, "set_origins", set_origins, "on"_a);
  struct OriginScope {
    bool before = false;
  };
  nb::class_<OriginScope>(m, "origins",
                          "with ebb.origins(): an error of the data names the line that built the operation.")
      .def(nb::init<>())
      .def("__enter__",
           [](OriginScope& o) {
             o.before = origins_on();
             set_origins(true);
           })
      .def(
          "__exit__", [](OriginScope& o, nb::handle, nb::handle, nb::handle) { set_origins(o.before); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());

  m.def("_find_environment", [] {
    nb::list all;
    for (const Finding& f : find_environment()) all.append(nb::make_tuple(f.name, f.found, f.cure));
    return all;
  });
  m.def("_op_table", [] {
    nb::list rows;
    for (const OpInfo& row : kOpTable) rows.append(row.name);
    return rows;
  });
}

}  // namespace ebb::python
