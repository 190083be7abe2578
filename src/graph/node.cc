// SPDX-License-Identifier: MIT
#include "graph/node.h"

#include <algorithm>
#include <utility>

#include "core/format_error.h"
#include "graph/formula.h"
#include "graph/history.h"
#include "graph/lock.h"
#include "graph/origin.h"

namespace ebb {
namespace {

std::atomic<std::uint64_t> next_ids{1};
constexpr int kMostTransforms = 30;

// The state of a thread, in one place: in a shared library, finding a thread-local variable is a function call.
struct OfThread {
  bool history_on = true, eager_on = false, tracing_on = false;
  int transforms_open = 0;
  bool making_formula = false;
  // Ids of new nodes, taken in runs; nodes that belong to an earlier node's formula have that node's id.
  std::uint64_t next_id = 0, ids_end = 0, id_of_formula = 0;
  // Nodes waiting to be deleted, and whether a deletion is in progress.
  Node* dead = nullptr;
  bool burying = false;
  // Memory of dead nodes, as a list linked through its first bytes.
  bool memory_is_returned = false, memory_closed = false;
  int memory_count = 0;
  void* memory = nullptr;
};
constinit thread_local OfThread of_thread{};

std::array<std::atomic<int>, kMostTransforms> open_at_depth{};  // in all threads
std::atomic<int> graph_bound{10000};

// A slice of existing memory needs no computing, and its offset should not require a new plan: a loop over batches
// slices at a different offset every time.
void look_at_piece(Node* node) {
  Node* from = node->inputs[0];
  if (!from->evaluated.load(std::memory_order_acquire)) return;
  const auto axis = static_cast<int>(node->attrs.i[0]);
  node->device = from->device;
  node->storage = from->storage;
  node->storage.offset += from->storage.strides[axis] * node->attrs.i[1];
  node->storage.strides[axis] *= node->attrs.i[2];
  node->evaluated.store(true, std::memory_order_release);
  if (node->history == 0) const Forgotten forgotten = forget_inputs(node);  // the node is not shared yet
}

void finish(Node* node) {
  if (node->op == Op::narrow) look_at_piece(node);
  const OfThread& of = of_thread;
  if (node->evaluated.load(std::memory_order_relaxed) || of.tracing_on) return;
  if (of.eager_on || node->depth > static_cast<std::uint32_t>(graph_bound.load(std::memory_order_relaxed))) {
    evaluate(std::span<Node* const>(&node, 1));
  }
}

}  // namespace

void retain(Node* node) { node->refs.fetch_add(1, std::memory_order_relaxed); }

void release(Node* node) noexcept {
  auto last = [](Node* n) {  // if the only reference left is ours, none can be added, except through a list
    return (n->refs.load(std::memory_order_acquire) == 1 && !n->watched) ||
           n->refs.fetch_sub(1, std::memory_order_acq_rel) == 1;
  };
  if (!last(node)) return;
  // A long chain is freed from its end; deleting recursively would overflow the stack. The outermost call processes the
  // list of dead nodes; calls from within destructors (closures that hold tensors) add to it.
  OfThread& of = of_thread;
  auto bury = [&of](Node* n) {
    n->next_dead = of.dead;
    of.dead = n;
  };
  bury(node);
  if (of.burying) return;
  of.burying = true;
  while (of.dead) {
    Node* n = std::exchange(of.dead, of.dead->next_dead);
    for (Node* input : n->inputs) {
      if (last(input)) bury(input);
    }
    if (n->watched) n->extra->companions->leave(*n);
    forget_origin(*n);
    delete n;
  }
  of.burying = false;
}

#if defined(__SANITIZE_ADDRESS__)
void* Node::operator new(std::size_t bytes) { return ::operator new(bytes); }
void Node::operator delete(void* memory) noexcept { ::operator delete(memory); }
#else
namespace {

constexpr int kKeptNodes = 4096;

// Returns the memory when the thread ends; that of nodes that die after that (tensors in other thread-local objects) is
// not kept.
struct CloseNodeMemory {
  ~CloseNodeMemory() {
    OfThread& of = of_thread;
    of.memory_closed = true;
    while (of.memory) {
      void* memory = std::exchange(of.memory, *static_cast<void**>(of.memory));
      ::operator delete(memory);
    }
  }
};
void return_memory_at_end() {
  thread_local CloseNodeMemory close;
  of_thread.memory_is_returned = true;
}

}  // namespace

void* Node::operator new(std::size_t bytes) {
  OfThread& of = of_thread;
  if (bytes != sizeof(Node) || !of.memory) return ::operator new(bytes);
  --of.memory_count;
  return std::exchange(of.memory, *static_cast<void**>(of.memory));
}

void Node::operator delete(void* memory) noexcept {
  OfThread& of = of_thread;
  if (of.memory_closed || of.memory_count >= kKeptNodes) {
    ::operator delete(memory);
    return;
  }
  if (!of.memory_is_returned) return_memory_at_end();
  *static_cast<void**>(memory) = of.memory;
  of.memory = memory;
  ++of.memory_count;
}
#endif

namespace {

// Ids are taken in runs, so that threads do not contend for the counter at every node.
constexpr std::uint64_t kIdRun = 1024;

std::uint64_t take_id() {
  OfThread& of = of_thread;
  if (of.id_of_formula != 0) return of.id_of_formula;
  if (of.next_id == of.ids_end) {
    of.next_id = next_ids.fetch_add(kIdRun, std::memory_order_relaxed);
    of.ids_end = of.next_id + kIdRun;
  }
  return of.next_id++;
}

}  // namespace

Node::Node(Op op, DType dtype, const Shape& shape)
    : op(op), dtype(dtype), shape(shape), id(take_id()), part(GraphLock::own_part()) {}

std::uint64_t next_node_id() {
  of_thread.next_id = of_thread.ids_end;  // a new run: its ids are larger than all existing ones
  const std::uint64_t id = take_id();
  --of_thread.next_id;
  return id;
}

namespace {

// A node is on the device of its inputs.
void join_device(Node& node, const Node& input) {
  if (input.homeless) return;
  if (!node.homeless && node.device != input.device && node.op != Op::to_device) {
    fail(Error::Kind::value, "{}: operands on {} and {}; move one with .to()", info(node.op).name, name(node.device),
         name(input.device));
  }
  node.device = input.device;
  node.homeless = false;
}

// Everything but `finish`, which may compute the node immediately.
Tensor start_node(Op op, DType dtype, const Shape& shape, std::span<const Tensor> inputs, const Attrs& attrs,
                  const char* label) {
  Node* node = new Node(op, dtype, shape);
  Tensor result = Tensor::adopt(node);
  node->attrs = attrs;
  node->label = label;
  if (origins_on()) note_origin(*node);
  node->inputs.reserve(inputs.size());
  std::uint32_t history = 0;
  for (const Tensor& input : inputs) {
    require(input.defined(), "{}: an input has no value (a default-constructed Tensor)", info(op).name);
    Node* n = input.node();
    retain(n);
    node->inputs.push_back(n);
    history |= n->history;
    join_device(*node, *n);
    if (!n->evaluated.load(std::memory_order_acquire)) node->depth = std::max(node->depth, n->depth + 1);
  }
  if (op == Op::to_device) {
    node->device = {static_cast<Device::Kind>(attrs.i[0]), static_cast<std::uint8_t>(attrs.i[1])};
    node->homeless = false;
  } else if (op == Op::variable && node->homeless) {  // a variable stays on the device where it was made
    node->device = default_device();
    node->homeless = false;
  }
  if (history && of_thread.history_on && info(op).grad != OpGrad::none && is_floating(dtype)) node->history = history;
  return result;
}

}  // namespace

Tensor make_node(Op op, DType dtype, const Shape& shape, std::span<const Tensor> inputs, const Attrs& attrs,
                 const char* label) {
  Tensor result = start_node(op, dtype, shape, inputs, attrs, label);
  finish(result.node());
  return result;
}

Tensor make_call(Op op, std::span<const Tensor> inputs, const Attrs& attrs,
                 std::vector<std::pair<Shape, DType>> outputs, std::shared_ptr<const void> data) {
  Tensor result = start_node(op, outputs[0].second, outputs[0].first, inputs, attrs, nullptr);
  result.node()->more().output_types = std::move(outputs);
  result.node()->more().data = std::move(data);
  finish(result.node());
  return result;
}

Tensor output_of(const Tensor& call, int k) {
  const auto& [shape, dtype] = call.node()->extra->output_types[static_cast<std::size_t>(k)];
  Attrs attrs;
  attrs.i[0] = k;
  return make_node(Op::output, dtype, shape, {call}, attrs);
}

Tensor make_leaf(Op op, DType dtype, const Shape& shape, const Payload& payload) {
  Node* node = new Node(op, dtype, shape);
  node->payload = payload;
  return Tensor::adopt(node);
}

Tensor make_data(DType dtype, const Shape& shape, BufferPtr buffer) {
  return make_data(dtype, shape, Storage{std::move(buffer), 0, contiguous_strides(shape)});
}

Tensor make_data(DType dtype, const Shape& shape, Storage storage) {
  Tensor t = make_leaf(Op::data, dtype, shape, {});
  t.node()->device = storage.buffer.device();
  t.node()->homeless = false;
  t.node()->storage = std::move(storage);
  t.node()->evaluated.store(true, std::memory_order_release);
  return t;
}

Tensor make_constant(Scalar value, DType dtype) {
  Payload payload;
  payload.real = value.real();
  payload.integer = is_floating(dtype) ? 0 : value.integer();
  return make_leaf(Op::constant, dtype, Shape{}, payload);
}

Tensor make_formula(Op op, const Tensor& value, std::span<const Tensor> inputs, const Attrs& attrs) {
  const bool tracked = of_thread.history_on && std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) {
                         return t.defined() && t.node()->history != 0;
                       });
  if (!tracked) return value;
  std::vector<Tensor> all;
  all.reserve(inputs.size() + 1);
  all.push_back(value);
  all.insert(all.end(), inputs.begin(), inputs.end());
  return make_node(op, value.dtype(), value.shape(), all, attrs);
}

