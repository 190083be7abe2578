// SPDX-License-Identifier: MIT
#include "schedule/trace.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "ebb/memory.h"
#include "graph/formula.h"
#include "schedule/schedule_model.h"
#include "schedule/strip_model.h"

namespace ebb {
namespace {

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
  return a.op == b.op && equal_numbers(a.payload, b.payload);
}

std::uint64_t leaf_hash(const Node& n, bool stored) {
  const std::uint64_t h =
      stored ? reinterpret_cast<std::uintptr_t>(n.storage.buffer.get()) + static_cast<std::uint64_t>(n.storage.offset)
             : static_cast<std::uint64_t>(n.payload.integer) ^ n.payload.operation * 0x9E3779B97F4A7C15u;
  return (h ^ std::bit_cast<std::uint64_t>(n.payload.real)) * 0xD6E8FEB86659FD93u;
}

// The first word of a node in the key; sizes, inputs and words that depend on the kind of node follow.
struct Header {
  enum Field { dtype_field = 16, stored_bit = 24, label_bit = 25, unique_bit = 26, rank_field = 27, inputs_field = 32 };

  static std::uint64_t of(const Node& node, std::size_t inputs, bool stored, bool unique) {
    return static_cast<std::uint64_t>(node.op) | static_cast<std::uint64_t>(node.dtype) << dtype_field |
           std::uint64_t{stored} << stored_bit | std::uint64_t{node.label != nullptr} << label_bit |
           std::uint64_t{unique} << unique_bit | static_cast<std::uint64_t>(node.shape.rank()) << rank_field |
           static_cast<std::uint64_t>(inputs) << inputs_field;
  }
  static bool bit(std::uint64_t word, Field which) { return word >> which & 1; }
  static std::size_t rank(std::uint64_t word) { return word >> rank_field & 31; }
  static std::size_t inputs(std::uint64_t word) { return word >> inputs_field; }
};

class Tracer {
 public:
  Tracer(Trace& out, GraphLock& lock, Placeholders placeholders) : t_(out), lock_(lock), placeholders_(placeholders) {}
  ~Tracer() {
    for (Node* n : t_.nodes) {
      if (lock_.has(*n)) n->mark = 0;
    }
  }

  Traced add_roots(std::span<const Tensor> roots) {
    if (t_.nodes.capacity() == 0) make_room();
    for (const Tensor& root : roots) {
      const Traced visited = visit(root.node());
      if (visited != Traced::done) return visited;
      t_.roots.push_back(place(root.node()));
    }
    return Traced::done;
  }

  Traced add_losses(std::vector<Tensor>& roots) {
    for (std::size_t k = 0; k < t_.companions.size(); ++k) {
      Tensor loss = t_.companions[k]->loss();
      if (!loss.defined()) continue;
      const Node& n = *loss.node();
      if (n.evaluated.load(std::memory_order_acquire) || n.shape.numel() > kScheduleModel.most_elements_of_loss ||
          (!n.homeless && n.device != t_.device))
        continue;
      if (!lock_.holds(n)) return Traced::part_missing;
      if (std::any_of(roots.begin(), roots.end(), [&](const Tensor& t) { return t.node() == &n; })) continue;
      roots.push_back(std::move(loss));
      const Traced added = add_roots({&roots.back(), 1});
      if (added != Traced::done) return added;
    }
    return Traced::done;
  }

