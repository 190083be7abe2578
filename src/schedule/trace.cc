#include "schedule/trace.h"

#include <cstring>

namespace ebb {
namespace {

// How many of a node's inputs its value is made of: an alias is its first input, `depend` waits for its second too.
std::size_t value_inputs(const Node& node) {
  if (is_leaf(node)) return 0;
  if (info(node.op).cls == OpClass::alias && node.op != Op::depend) return 1;
  return node.inputs.size();
}

// Equal leaves hold the same numbers: the same memory seen the same way, or the same constant.
bool equal_leaves(const Node& a, const Node& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  const bool stored = a.evaluated.load(std::memory_order_relaxed);
  if (stored != b.evaluated.load(std::memory_order_relaxed)) return false;
  if (stored) {
    if (a.storage.buffer.get() != b.storage.buffer.get() || a.storage.offset != b.storage.offset) return false;
    for (int d = 0; d < a.shape.rank(); ++d) {
      if (a.storage.strides[d] != b.storage.strides[d]) return false;
    }
    return a.storage.buffer.get() != nullptr;
  }
  if (a.op != b.op) return false;
  return std::memcmp(&a.payload.real, &b.payload.real, sizeof(double)) == 0 && a.payload.integer == b.payload.integer &&
         a.payload.step == b.payload.step && a.payload.seed == b.payload.seed &&
         a.payload.operation == b.payload.operation;
}

std::uint64_t leaf_hash(const Node& n) {
  std::uint64_t h =
      n.evaluated.load(std::memory_order_relaxed)
          ? reinterpret_cast<std::uintptr_t>(n.storage.buffer.get()) + static_cast<std::uint64_t>(n.storage.offset)
          : static_cast<std::uint64_t>(n.payload.integer) ^ n.payload.operation * 0x9E3779B97F4A7C15u;
  std::uint64_t bits;
  std::memcpy(&bits, &n.payload.real, sizeof bits);
  return (h ^ bits) * 0xD6E8FEB86659FD93u;
}

class Tracer {
 public:
  Tracer(Trace& out, Placeholders placeholders) : t_(out), placeholders_(placeholders) {}
  ~Tracer() {
    for (Node* n : t_.nodes) n->mark = 0;
  }

  void run(std::span<Node* const> roots) {
    t_.first_input.push_back(0);
    for (Node* root : roots) {
      visit(root);
      t_.roots.push_back(static_cast<std::int32_t>(root->mark) - 1);
    }
    for (std::int32_t r : t_.roots) t_.key.push_back(static_cast<std::uint64_t>(r));
  }

 private:
  // Depth first with a stack of our own: a chain of a million operations must not overflow the machine's.
  void visit(Node* root) {
    if (root->mark) return;
    stack_.push_back({root, 0});
    while (!stack_.empty()) {
      auto& [node, next] = stack_.back();
      if (node->mark) {
        stack_.pop_back();
        continue;
      }
      take_output(*node);
      const std::size_t count = value_inputs(*node);
      while (next < count && node->inputs[next]->mark) ++next;
      if (next < count) {
        Node* input = node->inputs[next++];
        stack_.push_back({input, 0});
        continue;
      }
      Node* done = node;
      stack_.pop_back();
      append(done, count);
    }
  }

  // An output of a call that was made earlier is there already.
  static void take_output(Node& node) {
    if (node.op != Op::output || node.evaluated.load(std::memory_order_relaxed)) return;
    const Node& call = *node.inputs[0];
    if (!call.extra || call.extra->outputs.empty()) return;
    node.storage = call.extra->outputs[static_cast<std::size_t>(node.attrs.i[0])];
    node.evaluated.store(true, std::memory_order_release);
    forget_inputs(&node);
  }

  void append(Node* node, std::size_t count) {
    const auto index = static_cast<std::int32_t>(t_.nodes.size());
    node->mark = static_cast<std::uint32_t>(index) + 1;
    t_.nodes.push_back(node);
    const bool stored = node->evaluated.load(std::memory_order_relaxed);
    put(static_cast<std::uint64_t>(node->op) | static_cast<std::uint64_t>(node->dtype) << 16 |
        static_cast<std::uint64_t>(stored) << 24 | static_cast<std::uint64_t>(node->shape.rank()) << 32 |
        static_cast<std::uint64_t>(count) << 40 | static_cast<std::uint64_t>(node->label != nullptr) << 56 |
        static_cast<std::uint64_t>(has_data(*node)) << 57);
    for (std::int64_t size : node->shape) put(static_cast<std::uint64_t>(size));
    for (std::size_t k = 0; k < count; ++k) {
      const auto in = static_cast<std::int32_t>(node->inputs[k]->mark) - 1;
      t_.inputs.push_back(in);
      put(static_cast<std::uint64_t>(in));
    }
    t_.first_input.push_back(static_cast<std::int32_t>(t_.inputs.size()));
    t_.same.push_back(index);
    if (is_leaf(*node)) {
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
      if (node->label) put(reinterpret_cast<std::uintptr_t>(node->label));
    }
  }

  void append_leaf(const Node& node, std::int32_t index, bool stored) {
    if (!stored && placeholders_ == Placeholders::refused && is_placeholder(node)) {
      throw LooksAtPlaceholder(
          "compile: the function asks for the numbers of a value that depends on its inputs (item, data, to_vector, "
          "printing...), but it is built before they are known; compute them outside it, or do not compile it");
    }
    if (stored) {
      for (int d = 0; d < node.shape.rank(); ++d) put(static_cast<std::uint64_t>(node.storage.strides[d]));
    } else if (node.op == Op::constant) {
      // Multiplying by one is left out of programs, so being one is structure.
      put(is_floating(node.dtype) ? node.payload.real == 1.0 : node.payload.integer == 1);
    }
    std::int32_t first = index;
    if (leaves_.size() < 16) {
      for (std::int32_t other : leaves_) {
        if (equal_leaves(*t_.nodes[other], node)) {
          first = other;
          break;
        }
      }
      if (first == index) leaves_.push_back(index);
    } else {
      if (by_hash_.empty()) {
        for (std::int32_t other : leaves_) by_hash_.emplace(leaf_hash(*t_.nodes[other]), other);
      }
      const std::uint64_t h = leaf_hash(node);
      auto [from, to] = by_hash_.equal_range(h);
      for (auto it = from; it != to && first == index; ++it) {
        if (equal_leaves(*t_.nodes[it->second], node)) first = it->second;
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
  const Placeholders placeholders_;
  std::vector<Frame> stack_;
  std::vector<std::int32_t> leaves_;
  std::unordered_multimap<std::uint64_t, std::int32_t> by_hash_;
};

}  // namespace

Trace trace(std::span<Node* const> roots, Placeholders placeholders) {
  Trace t;
  Tracer(t, placeholders).run(roots);
  return t;
}

}  // namespace ebb
