// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "graph/lock.h"

namespace ebb {

// The unevaluated graph below some roots, inputs first, and its structure as a key: two traces with equal keys run the
// same plan. Numbers that do not affect structure (constants, seeds, addresses) are not in the key, but which of them
// are equal is, so that equal subexpressions merge.
struct Trace {
  std::vector<Node*> nodes;         // borrowed: alive while the lock is held
  std::vector<std::int32_t> roots;  // indices into nodes
  std::vector<std::uint64_t> key;
  std::vector<std::size_t> starts;  // where node i begins in the key; one more at the end
  Device device;                    // of the plan
  std::vector<Tensor> moves;
  std::size_t formulas = 0;          // formula nodes whose own nodes are not made (graph/formula.h)
  std::vector<Companions*> companions;  // of nodes that are not roots, alive as these are
  std::vector<Forgotten> forgotten;  // by outputs that already existed; released after unlocking

  // Decodes what the key says about each node, for make_plan.
  void read_key();
  std::vector<char> stored;               // its elements are in memory
  std::vector<char> unique;               // a call with parameters that are not part of the key: never equal to another
  std::vector<std::int32_t> inputs;       // input indices of all nodes, concatenated
  std::vector<std::int32_t> first_input;  // where node i's begin in `inputs`; one more at the end
  std::vector<std::int32_t> same;         // for a leaf: the first leaf equal to it (itself if none)

  std::span<const std::int32_t> inputs_of(std::int32_t i) const {
    return {inputs.data() + first_input[i], inputs.data() + first_input[i + 1]};
  }
  // True when there is nothing to compute. (Another thread may have evaluated the node since: the trace is
  // authoritative.)
  bool is_leaf(std::int32_t i) const { return stored[i] || info(nodes[i]->op).cls == OpClass::leaf; }

  // State of the walk.
  struct Frame {
    Node* node;
    std::size_t next, count;
  };
  std::vector<Frame> stack;

  void clear();
};

// The same number, as far as a plan is concerned.
bool equal_numbers(const Payload& a, const Payload& b);

// Placeholders are leaves in a function being compiled, and an error in a graph to be computed.
enum class Placeholders { refused, allowed };

// A walk under the lock may find that it needs more of it, that another evaluation is computing one of the nodes, or
// that values must first be moved here from another device (Trace::moves): a plan is for one device.
enum class Traced { done, part_missing, being_computed, moves_first };
Traced trace(Trace& out, std::span<const Tensor> roots, GraphLock& lock, Placeholders placeholders);

// For an evaluation. Adds to the roots the losses whose gradients are on the way, if somebody holds them: what is made from
// gradients (clipped ones, an optimiser's step) would otherwise leave its loss to be computed again when it is read.
Traced trace(Trace& out, std::vector<Tensor>& roots, GraphLock& lock);

// Names the calling thread in Node::computed_by.
const void* this_evaluator();

// The trace that computing these tensors now would make (including their companions), with references to its nodes.
// Empty if there is nothing to compute.
struct OwnedTrace {
  Trace trace;
  std::vector<Tensor> nodes;
};
OwnedTrace trace_of(const std::vector<Tensor>& tensors);

}  // namespace ebb