  Traced finish() {
    t_.starts.push_back(t_.key.size());
    for (std::int32_t r : t_.roots) put(static_cast<std::uint64_t>(r));
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
  void make_room() {
    t_.nodes.reserve(kScheduleModel.usual_nodes);
    t_.starts.reserve(kScheduleModel.usual_nodes + 1);
    t_.key.reserve(8 * kScheduleModel.usual_nodes);
    t_.stack.reserve(kScheduleModel.usual_nodes);
  }

  // The position of a node in the trace, -1 if it is not in it yet. Leaves of parts that are not held cannot be marked.
  std::int32_t place(const Node* node) const {
    if (lock_.has(*node)) return static_cast<std::int32_t>(node->mark) - 1;
    if (!elsewhere_) return -1;
    const auto found = elsewhere_->find(node);
    return found == elsewhere_->end() ? -1 : found->second;
  }

  // Numbers that belong to no device, moved to the plan's: nothing moves, the plan generates them.
  bool made_here(const Node& moved) const { return moved.device == t_.device && moved.inputs[0]->homeless; }

  // Depth first with an explicit stack: a chain of a million operations must not overflow the call stack.
  Traced visit(Node* root) {
    if (place(root) >= 0) return Traced::done;
    Traced entered = enter(root);
    while (entered == Traced::done && !t_.stack.empty()) {
      Trace::Frame& frame = t_.stack.back();
      Node* const* const inputs = frame.node->inputs.begin();
      while (frame.next < frame.count && place(inputs[frame.next]) >= 0) ++frame.next;
      if (frame.next < frame.count) {
        entered = enter(inputs[frame.next++]);
        continue;
      }
      const Trace::Frame done = frame;
      t_.stack.pop_back();
      append(done.node, done.count);
    }
    return entered;
  }

  // Enters a new node: appended if nothing comes before it, else put on the stack.
  Traced enter(Node* node) {
    const OpClass cls = info(node->op).cls;
    bool stored = node->evaluated.load(std::memory_order_acquire);
    if (!stored && cls != OpClass::leaf) {
      if (!lock_.holds(*node)) return Traced::part_missing;
      if (node->computed_by && node->computed_by != this_evaluator()) return Traced::being_computed;
      if (node->op == Op::output) stored = take_output(*node);
    }
    if (stored || cls == OpClass::leaf) {
      append_leaf(node, stored);
      return Traced::done;
    }
    const bool moves = node->op == Op::to_device && !made_here(*node);
    if (moves) t_.moves.emplace_back(node);
    const bool one = cls == OpClass::alias && node->op != Op::depend && !node->formula;
    const std::size_t count = moves ? 0 : one ? 1 : node->inputs.size();
    if (count == 0) {
      append(node, 0);
    } else {
      t_.stack.push_back({node, 0, count});
    }
    return Traced::done;
  }

  // An output of an earlier call already exists.
  bool take_output(Node& node) {
    const Node& call = *node.inputs[0];
    if (!call.evaluated.load(std::memory_order_acquire)) return false;
    node.storage = call.extra->outputs[static_cast<std::size_t>(node.attrs.i[0])];
    node.evaluated.store(true, std::memory_order_release);
    t_.forgotten.push_back(forget_inputs(&node));
    return true;
  }

  std::int32_t add(Node* node) {
    const auto index = static_cast<std::int32_t>(t_.nodes.size());
    if (lock_.has(*node)) {
      node->mark = static_cast<std::uint32_t>(index) + 1;
    } else {
      if (!elsewhere_) elsewhere_ = std::make_unique<std::unordered_map<const Node*, std::int32_t>>();
      elsewhere_->emplace(node, index);
    }
    t_.nodes.push_back(node);
    t_.starts.push_back(t_.key.size());
    return index;
  }

  void append(Node* node, std::size_t count) {
    add(node);
    if (node->watched && (t_.companions.empty() || t_.companions.back() != node->extra->companions.get()))
      t_.companions.push_back(node->extra->companions.get());
    const bool unique = node->extra && node->extra->data;
    put(Header::of(*node, count, false, unique));
    for (std::int64_t size : node->shape) put(static_cast<std::uint64_t>(size));
    Node* const* const inputs = node->inputs.begin();
    for (std::size_t k = 0; k < count; ++k) put(static_cast<std::uint64_t>(place(inputs[k])));
    const Attrs& a = node->attrs;
    if (a.axes) put(a.axes | 1ull << 40);
    for (std::size_t k = 0; k < a.i.size(); ++k) {
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
    if (node->formula) {
      ++t_.formulas;
      node->formula->append_key(t_.key);
    }
  }

  void append_leaf(Node* node, bool stored) {
    if (!stored && placeholders_ == Placeholders::refused && is_placeholder(*node)) {
      throw LooksAtPlaceholder(
          "compile: the function reads values that depend on its inputs (item, data, to_vector, "
          "printing...), but it is built before they are known; compute them outside it, or do not compile it");
    }
    const std::int32_t index = add(node);
    put(Header::of(*node, 0, stored, false));
    for (std::int64_t size : node->shape) put(static_cast<std::uint64_t>(size));
    if (stored) {
      for (int d = 0; d < node->shape.rank(); ++d) put(static_cast<std::uint64_t>(node->storage.strides[d]));
    } else if (node->op == Op::constant) {
      // Multiplication by one is omitted from programs, so being one is structure.
      put(is_floating(node->dtype) ? node->payload.real == 1.0 : node->payload.integer == 1);
    }
    put(static_cast<std::uint64_t>(first_equal({leaf_hash(*node, stored), index, stored})));
  }

  struct Leaf {
    std::uint64_t hash;
    std::int32_t index;
    bool stored;
  };
  std::int32_t first_equal(const Leaf& leaf) {
    const auto equal = [&](const Leaf& other) {
      return other.hash == leaf.hash &&
             equal_leaves(*t_.nodes[other.index], other.stored, *t_.nodes[leaf.index], leaf.stored);
    };
    if (leaf_count_ < leaves_.size()) {
      for (std::size_t k = 0; k < leaf_count_; ++k) {
        if (equal(leaves_[k])) return leaves_[k].index;
      }
      leaves_[leaf_count_++] = leaf;
      return leaf.index;
    }
    if (!by_hash_) {
      by_hash_ = std::make_unique<std::unordered_multimap<std::uint64_t, Leaf>>();
      for (const Leaf& other : leaves_) by_hash_->emplace(other.hash, other);
    }
    auto [from, to] = by_hash_->equal_range(leaf.hash);
    for (auto it = from; it != to; ++it) {
      if (equal(it->second)) return it->second.index;
    }
    by_hash_->emplace(leaf.hash, leaf);
    return leaf.index;
  }

  void put(std::uint64_t word) { t_.key.push_back(word); }

  Trace& t_;
  GraphLock& lock_;
  const Placeholders placeholders_;
  std::unique_ptr<std::unordered_map<const Node*, std::int32_t>> elsewhere_;
  std::array<Leaf, 16> leaves_;  // the first distinct ones; with more, by_hash_ has them all
  std::size_t leaf_count_ = 0;
  std::unique_ptr<std::unordered_multimap<std::uint64_t, Leaf>> by_hash_;
};

}  // namespace

void Trace::read_key() {
  stored.clear();
  unique.clear();
  inputs.clear();
  first_input.assign(1, 0);
  same.clear();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::uint64_t* const word = key.data() + starts[i];
    stored.push_back(Header::bit(*word, Header::stored_bit));
    unique.push_back(Header::bit(*word, Header::unique_bit));
    const std::uint64_t* const input = word + 1 + Header::rank(*word);
    for (std::size_t k = 0; k < Header::inputs(*word); ++k) inputs.push_back(static_cast<std::int32_t>(input[k]));
    first_input.push_back(static_cast<std::int32_t>(inputs.size()));
    const auto index = static_cast<std::int32_t>(i);
    same.push_back(is_leaf(index) ? static_cast<std::int32_t>(key[starts[i + 1] - 1]) : index);
  }
}

void Trace::clear() {
  nodes.clear();
  roots.clear();
  key.clear();
  starts.clear();
  stack.clear();
  moves.clear();
  companions.clear();
  forgotten.clear();
  device = {};
  formulas = 0;
}

bool equal_numbers(const Payload& a, const Payload& b) {
  return std::bit_cast<std::uint64_t>(a.real) == std::bit_cast<std::uint64_t>(b.real) && a.integer == b.integer &&
         a.step == b.step && a.seed == b.seed && a.operation == b.operation;
}

Traced trace(Trace& out, std::span<const Tensor> roots, GraphLock& lock, Placeholders placeholders) {
  Tracer tracer(out, lock, placeholders);
  const Traced added = tracer.add_roots(roots);
  return added == Traced::done ? tracer.finish() : added;
}

Traced trace(Trace& out, std::vector<Tensor>& roots, GraphLock& lock) {
  Tracer tracer(out, lock, Placeholders::refused);
  Traced added = tracer.add_roots(roots);
  if (added == Traced::done) added = tracer.add_losses(roots);
  return added == Traced::done ? tracer.finish() : added;
}

const void* this_evaluator() {
  static thread_local const char name = 0;
  return &name;
}

}  // namespace ebb
