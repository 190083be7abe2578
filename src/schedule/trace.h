#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/node.h"

namespace ebb {

// The unevaluated graph below some roots, in an order where inputs come first, and its structure as a key: two traces
// with equal keys run the same plan. Numbers that do not decide structure (constants, seeds, addresses) are not in it,
// but which of them are equal is, so that equal subexpressions merge.
struct Trace {
  std::vector<Node*> nodes;               // borrowed
  std::vector<std::int32_t> inputs;       // input indices of all nodes, one after the other
  std::vector<std::int32_t> first_input;  // where node i's begin in `inputs`; one more at the end
  std::vector<std::int32_t> roots;        // indices into nodes
  std::vector<std::int32_t> same;         // for a leaf: the first leaf equal to it (itself if none)
  std::vector<std::uint64_t> key;

  std::span<const std::int32_t> inputs_of(std::int32_t i) const {
    return {inputs.data() + first_input[i], inputs.data() + first_input[i + 1]};
  }
};

// Placeholders are leaves of a function that is compiled, and an error in a graph that is to be computed.
enum class Placeholders { refused, allowed };

// Call with graph_mutex() held.
Trace trace(std::span<Node* const> roots, Placeholders placeholders = Placeholders::refused);

// True when the node has nothing to compute: it is evaluated, or it is a leaf.
inline bool is_leaf(const Node& node) {
  return node.evaluated.load(std::memory_order_acquire) || info(node.op).cls == OpClass::leaf;
}

// True for a call with parameters that are not part of the key: it is equal to no other.
inline bool has_data(const Node& node) { return node.extra && node.extra->data; }

}  // namespace ebb