Tensor make_placeholder(DType dtype, const Shape& shape, const Strides& strides, Device device) {
  Tensor t = make_leaf(Op::data, dtype, shape, {});
  t.node()->device = device;
  t.node()->homeless = false;
  t.node()->payload.operation = t.node()->id;  // never equal to another
  t.node()->storage.strides = strides;
  return t;
}

bool may_be_folded(std::span<const Tensor* const> operands) {
  const OfThread& of = of_thread;
  if (!of.history_on || of.eager_on || of.tracing_on || of.making_formula || origins_on()) return false;
  return std::none_of(operands.begin(), operands.end(),
                      [](const Tensor* t) { return t->defined() && t->node()->history != 0; });
}

Tensor make_folded(const std::shared_ptr<const Formula>& formula, std::span<const Tensor* const> operands) {
  Node* node = new Node(Op::formula, formula->dtype, formula->shape);
  Tensor result = Tensor::adopt(node);
  node->formula = formula;
  node->inputs.reserve(operands.size());
  for (const Tensor* t : operands) {
    if (!t->defined()) continue;
    Node* n = t->node();
    retain(n);
    node->inputs.push_back(n);
    join_device(*node, *n);
    if (!n->evaluated.load(std::memory_order_acquire)) node->depth = std::max(node->depth, n->depth);
  }
  node->depth += formula->depth;
  finish(node);
  return result;
}

