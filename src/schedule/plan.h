// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "schedule/fuse.h"
#include "schedule/lower.h"

namespace ebb {

// The steps of computing a traced graph: sweeps and library calls in order, and when memory is allocated and freed. A
// plan contains no addresses and no values: it is made once per structure and run for every graph that has it.
struct StripLoop;
struct StripModel;

struct PlanStep {
  SweepPtr sweep;  // null: a library call, or a loop of strips
  std::shared_ptr<const StripLoop> strips;
  std::shared_ptr<const Program> program;  // of the sweep, for printing
  Op op = Op::copy;
  Attrs attrs;
  const char* label = nullptr;
  std::int32_t node = -1;             // library: the traced node (its extra data)
  std::size_t call = 0;               // library: which of the plan's calls it is
  std::vector<std::int32_t> inputs;   // sweep: bases bound to slots; library: values (views allowed)
  std::vector<std::int32_t> outputs;  // values whose memory this step fills
  std::vector<std::int32_t> attach;   // traced nodes that are evaluated now
  std::vector<std::int32_t> release;  // bases no longer read
  bool again = false;                 // an earlier step has filled the same values, which were released since
  std::size_t together = 1;           // sweeps from this one on that one call runs; 0: an earlier step runs it
};

// Estimated peak memory of a plan, in bytes, and the values held at that point.
struct Peak {
  std::size_t bytes = 0;
  std::size_t of_strip = 0;                                        // of them, temporary values of a strip
  std::vector<std::pair<std::size_t, std::int32_t>> largest = {};  // bytes and value
};

// A leaf of a plan, bound to what the traced node holds.
struct PlanLeaf {
  std::int32_t value, node;
  bool in_memory;
};

// A number that a formula brings along: part of the plan where the formula is one node (fold.h).
struct PlanNumber {
  Op op;
  DType dtype;
  Shape shape;
  Payload payload;
};

struct Plan {
  Device device;
  ValueGraph graph;
  std::vector<PlanStep> steps;
  std::vector<PlanLeaf> leaves;
  std::vector<Argument> arguments;         // of each value, as far as known without a node: literals
  std::vector<PlanNumber> numbers;         // of formulas
  std::vector<std::int32_t> attach_first;  // traced nodes that only view memory that already exists
  Peak peak;
  int sweeps() const;
};

// Within the device's memory budget; throws an Error if that is impossible.
Plan make_plan(const Trace& trace);
// strips null: without strips. Sweeps recompute values (recompute.h) rather than read them where a special function
// costs no more than so many bytes of memory traffic; the device's own number counts where it is larger.
Plan make_plan(const Trace& trace, const StripModel* strips, int bytes_of_a_function = 0);
// Numbers the calls, lists the leaves, and notes the step after which each value is no longer read.
void plan_bindings(Plan& plan);
std::string print(const Plan& plan);

}  // namespace ebb
