// SPDX-License-Identifier: MIT
#include "schedule/trace.h"

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "ebb/memory.h"
#include "schedule/schedule_model.h"
#include "schedule/strip_model.h"

namespace ebb {
namespace {

// How many inputs come before a node: those of its value, and for `depend` also what it waits for.
std::size_t inputs_before(const Node& node, bool is_leaf) {
  if (is_leaf) return 0;
  return node.op == Op::depend ? node.inputs.size() : value_inputs(node).size();
}

// Equal leaves hold the same values: the same view of the same memory, or the same constant.
bool equal_leaves(const Node& a, bool a_stored, const Node& b, bool stored) {
  if (a.dtype != b.dtype || a.shape != b.shape || a_stored != stored) return false;
  if (stored) {
    if (a.storage.buffer.get() != b.storage.buffer.get() || a.storage.offset != b.storage.offset) return false;
    for (int d = 0; d < a.shape.rank(); ++d) {
      if (a.storage.strides[d] != b.storage.strides[d]) return false;
    }
    return a.storage.buffer.get() != nullptr;
  }
  if (a.op != b.op) return false;
  return std::bit_cast<std::uint64_t>(a.payload.real) == std::bit_cast<std::uint64_t>(b.payload.real) &&
         a.payload.integer == b.payload.integer && a.payload.step == b.payload.step &&
         a.payload.seed == b.payload.seed && a.payload.operation == b.payload.operation;
}

std::uint64_t leaf_hash(const Node& n, bool stored) {
  const std::uint64_t h =
      stored ? reinterpret_cast<std::uintptr_t>(n.storage.buffer.get()) + static_cast<std::uint64_t>(n.storage.offset)
             : static_cast<std::uint64_t>(n.payload.integer) ^ n.payload.operation * 0x9E3779B97F4A7C15u;
  return (h ^ std::bit_cast<std::uint64_t>(n.payload.real)) * 0xD6E8FEB86659FD93u;
}

class Tracer {
 public:
  Tracer(Trace& out, GraphLock& lock, Placeholders placeholders) : t_(out), lock_(lock), placeholders_(placeholders) {}
  ~Tracer() {
    for (Node* n : t_.nodes) {
      if (lock_.has(*n)) n->mark = 0;
    }
  }

  Traced run(std::span<const Tensor> roots) {
    t_.nodes.reserve(kScheduleModel.usual_nodes);
    t_.stored.reserve(kScheduleModel.usual_nodes);
    t_.unique.reserve(kScheduleModel.usual_nodes);
    t_.same.reserve(kScheduleModel.usual_nodes);
    t_.first_input.reserve(kScheduleModel.usual_nodes + 1);
    t_.inputs.reserve(2 * kScheduleModel.usual_nodes);
    t_.key.reserve(8 * kScheduleModel.usual_nodes);
    stack_.reserve(kScheduleModel.usual_nodes);
    t_.first_input.push_back(0);
    for (const Tensor& root : roots) {
      const Traced visited = visit(root.node());
      if (visited != Traced::done) return visited;
      t_.roots.push_back(place(root.node()));
    }
    for (std::int32_t r : t_.roots) t_.key.push_back(static_cast<std::uint64_t>(r));
    put(static_cast<std::uint64_t>(t_.device.kind) << 8 | t_.device.index);
    if (const std::size_t budget = memory_budget(t_.device)) put(budget);
    if (const std::optional<StripModel> strips = strip_model_of_thread()) {
      for (const std::int64_t limit :
           {strips->large, strips->large_enough_to_repeat, strips->strip_bytes, strips->least_rows, strips->tile_bytes})
        put(static_cast<std::uint64_t>(limit));
    }
    return t_.moves.empty() ? Traced::done : Traced::moves_first;
  }

