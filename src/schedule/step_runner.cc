#include "schedule/step_runner.h"

namespace ebb {

StepRunner::StepRunner(const Plan& plan, std::span<Node* const> nodes)
    : plan_(plan), nodes_(nodes), memory_(plan.graph.values.size()), arguments_(plan.graph.values.size()) {
  for (std::size_t v = 0; v < plan.graph.values.size(); ++v) {
    const Value& x = plan.graph.values[v];
    Argument& a = arguments_[v];
    if (x.op == Op::constant && x.node < 0) {
      a.real = x.literal;
      a.integer = static_cast<std::int64_t>(x.literal);
      continue;
    }
    if (!x.is_leaf) continue;
    const Node& n = *nodes[x.node];
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

void* StepRunner::address(std::int32_t b) const {
  const Memory& m = memory_[b];
  if (value(b).op == Op::output) {
    const BufferPtr& buffer = outputs_[value(b).inputs[0]][static_cast<std::size_t>(value(b).attrs.i[0])];
    return buffer.data();
  }
  return m.buffer ? m.buffer.data() + m.offset * static_cast<std::int64_t>(size_of(value(b).dtype)) : nullptr;
}

void StepRunner::allocate(std::int32_t v) {
  const Value& x = value(v);
  const std::size_t bytes = static_cast<std::size_t>(x.shape.numel()) * size_of(x.dtype);
  memory_[v] = {BufferPtr::allocate(bytes ? bytes : 1, info(x.op).name.data()), 0};
}

void StepRunner::run_sweep(const PlanStep& step) {
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

View StepRunner::view(std::int32_t v) const {
  const Value& x = value(v);
  const std::int32_t b = base(v);
  View out;
  out.dtype = x.dtype;
  out.shape = x.shape;
  out.strides = x.is_view() || x.is_leaf ? x.strides : contiguous_strides(x.shape);
  auto* data = static_cast<std::byte*>(address(b));
  out.data = data ? data + (x.is_view() ? x.offset : 0) * static_cast<std::int64_t>(size_of(x.dtype)) : nullptr;
  return out;
}

void StepRunner::run_call(const PlanStep& step) {
  const std::int32_t v = step.outputs[0];
  const Node& node = *nodes_[step.node];
  std::vector<View> inputs, outputs;
  for (std::int32_t in : step.inputs) inputs.push_back(view(in));
  if (node.extra && !node.extra->output_types.empty()) {
    if (outputs_.empty()) outputs_.resize(plan_.graph.values.size());
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
  LibraryCall call;
  call.op = step.op;
  call.attrs = step.attrs;
  call.label = step.label;
  call.inputs = inputs;
  call.outputs = outputs;
  call.data = node.extra ? node.extra->data.get() : nullptr;
  cpu::run_library(call);
}

Storage StepRunner::storage(std::int32_t i) const {
  const std::int32_t v = plan_.graph.of_node[i];
  const Value& x = value(v);
  const std::int32_t b = base(v);
  Storage s;
  if (x.op == Op::output || value(b).op == Op::output) {
    const Value& o = x.op == Op::output ? x : value(b);
    s.buffer = outputs_[o.inputs[0]][static_cast<std::size_t>(o.attrs.i[0])];
    s.offset = x.is_view() ? x.offset : 0;
  } else {
    s.buffer = memory_[b].buffer;
    s.offset = memory_[b].offset + (x.is_view() ? x.offset : 0);
  }
  s.strides = x.is_view() || x.is_leaf ? x.strides : contiguous_strides(x.shape);
  return s;
}

void StepRunner::release_after(const PlanStep& step) {
  for (std::int32_t v : step.release) {
    memory_[v] = {};
    if (static_cast<std::size_t>(v) < outputs_.size()) outputs_[v].clear();
  }
}

}  // namespace ebb