MakingFormula::MakingFormula()
    : history_(of_thread.history_on),
      eager_(of_thread.eager_on),
      tracing_(of_thread.tracing_on),
      making_(std::exchange(of_thread.making_formula, true)),
      id_(of_thread.id_of_formula) {}
MakingFormula::MakingFormula(const Node& before) : MakingFormula() {
  OfThread& of = of_thread;
  of.history_on = of.eager_on = false;
  of.tracing_on = true;
  of.id_of_formula = before.id;
}
MakingFormula::~MakingFormula() {
  OfThread& of = of_thread;
  of.history_on = history_;
  of.eager_on = eager_;
  of.tracing_on = tracing_;
  of.making_formula = making_;
  of.id_of_formula = id_;
}

Tracing::Tracing() : before_(std::exchange(of_thread.tracing_on, true)) {}
Tracing::~Tracing() { of_thread.tracing_on = before_; }
bool Tracing::is_on() { return of_thread.tracing_on; }
bool is_eager() { return of_thread.eager_on; }

NoHistory::NoHistory(bool on) : before_(of_thread.history_on) {
  if (on) of_thread.history_on = false;
}
NoHistory::~NoHistory() { of_thread.history_on = before_; }

WithHistory::WithHistory() : before_(std::exchange(of_thread.history_on, true)) {}
WithHistory::~WithHistory() { of_thread.history_on = before_; }