 private:
  // The position of a node in the trace, -1 if it is not yet there. Leaves of parts that are not held cannot be marked.
  std::int32_t place(const Node* node) const {
    if (lock_.has(*node)) return static_cast<std::int32_t>(node->mark) - 1;
    const auto found = elsewhere_.find(node);
    return found == elsewhere_.end() ? -1 : found->second;
  }

  // Numbers that belong to no device, put on the plan's: nothing moves, the plan makes them.
  bool made_here(const Node& moved) const { return moved.device == t_.device && moved.inputs[0]->homeless; }

  // Depth first with an explicit stack: a chain of a million operations must not overflow the call stack.
  Traced visit(Node* root) {
    if (place(root) >= 0) return Traced::done;
    stack_.push_back({root, 0});
    while (!stack_.empty()) {
      auto& [node, next] = stack_.back();
      if (place(node) >= 0) {
        stack_.pop_back();
        continue;
      }
      bool stored = node->evaluated.load(std::memory_order_acquire);
      if (!stored && info(node->op).cls != OpClass::leaf) {
        if (!lock_.holds(*node)) return Traced::part_missing;
        if (node->computed_by && node->computed_by != this_evaluator()) return Traced::being_computed;
        stored = take_output(*node);
      }
      const bool moves = !stored && node->op == Op::to_device && !made_here(*node);
      if (moves) t_.moves.emplace_back(node);
      const std::size_t count = inputs_before(*node, stored || moves || info(node->op).cls == OpClass::leaf);
      while (next < count && place(node->inputs[next]) >= 0) ++next;
      if (next < count) {
        Node* input = node->inputs[next++];
        stack_.push_back({input, 0});
        continue;
      }
      Node* done = node;
      stack_.pop_back();
      append(done, count, stored);
    }
    return Traced::done;
  }

  // An output of an earlier call already exists.
  bool take_output(Node& node) {
    if (node.op != Op::output) return false;
    const Node& call = *node.inputs[0];
    if (!call.evaluated.load(std::memory_order_acquire)) return false;
    node.storage = call.extra->outputs[static_cast<std::size_t>(node.attrs.i[0])];
    node.evaluated.store(true, std::memory_order_release);
    t_.forgotten.push_back(forget_inputs(&node));
    return true;
  }

  void append(Node* node, std::size_t count, bool stored) {
    const auto index = static_cast<std::int32_t>(t_.nodes.size());
    if (lock_.has(*node)) {
      node->mark = static_cast<std::uint32_t>(index) + 1;
    } else {
      elsewhere_.emplace(node, index);
    }
    t_.nodes.push_back(node);
    t_.stored.push_back(stored);
    t_.unique.push_back(!t_.is_leaf(index) && node->extra && node->extra->data);
    put(static_cast<std::uint64_t>(node->op) | static_cast<std::uint64_t>(node->dtype) << 16 |
        static_cast<std::uint64_t>(stored) << 24 | static_cast<std::uint64_t>(node->shape.rank()) << 32 |
        static_cast<std::uint64_t>(count) << 40 | static_cast<std::uint64_t>(node->label != nullptr) << 56 |
        static_cast<std::uint64_t>(t_.unique.back()) << 57);
    for (std::int64_t size : node->shape) put(static_cast<std::uint64_t>(size));
    for (std::size_t k = 0; k < count; ++k) {
      const std::int32_t in = place(node->inputs[k]);
      t_.inputs.push_back(in);
      put(static_cast<std::uint64_t>(in));
    }
    t_.first_input.push_back(static_cast<std::int32_t>(t_.inputs.size()));
    t_.same.push_back(index);
    if (t_.is_leaf(index)) {
      append_leaf(*node, index, stored);
    } else {
      const Attrs& a = node->attrs;
      if (a.axes) put(a.axes | 1ull << 40);
      for (int k = 0; k < 4; ++k) {
        if (a.i[k]) {
          put(static_cast<std::uint64_t>(k) | 1ull << 41);
          put(static_cast<std::uint64_t>(a.i[k]));
        }
      }
      if (a.options) {
        const std::size_t before = t_.key.size();
        put(0);
        a.options->append_key(t_.key);
        t_.key[before] = (t_.key.size() - before) | 1ull << 42;
      }
      if (node->label) put(reinterpret_cast<std::uintptr_t>(node->label));
    }
  }

