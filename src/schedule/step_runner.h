// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/origin.h"
#include "schedule/plan.h"

namespace ebb {

// Binds a leaf that is not memory.
inline void take_numbers(Argument& a, const Payload& p) {
  a.real = p.real;
  a.integer = p.integer;
  a.step = p.step;
  a.seed = p.seed;
  a.operation = p.operation;
}

// Runs the steps of a plan: knows where every value is stored and passes sweeps and calls their arguments. Its owner
// decides what happens to the results.
class StepRunner {
 public:
  // `nodes` are the traced ones: they provide the leaves' contents and what calls need besides their inputs. Those of
  // calls must stay alive.
  enum class Origins : std::uint8_t { none, looked_up };
  StepRunner(const Plan& plan, std::span<Node* const> nodes, Origins origins = Origins::looked_up)
      : StepRunner(plan, nodes, origins, nullptr) {}
  // Reuses memory of an earlier runner, and leaves it for the next.
  struct Room;
  StepRunner(const Plan& plan, std::span<Node* const> nodes, Room& room)
      : StepRunner(plan, nodes, Origins::looked_up, &room) {}
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;

  // A run on the device, for the lifetime of this object.
  class Running {
   public:
    explicit Running(StepRunner& steps) : steps_(steps) { steps.start(); }
    ~Running() { steps_.finish(); }
    Running(const Running&) = delete;

   private:
    StepRunner& steps_;
  };
  void run(const PlanStep& step);  // of the plan, in order
  // Releases what is not read after the step.
  void release_after(const PlanStep& step);

  // ---- recordings: the same steps with memory that stays where it is
  // --------------------------------------------------
  Backend& backend() const { return backend_; }
  bool looks_for_errors() const { return !built_.empty(); }  // and then waits after each step
  Run& current() { return run_; }
  // Outputs of these values are written there instead of to fresh memory (a call may have several); null: as usual.
  using Places = std::map<std::int32_t, std::vector<BufferPtr>>;
  void put_outputs(const Places* places) { places_ = places; }
  // As if the value had been computed by a step of the current run.
  void set_computed(std::int32_t v, const std::vector<BufferPtr>& outputs, std::uint32_t step);
  std::span<const Argument> arguments(const PlanStep& step);
  void* leaf_address(std::int32_t v) const { return address(v); }
  // Rebinds a leaf to another place; returns the previous one.
  std::pair<BufferPtr, std::int64_t> swap_leaf(std::int32_t v, const std::pair<BufferPtr, std::int64_t>& place) {
    const Memory before = std::exchange(room_.memory[v], {place.first, place.second});
    return {before.buffer, before.offset};
  }
  void forget_computed(std::int32_t v);
  void forget_computed();  // everything but leaves; the next step is the first

  // Where traced node i is stored; valid from the step that fills it until it is released.
  Storage storage(std::int32_t i) const;
  // All outputs of the call that traced node i is.
  std::span<const BufferPtr> outputs(std::int32_t i) const { return outputs_[plan_.graph.of_node[i]]; }

  // Where value v is stored; valid from the step that fills it until it is released.
  Storage storage_of(std::int32_t v) const;

  // Leaves whose numbers change from run to run.
  void bind_memory(std::int32_t value, const Storage& s) {
    room_.memory[value] = {s.buffer, s.offset};
    elsewhere_ |= s.buffer.device() != plan_.device;
  }
  void unbind_memory(std::int32_t value) { room_.memory[value] = {}; }
  void bind_random(std::int32_t value, std::uint64_t seed, std::uint64_t operation) {
    room_.arguments[value].seed = seed;
    room_.arguments[value].operation = operation;
  }

 private:
  struct Memory {
    BufferPtr buffer;
    std::int64_t offset = 0;
  };

 public:
  struct Room {
    std::vector<Memory> memory;            // of each value that is currently stored
    std::vector<Argument> arguments;       // of each value: numbers of leaves that are not memory
    std::vector<const NodeExtra*> extras;  // of the calls, in the order of the steps
    std::vector<Argument> call;
    std::vector<View> inputs, outputs;  // of a library call
  };

 private:
  StepRunner(const Plan& plan, std::span<Node* const> nodes, Origins origins, Room* room);
  void start();
  void finish();
  const Value& value(std::int32_t v) const { return plan_.graph.values[v]; }
  void* address(std::int32_t b) const;
  void allocate(std::int32_t v);
  void bind(const PlanStep& step);
  BufferPtr fresh(std::size_t bytes, Op op) const;
  Memory here(std::int32_t v, const Memory& elsewhere) const;
  View view(std::int32_t v) const;
  void compute(const PlanStep& step);
  [[noreturn]] void fail_with_origin(const PlanStep& step, const Error& error) const;
  void run_sweep(const PlanStep& step);
  void run_sweeps(const PlanStep& first);
  void run_call(const PlanStep& step);
  void run_strips(const PlanStep& step);
  void bind_strip(StepRunner& body, const PlanStep& step, std::int64_t strip, std::int64_t first_row);

  const Plan& plan_;
  Backend& backend_;
  Run run_;
  const Places* places_ = nullptr;
  bool elsewhere_ = false;  // some leaf is not on the plan's device
  std::unique_ptr<Room> own_room_;
  Room& room_;
  std::vector<std::vector<BufferPtr>> outputs_;
  // Runners of the bodies of strip loops. In such a body: where its results go, and which are accumulated.
  std::map<const StripLoop*, std::vector<std::unique_ptr<StepRunner>>> bodies_;
  std::map<std::int32_t, Memory> slices_;
  std::set<std::int32_t> adds_to_;
  // Where each traced node was built and its name in data-dependent errors; only while origins are on.
  struct Built {
    std::string_view name;
    OriginPtr origin;
  };
  std::vector<Built> built_;
};

}  // namespace ebb
