#include <array>

#include "core/format_error.h"
#include "graph/history.h"
#include "schedule/plan.h"

namespace ebb {
namespace {

struct Memory {
  BufferPtr buffer;
  std::int64_t offset = 0;
};

class Runner {
 public:
  Runner(const Plan& plan, const Trace& trace) : p_(plan), t_(trace), memory_(plan.graph.values.size()) {}

  ~Runner() {
    while (next_ < held_.size()) let_go();  // after an error
  }

  void run() {
    // The nodes that will be marked must outlive their readers, which may go as soon as they are evaluated.
    auto hold = [this](std::int32_t i) {
      retain(t_.nodes[i]);
      held_.push_back(t_.nodes[i]);
    };
    for (std::int32_t i : p_.attach_first) hold(i);
    for (const PlanStep& step : p_.steps) {
      for (std::int32_t i : step.attach) hold(i);
      if (step.node >= 0) hold(step.node);
    }
    bind_leaves();
    for (std::int32_t i : p_.attach_first) {
      attach(i);
      let_go();
    }
    for (const PlanStep& step : p_.steps) {
      step.sweep ? run_sweep(step) : run_library(step);
      for (std::int32_t i : step.attach) {
        attach(i);
        let_go();
      }
      if (step.node >= 0) let_go();
      for (std::int32_t v : step.release) {
        memory_[v] = {};
        if (static_cast<std::size_t>(v) < outputs_.size()) outputs_[v].clear();
      }
    }
  }

 private:
  const Value& value(std::int32_t v) const { return p_.graph.values[v]; }
  std::int32_t base(std::int32_t v) const { return value(v).is_view() ? value(v).base : v; }

  // Nodes are let go in the order they were taken hold of.
  void let_go() { release(held_[next_++]); }

  void bind_leaves() {
    arguments_.resize(p_.graph.values.size());
    for (std::size_t v = 0; v < p_.graph.values.size(); ++v) {
      const Value& x = p_.graph.values[v];
      Argument& a = arguments_[v];
      if (x.op == Op::constant && x.node < 0) {
        a.real = x.literal;
        a.integer = static_cast<std::int64_t>(x.literal);
        continue;
      }
      if (!x.is_leaf) continue;
      const Node& n = *t_.nodes[x.node];
      if (x.op == Op::data) {
        memory_[v] = {n.storage.buffer, n.storage.offset};
        continue;
      }
      a.real = n.payload.real;
      a.integer = n.payload.integer;
      a.step = n.payload.step;
      a.seed = n.payload.seed;
      a.operation = n.payload.operation;
    }
  }

  void* address(std::int32_t b) const {
    const Memory& m = memory_[b];
    if (value(b).op == Op::output) {
      const BufferPtr& buffer = outputs_[value(b).inputs[0]][static_cast<std::size_t>(value(b).attrs.i[0])];
      return buffer.data();
    }
    return m.buffer ? m.buffer.data() + m.offset * static_cast<std::int64_t>(size_of(value(b).dtype)) : nullptr;
  }

  void allocate(std::int32_t v) {
    const Value& x = value(v);
    const std::size_t bytes = static_cast<std::size_t>(x.shape.numel()) * size_of(x.dtype);
    memory_[v] = {BufferPtr::allocate(bytes ? bytes : 1, info(x.op).name.data()), 0};
  }

  void run_sweep(const PlanStep& step) {
    for (std::int32_t v : step.outputs) allocate(v);
    call_.clear();
    for (std::int32_t v : step.inputs) {
      Argument a = arguments_[v];
      a.data = address(v);
      call_.push_back(a);
    }
    for (std::int32_t v : step.outputs) {
      Argument a;
      a.data = address(v);
      call_.push_back(a);
    }
    cpu::run(*step.sweep, call_);
  }

  cpu::View view(std::int32_t v) const {
    const Value& x = value(v);
    const std::int32_t b = base(v);
    cpu::View out;
    out.dtype = x.dtype;
    out.shape = x.shape;
    out.strides = x.is_view() || x.is_leaf ? x.strides : contiguous_strides(x.shape);
    auto* data = static_cast<std::byte*>(address(b));
    out.data = data ? data + (x.is_view() ? x.offset : 0) * static_cast<std::int64_t>(size_of(x.dtype)) : nullptr;
    return out;
  }

  void run_library(const PlanStep& step) {
    const std::int32_t v = step.outputs[0];
    const Node& node = *t_.nodes[step.node];
    std::vector<cpu::View> inputs, outputs;
    for (std::int32_t in : step.inputs) inputs.push_back(view(in));
    if (node.extra && !node.extra->output_types.empty()) {
      if (outputs_.empty()) outputs_.resize(p_.graph.values.size());
      for (const auto& [shape, dtype] : node.extra->output_types) {
        const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
        outputs_[v].push_back(BufferPtr::allocate(bytes ? bytes : 1, info(step.op).name.data()));
        outputs.push_back({outputs_[v].back().data(), dtype, shape, contiguous_strides(shape)});
      }
      memory_[v] = {outputs_[v][0], 0};
    } else {
      allocate(v);
      outputs.push_back(view(v));
    }
    cpu::LibraryCall call;
    call.op = step.op;
    call.attrs = step.attrs;
    call.label = step.label;
    call.inputs = inputs;
    call.outputs = outputs;
    call.data = node.extra ? node.extra->data.get() : nullptr;
    cpu::run_library(call);
  }

  void attach(std::int32_t i) {
    Node* n = t_.nodes[i];
    const std::int32_t v = p_.graph.of_node[i];
    const Value& x = value(v);
    const std::int32_t b = base(v);
    if (x.op == Op::output || value(b).op == Op::output) {
      const Value& o = x.op == Op::output ? x : value(b);
      n->storage.buffer = outputs_[o.inputs[0]][static_cast<std::size_t>(o.attrs.i[0])];
      n->storage.offset = x.is_view() ? x.offset : 0;
    } else {
      n->storage.buffer = memory_[b].buffer;
      n->storage.offset = memory_[b].offset + (x.is_view() ? x.offset : 0);
    }
    n->storage.strides = x.is_view() || x.is_leaf ? x.strides : contiguous_strides(x.shape);
    if (n->extra && !n->extra->output_types.empty()) keep_outputs(*n->extra, v);
    n->evaluated.store(true, std::memory_order_release);
    // What it was made of stays only where somebody may still differentiate it.
    // A variable starts a history; what it was computed from is not part of it.
    if (n->op == Op::variable || (n->history & active_history()) == 0 || n->consumed) forget_inputs(n);
  }

  // A call's other outputs may be asked for later: they stay with the call, which lives as long as somebody can ask.
  void keep_outputs(NodeExtra& extra, std::int32_t v) {
    for (std::size_t k = 0; k < extra.output_types.size(); ++k)
      extra.outputs.push_back({outputs_[v][k], 0, contiguous_strides(extra.output_types[k].first)});
  }

  const Plan& p_;
  const Trace& t_;
  std::vector<Memory> memory_;
  std::vector<std::vector<BufferPtr>> outputs_;
  std::vector<Argument> arguments_;
  std::vector<Argument> call_;
  std::vector<Node*> held_;
  std::size_t next_ = 0;
};

}  // namespace

void run_plan(const Plan& plan, const Trace& trace) { Runner(plan, trace).run(); }

}  // namespace ebb