  void append_leaf(const Node& node, std::int32_t index, bool stored) {
    if (!stored && placeholders_ == Placeholders::refused && is_placeholder(node)) {
      throw LooksAtPlaceholder(
          "compile: the function reads values that depend on its inputs (item, data, to_vector, "
          "printing...), but it is built before they are known; compute them outside it, or do not compile it");
    }
    if (stored) {
      for (int d = 0; d < node.shape.rank(); ++d) put(static_cast<std::uint64_t>(node.storage.strides[d]));
    } else if (node.op == Op::constant) {
      // Multiplication by one is omitted from programs, so being one is structure.
      put(is_floating(node.dtype) ? node.payload.real == 1.0 : node.payload.integer == 1);
    }
    std::int32_t first = index;
    if (leaf_count_ < leaves_.size()) {
      for (std::int32_t other : std::span(leaves_.data(), leaf_count_)) {
        if (equal_leaves(*t_.nodes[other], t_.stored[other], node, stored)) {
          first = other;
          break;
        }
      }
      if (first == index) leaves_[leaf_count_++] = index;
    } else {
      if (by_hash_.empty()) {
        for (std::int32_t other : leaves_) by_hash_.emplace(leaf_hash(*t_.nodes[other], t_.stored[other]), other);
      }
      const std::uint64_t h = leaf_hash(node, stored);
      auto [from, to] = by_hash_.equal_range(h);
      for (auto it = from; it != to && first == index; ++it) {
        if (equal_leaves(*t_.nodes[it->second], t_.stored[it->second], node, stored)) first = it->second;
      }
      if (first == index) by_hash_.emplace(h, index);
    }
    t_.same[index] = first;
    put(static_cast<std::uint64_t>(first));
  }

  void put(std::uint64_t word) { t_.key.push_back(word); }

  struct Frame {
    Node* node;
    std::size_t next;
  };
  Trace& t_;
  GraphLock& lock_;
  const Placeholders placeholders_;
  std::unordered_map<const Node*, std::int32_t> elsewhere_;
  std::vector<Frame> stack_;
  std::array<std::int32_t, 16> leaves_;  // the first different ones; with more, by_hash_ has them all
  std::size_t leaf_count_ = 0;
  std::unordered_multimap<std::uint64_t, std::int32_t> by_hash_;
};

}  // namespace

void Trace::clear() {
  nodes.clear();
  stored.clear();
  unique.clear();
  inputs.clear();
  first_input.clear();
  roots.clear();
  same.clear();
  key.clear();
  moves.clear();
  forgotten.clear();
  device = {};
}

namespace {

// What a finished trace leaves to the next one. Something static may still be evaluated when the thread's variables are
// gone: then there is nothing to reuse.
thread_local bool thread_ends = false;
struct Spare {
  Trace trace;
  ~Spare() { thread_ends = true; }
};
Trace* spare() {
  if (thread_ends) return nullptr;
  static thread_local Spare spare;
  return &spare.trace;
}

}  // namespace

ReusedTrace::ReusedTrace() {
  if (Trace* last = spare()) trace_ = std::exchange(*last, {});
}

ReusedTrace::~ReusedTrace() {
  trace_.clear();
  if (Trace* next = spare(); next && trace_.key.capacity() <= kScheduleModel.most_trace_words)
    *next = std::move(trace_);
}

Traced trace(Trace& out, std::span<const Tensor> roots, GraphLock& lock, Placeholders placeholders) {
  return Tracer(out, lock, placeholders).run(roots);
}

const void* this_evaluator() {
  static thread_local const char name = 0;
  return &name;
}

}  // namespace ebb
