// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "ebb/error.h"
#include "ebb/tensor.h"
#include "graph/call_options.h"
#include "graph/input_list.h"
#include "graph/op_table.h"

namespace ebb {

// Parameters of an operation that determine its structure (they are part of the plan's cache key).
//   reduce            axes
//   permute           i[a] packed by pack_axes
//   narrow            i = {axis, start, step}; the length is the node's shape; step may be negative
//   pick, place, gather, scatter..., index_..., cat, cumsum, cumprod, linear_recurrence, argmax, argsort, searchsorted,
//   pad_zero, sparsemax_threshold:  i[0] = axis
//   pad_zero          i = {axis, before, after}
//   gather, scatter_zero_add  i[1]: an IndexLines, see calls/index_lines.h
//   searchsorted      i = {axis, right}: equal elements come before a value, too
//   argsort           i = {axis, descending, first, count}: places [first, first + count), or all where count is 0
//   check             i = {1, from, to}: of an index that lies in [from, to); zeros: of any other number
//   output            i[0] = which output of its input     triangular_solve  i = {upper, transposed, unit diagonal}
//   to_device         i = {kind, index}
// Calls with further parameters (src/calls) have options of a type of their own.
struct Attrs {
  std::array<std::int64_t, 4> i{};
  std::uint32_t axes = 0;  // one bit per axis
  OptionsPtr options;

  bool operator==(const Attrs& other) const {
    return i == other.i && axes == other.axes &&
           (options == other.options || (options && other.options && options->equals(*other.options)));
  }
};
template <class Options>
Attrs with_options(const Options& options) {
  Attrs a;
  a.options = make_options(options);
  return a;
}
template <class Options>
const Options& options_as(const Attrs& attrs) {
  return options_as<Options>(attrs.options.get());
}

// Numbers of a leaf that do not affect structure: they are bound when a plan runs, so a learning rate or a dropout seed
// that changes every step needs no new plan.
//   constant: real and integer hold the value     iota: value = integer + index · step
//   random_uniform: seed, operation
struct Payload {
  double real = 0;
  std::int64_t integer = 0;
  std::int64_t step = 1;
  std::uint64_t seed = 0;
  std::uint64_t operation = 0;
};

// Where the elements of an evaluated node are stored.
struct Storage {
  BufferPtr buffer;
  std::int64_t offset = 0;  // elements from the buffer's start
  Strides strides;
};

using Rule =
    std::function<std::vector<Tensor>(const Tensor& grad, const Tensor& output, const std::vector<Tensor>& inputs)>;

class Companions;
class Formula;

// Members that only few nodes have.
struct NodeExtra {
  std::shared_ptr<const Rule> rule;  // custom: its gradient
  std::vector<Storage> outputs;      // library calls with several outputs, read through Op::output
  std::vector<std::pair<Shape, DType>> output_types;
  std::shared_ptr<Companions> companions;  // evaluating a loss evaluates its gradients
  std::size_t companion_place = 0;         // in their list
  std::shared_ptr<const void> data;        // further parameters of a library call (options, lengths...)
};

struct Node {
  // Immutable after construction.
  Op op;
  DType dtype;
  Shape shape;
  Attrs attrs;
  Payload payload;
  const char* label = nullptr;  // static text for errors that depend on data: "cross_entropy: target"
  std::uint64_t id = 0;         // order of creation, within a thread
  std::uint32_t depth = 0;      // longest unevaluated path at construction

  // Bit 0: a variable is upstream; bit d: the input of a gradient transform at nesting depth d is.
  std::uint32_t history = 0;

  // Where it is computed. Nodes made only from numbers (constants, ramps, random numbers) are homeless: they are
  // computed wherever they are used, and `device` says where they are stored once evaluated.
  Device device;
  bool homeless = true;
  std::uint8_t part = 0;  // of the graph, see graph/lock.h
  bool watched = false;   // it is in a list of companions

  // Changed only under a GraphLock; storage and `evaluated` last.
  InputList inputs;  // owned references; room for all is reserved before the first
  Storage storage;   // fixed once evaluated
  std::unique_ptr<NodeExtra> extra;
  std::shared_ptr<const Formula> formula;  // while its nodes are not made: the inputs are its operands
  std::atomic<bool> evaluated{false};
  bool consumed = false;              // backward has used this node's history
  const void* computed_by = nullptr;  // the evaluation that will fill it
  std::uint32_t mark = 0;             // scratch space of walks

  std::atomic<const Storage*> dense{nullptr};  // the same elements, contiguous, once requested
  Node* next_dead = nullptr;                   // while it waits to be deleted

  std::atomic<std::uint32_t> refs{1};

  Node(Op op, DType dtype, const Shape& shape);
  ~Node() { delete dense.load(std::memory_order_relaxed); }
  // A training step makes and frees thousands of nodes of one size: each thread keeps some of their memory for reuse.
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory) noexcept;
  NodeExtra& more() {
    if (!extra) extra = std::make_unique<NodeExtra>();
    return *extra;
  }
};