int open_transform() {
  int& open = of_thread.transforms_open;
  require(open < kMostTransforms, "grad: more than {} gradient transforms are nested", kMostTransforms);
  open_at_depth[open].fetch_add(1, std::memory_order_relaxed);
  return ++open;
}
void close_transform() { open_at_depth[--of_thread.transforms_open].fetch_sub(1, std::memory_order_relaxed); }
std::uint32_t active_history() { return (2u << of_thread.transforms_open) - 1; }
std::uint32_t history_in_use() {
  std::uint32_t bits = active_history();
  for (int d = of_thread.transforms_open; d < kMostTransforms && open_at_depth[d].load(std::memory_order_relaxed) != 0;
       ++d)
    bits |= 2u << d;
  return bits;
}
bool carries_history(const Tensor& t) { return of_thread.history_on && (t.node()->history & active_history()) != 0; }

Forgotten forget_inputs(Node* node) {
  Forgotten forgotten(std::move(node->inputs));
  if (node->extra) forgotten.rule_ = std::move(node->extra->rule);
  return forgotten;
}

Eager::Eager() : before_(std::exchange(of_thread.eager_on, true)) {}
Eager::~Eager() { of_thread.eager_on = before_; }

int set_graph_bound(int depth) {
  require(depth > 0, "set_graph_bound: the depth must be positive, got {}", depth);
  return graph_bound.exchange(depth);
}

std::int64_t pack_axes(std::span<const int> axes) {
  std::int64_t packed = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) packed |= static_cast<std::int64_t>(axes[i]) << (4 * i);
  return packed;
}

std::array<int, Shape::kMaxRank> unpack_axes(std::int64_t packed) {
  std::array<int, Shape::kMaxRank> axes{};
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int>(packed >> (4 * i)) & 15;
  return axes;
}

// ---- the handle -----------------------------------------------------------------------------------------------------

Tensor::Tensor(Node* node) : node_(node) {
  if (node_) retain(node_);
}
Tensor::Tensor(const Tensor& o) : Tensor(o.node_) {}
Tensor& Tensor::operator=(const Tensor& o) {
  Tensor copy(o);
  std::swap(node_, copy.node_);
  return *this;
}
Tensor::~Tensor() {
  if (node_) release(node_);
}

namespace {
Node* value_of(Node* node) {
  require(node != nullptr, "this Tensor has no value: it was default-constructed or moved from");
  return node;
}
}  // namespace

const Shape& Tensor::shape() const { return value_of(node_)->shape; }
DType Tensor::dtype() const { return value_of(node_)->dtype; }
Device Tensor::device() const { return value_of(node_)->homeless ? default_device() : node_->device; }
bool Tensor::requires_grad() const { return (value_of(node_)->history & active_history()) != 0; }
bool Tensor::evaluated() const { return value_of(node_)->evaluated.load(std::memory_order_acquire); }

}  // namespace ebb