// The inputs that a node's value comes from: the first for an alias, any of the operands for a formula.
inline std::span<Node* const> value_inputs(const Node& n) {
  const bool alias = info(n.op).cls == OpClass::alias && !n.formula;
  return {n.inputs.begin(), alias ? std::size_t{1} : n.inputs.size()};
}

void retain(Node* node);
void release(Node* node) noexcept;  // frees long chains without recursion

// References dropped by a node: released when this is destroyed, which must happen after the lock is released.
class Forgotten {
 public:
  explicit Forgotten(InputList&& inputs) : inputs_(std::move(inputs)) {}
  Forgotten(Forgotten&&) = default;
  ~Forgotten() {
    for (Node* n : inputs_) release(n);
  }

 private:
  friend Forgotten forget_inputs(Node* node);
  InputList inputs_;
  std::shared_ptr<const Rule> rule_;
};

// Drops what a node was made from, including its rule. Needs its part of the graph.
[[nodiscard]] Forgotten forget_inputs(Node* node);

// ---- building -------------------------------------------------------------------------------------------------------

// Makes a node. Evaluated and unevaluated inputs, history, depth, the Eager scope and the graph bound are handled here.
// Shapes and dtypes are the caller's responsibility: the ops layer checks them.
Tensor make_node(Op op, DType dtype, const Shape& shape, std::span<const Tensor> inputs, const Attrs& attrs = {},
                 const char* label = nullptr);
inline Tensor make_node(Op op, DType dtype, const Shape& shape, std::initializer_list<Tensor> inputs,
                        const Attrs& attrs = {}, const char* label = nullptr) {
  return make_node(op, dtype, shape, std::span<const Tensor>(inputs.begin(), inputs.size()), attrs, label);
}
// Makes a library call with several outputs, read through output_of; its own shape and dtype are those of the first. A
// call with `data` never equals another.
Tensor make_call(Op op, std::span<const Tensor> inputs, const Attrs& attrs,
                 std::vector<std::pair<Shape, DType>> outputs, std::shared_ptr<const void> data = nullptr);
Tensor output_of(const Tensor& call, int k);
Tensor make_leaf(Op op, DType dtype, const Shape& shape, const Payload& payload);
Tensor make_data(DType dtype, const Shape& shape, Storage storage);
Tensor make_data(DType dtype, const Shape& shape, BufferPtr buffer);  // contiguous
Tensor make_constant(Scalar value, DType dtype);                      // rank 0

// A formula as one operation: `value` was built from `inputs` inside a NoHistory scope; the node is an alias of it
// whose gradient is the rule of `op`. inputs[0] of the node is `value`, the operands follow.
Tensor make_formula(Op op, const Tensor& value, std::span<const Tensor> inputs, const Attrs& attrs = {});
inline Tensor make_formula(Op op, const Tensor& value, std::initializer_list<Tensor> inputs, const Attrs& attrs = {}) {
  return make_formula(op, value, std::span<const Tensor>(inputs.begin(), inputs.size()), attrs);
}

// The value of a function's argument while the function is traced: it has a shape, a dtype and strides, but no
// elements. Computing anything that depends on it is an error, LooksAtPlaceholder.
struct LooksAtPlaceholder : Error {
  using Error::Error;
};
Tensor make_placeholder(DType dtype, const Shape& shape, const Strides& strides, Device device = {});
inline bool is_placeholder(const Node& node) {
  return node.op == Op::data && !node.evaluated.load(std::memory_order_acquire);
}

// Within its scope nothing is computed automatically: neither by the Eager scope nor because of the graph bound.
class Tracing {
 public:
  Tracing();
  ~Tracing();
  Tracing(const Tracing&) = delete;
  static bool is_on();

 private:
  bool before_;
};
bool is_eager();  // in an Eager scope

// Within its scope new nodes carry no history.
class NoHistory {
 public:
  explicit NoHistory(bool on = true);
  ~NoHistory();
  NoHistory(const NoHistory&) = delete;

 private:
  bool before_;
};

// Computes these nodes. Defined by the schedule layer, the one place where graph calls a later layer.
void evaluate(std::span<Node* const> nodes);

// permute's axes in one integer, four bits each.
std::int64_t pack_axes(std::span<const int> axes);
std::array<int, Shape::kMaxRank> unpack_axes(std::int64_t packed);

// The contiguous elements of a tensor on the CPU, computed now. Their address is stable for the tensor's lifetime.
const Storage& evaluated_storage(const Tensor& t);

// The elements of a tensor on any device, row-major, for reading on the host: every host read goes through this. Waits
// for them, and throws if computing them failed.
struct HostElements {
  BufferPtr owner;
  std::span<const std::byte> bytes;
};
HostElements host_elements(const Tensor& t);

}  // namespace ebb
