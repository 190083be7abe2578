// SPDX-License-Identifier: MIT
#include "schedule/step_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/background.h"
#include "core/format_error.h"
#include "core/stop.h"
#include "schedule/read.h"
#include "schedule/strips.h"

namespace ebb {

StepRunner::StepRunner(const Plan& plan, std::span<Node* const> nodes, Origins origins, Room* room)
    : plan_(plan),
      backend_(backend_of(plan.device)),
      own_room_(room ? nullptr : std::make_unique<Room>()),
      room_(room ? *room : *own_room_) {
  room_.memory.clear();
  room_.memory.resize(plan.graph.values.size());
  room_.extras.clear();
  room_.arguments = plan.arguments;
  for (const PlanLeaf& leaf : plan.leaves) {
    const Node& n = *nodes[leaf.node];
    if (leaf.in_memory) {
      bind_memory(leaf.value, n.storage);
      continue;
    }
    take_numbers(room_.arguments[leaf.value], n.payload);
  }
  for (const PlanStep& step : plan.steps) {
    if (step.node >= 0) room_.extras.push_back(nodes[step.node]->extra.get());
  }
  if (origins == Origins::none || !origins_on()) return;
  for (const Node* n : nodes) built_.push_back({n->label ? n->label : info(n->op).name, origin_of(*n)});
}

StepRunner::~StepRunner() { room_.memory.clear(); }

void StepRunner::run(const PlanStep& step) {
  check_stop();
  ++run_.step;
  if (built_.empty()) return compute(step);
  try {
    compute(step);
    if (run_.mark) run_.mark->wait(run_.step);  // the search for an error needs it here
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    fail_with_origin(step, error);
  }
}

// A call is one operation. A sweep is many: those whose name begins the error's text.
void StepRunner::fail_with_origin(const PlanStep& step, const Error& error) const {
  std::vector<OriginPtr> origins;
  if (step.node >= 0) {
    origins.push_back(built_[static_cast<std::size_t>(step.node)].origin);
  } else {
    for (const Built& b : built_) {
      if (std::string_view(error.what()).starts_with(b.name)) origins.push_back(b.origin);
    }
  }
  std::vector<std::string> places;
  for (const OriginPtr& origin : origins) {
    const std::string place = origin ? place_of(*origin) : "";
    if (!place.empty() && std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
    if (places.size() == 3) break;
  }
  if (places.empty()) throw;
  fail(error.kind(), "{} (built at {})", error.what(), fmt::join(places, " or "));
}

void StepRunner::start() {
  if (elsewhere_) {
    for (std::size_t v = 0; v < room_.memory.size(); ++v) {
      Memory& m = room_.memory[v];
      if (m.buffer && m.buffer.device() != plan_.device) m = here(static_cast<std::int32_t>(v), m);
    }
    elsewhere_ = false;
  }
  std::vector<FilledBy> waits_for;
  if (plan_.device != Device{}) {
    for (const Memory& m : room_.memory) {
      if (m.buffer && m.buffer.get()->filled_by.mark) waits_for.push_back(m.buffer.get()->filled_by);
    }
  }
  run_ = backend_.begin(waits_for);
}

void StepRunner::finish() {
  wait_for_background();
  backend_.end(run_);
  run_ = {};
}

// A value made only from numbers may have been computed on another device before.
StepRunner::Memory StepRunner::here(std::int32_t v, const Memory& elsewhere) const {
  const Value& x = value(v);
  if (x.shape.numel() == 0) return {BufferPtr::allocate(1, "to", plan_.device), 0};
  std::int64_t first = 0, last = 0;  // elements before and after the one with index 0
  for (int d = 0; d < x.shape.rank(); ++d) (x.strides[d] < 0 ? first : last) += (x.shape[d] - 1) * x.strides[d];
  const std::size_t element = size_of(x.dtype), bytes = static_cast<std::size_t>(last - first + 1) * element;
  return {copied({elsewhere.buffer, elsewhere.offset + first, {}}, bytes, element, plan_.device), -first};
}

BufferPtr StepRunner::fresh(std::size_t bytes, Op op) const {
  BufferPtr buffer = BufferPtr::allocate(bytes ? bytes : 1, info(op).name.data(), plan_.device);
  buffer.get()->filled_by = {run_.mark, run_.step};
  return buffer;
}

void* StepRunner::address(std::int32_t b) const {
  const Memory& m = room_.memory[b];
  if (value(b).op == Op::output) {
    const BufferPtr& buffer = outputs_[value(b).inputs[0]][static_cast<std::size_t>(value(b).attrs.i[0])];
    return buffer.data();
  }
  return m.buffer ? m.buffer.data() + m.offset * static_cast<std::int64_t>(size_of(value(b).dtype)) : nullptr;
}

void StepRunner::allocate(std::int32_t v) {
  if (!slices_.empty()) {
    if (const auto slice = slices_.find(v); slice != slices_.end()) {
      room_.memory[v] = slice->second;
      return;
    }
  }
  if (places_) {
    if (const auto given = places_->find(v); given != places_->end()) {
      given->second[0].get()->filled_by = {run_.mark, run_.step};
      room_.memory[v] = {given->second[0], 0};
      return;
    }
  }
  const Value& x = value(v);
  const std::size_t bytes = static_cast<std::size_t>(allocated_elements(x)) * size_of(x.dtype);
  room_.memory[v] = {fresh(bytes, x.op), 0};
}

void StepRunner::set_computed(std::int32_t v, const std::vector<BufferPtr>& outputs, std::uint32_t step) {
  for (const BufferPtr& b : outputs) b.get()->filled_by = {run_.mark, step};
  room_.memory[v] = {outputs[0], 0};
  if (info(value(v).op).cls != OpClass::library) return;
  if (outputs_.empty()) outputs_.resize(plan_.graph.values.size());
  outputs_[v] = outputs;
}

void StepRunner::forget_computed(std::int32_t v) {
  room_.memory[v] = {};
  if (!outputs_.empty()) outputs_[v].clear();
}

void StepRunner::forget_computed() {
  for (std::size_t v = 0; v < room_.memory.size(); ++v) {
    if (!plan_.graph.values[v].is_leaf) room_.memory[v] = {};
  }
  outputs_.clear();
  run_.step = 0;
}

void StepRunner::compute(const PlanStep& step) {
  if (step.strips) return run_strips(step);
  if (!step.sweep) return run_call(step);
  if (step.together == 1) return run_sweep(step);
  if (step.together > 1) run_sweeps(step);
}

void StepRunner::bind(const PlanStep& step) {
  for (std::int32_t v : step.outputs) allocate(v);
  arguments(step);
}

std::span<const Argument> StepRunner::arguments(const PlanStep& step) {
  room_.call.clear();
  for (std::int32_t v : step.inputs) {
    Argument a = room_.arguments[v];
    a.data = address(v);
    room_.call.push_back(a);
  }
  for (std::int32_t v : step.outputs) {
    Argument a;
    a.data = address(v);
    room_.call.push_back(a);
  }
  return room_.call;
}

void StepRunner::run_sweep(const PlanStep& step) {
  bind(step);
  backend_.run(step.sweep, room_.call, run_);
}

// The steps after the first find their memory already filled.
void StepRunner::run_sweeps(const PlanStep& first) {
  const std::uint32_t number = run_.step;
  std::vector<SweepCall> calls;
  for (std::size_t k = 0; k < first.together; ++k) {
    const PlanStep& step = (&first)[k];
    run_.step = number + static_cast<std::uint32_t>(k);
    bind(step);
    calls.push_back({step.sweep, room_.call, run_.step});
  }
  backend_.run_together(calls, run_);
  run_.step = number;
}

View StepRunner::view(std::int32_t v) const {
  const Value& x = value(v);
  const std::int32_t b = plan_.graph.base(v);
  View out;
  out.dtype = x.dtype;
  out.shape = x.shape;
  out.strides = strides_of(x);
  out.room = x.room;
  auto* data = static_cast<std::byte*>(address(b));
  out.data = data ? data + (x.is_view() ? x.offset : 0) * static_cast<std::int64_t>(size_of(x.dtype)) : nullptr;
  return out;
}

void StepRunner::run_call(const PlanStep& step) {
  const std::int32_t v = step.outputs[0];
  const NodeExtra* extra = step.node >= 0 ? room_.extras[step.call] : nullptr;
  std::vector<View>&inputs = room_.inputs, &outputs = room_.outputs;
  inputs.clear();
  outputs.clear();
  for (std::int32_t in : step.inputs) inputs.push_back(view(in));
  if (extra && !extra->output_types.empty()) {
    if (outputs_.empty()) outputs_.resize(plan_.graph.values.size());
    const auto given = places_ ? places_->find(v) : Places::const_iterator();
    if (places_ && given != places_->end()) {
      outputs_[v] = given->second;
      for (const BufferPtr& b : outputs_[v]) b.get()->filled_by = {run_.mark, run_.step};
    } else {
      for (const auto& [shape, dtype] : extra->output_types)
        outputs_[v].push_back(fresh(static_cast<std::size_t>(shape.numel()) * size_of(dtype), step.op));
    }
    for (std::size_t k = 0; k < outputs_[v].size(); ++k) {
      const auto& [shape, dtype] = extra->output_types[k];
      outputs.push_back({outputs_[v][k].data(), dtype, shape, contiguous_strides(shape)});
    }
    room_.memory[v] = {outputs_[v][0], 0};
  } else {
    allocate(v);
    outputs.push_back(view(v));
  }
  LibraryCall call;
  call.adds = adds_to_.contains(v);
  call.op = step.op;
  call.attrs = step.attrs;
  call.label = step.label;
  call.inputs = inputs;
  call.outputs = outputs;
  if (extra) call.data = extra->data;
  backend_.run(call, run_);
}

// Strip after strip. Each is a plan of its own whose leaves are rows of the loop's inputs.
void StepRunner::run_strips(const PlanStep& step) {
  const StripLoop& loop = *step.strips;
  for (std::int32_t v : step.outputs) allocate(v);
  auto& bodies = bodies_[&loop];
  if (bodies.empty()) {
    for (const StripBody& body : loop.bodies)
      bodies.push_back(std::make_unique<StepRunner>(body.plan, body.trace.nodes, Origins::none));
  }
  std::int64_t row = 0;
  for (std::int64_t strip = 0; strip < loop.strips; ++strip) {
    const StripBody& body = loop.body(strip);
    StepRunner& runner = *bodies[static_cast<std::size_t>(&body - loop.bodies.data())];
    runner.run_ = run_;  // one step of the run, whatever happens inside
    runner.run_.first_row = row;
    bind_strip(runner, step, strip, row);
    for (const PlanStep& inner : body.plan.steps) {
      check_stop();
      runner.compute(inner);
      runner.release_after(inner);
    }
    row += body.rows;
  }
  for (std::size_t b = 0; b < bodies.size(); ++b) {  // nothing is kept from the loop's memory
    for (std::int32_t v : loop.bodies[b].inputs) {
      if (v >= 0) bodies[b]->unbind_memory(v);
    }
    bodies[b]->slices_.clear();
    bodies[b]->run_ = {};
  }
}

void StepRunner::bind_strip(StepRunner& runner, const PlanStep& step, std::int64_t strip, std::int64_t first_row) {
  const StripLoop& loop = *step.strips;
  const StripBody& body = loop.body(strip);
  for (std::size_t k = 0; k < loop.inputs.size(); ++k) {
    const StripInput& in = loop.inputs[k];
    const std::int32_t to = body.inputs[k], from = step.inputs[k];
    if (to < 0) continue;
    if (in.kind == StripInput::Kind::memory) {
      Storage s = storage_of(from);
      s.offset += first_row * in.row_stride;
      runner.bind_memory(to, s);
      continue;
    }
    Argument a = room_.arguments[from];
    if (in.kind == StripInput::Kind::row_numbers) {
      a = {};
      a.integer = first_row;
      a.step = 1;
    }
    if (in.kind == StripInput::Kind::ramp) {
      a.integer += (in.first + first_row * in.row_stride) * a.step;
      a.step *= in.stride;
    }
    if (in.kind == StripInput::Kind::random) a.integer += in.first + first_row * in.row_stride;
    runner.room_.arguments[to] = a;
  }
  for (std::size_t k = 0; k < loop.outputs.size(); ++k) {
    const StripOutput& out = loop.outputs[k];
    const std::int64_t before = out.kind == StripOutput::Kind::rows      ? first_row
                                : out.kind == StripOutput::Kind::partial ? strip
                                                                         : 0;
    const Memory& whole = room_.memory[step.outputs[k]];
    runner.slices_[body.outputs[k]] = {whole.buffer, whole.offset + before * out.elements};
    const bool adds = adds_to_.contains(step.outputs[k]);  // this loop is itself the work on a strip
    if (adds || (out.kind == StripOutput::Kind::sum && strip > 0)) {
      runner.adds_to_.insert(body.outputs[k]);
    } else {
      runner.adds_to_.erase(body.outputs[k]);
    }
  }
}

Storage StepRunner::storage(std::int32_t i) const { return storage_of(plan_.graph.of_node[i]); }

Storage StepRunner::storage_of(std::int32_t v) const {
  const Value& x = value(v);
  const std::int32_t b = plan_.graph.base(v);
  Storage s;
  if (x.op == Op::output || value(b).op == Op::output) {
    const Value& o = x.op == Op::output ? x : value(b);
    s.buffer = outputs_[o.inputs[0]][static_cast<std::size_t>(o.attrs.i[0])];
    s.offset = x.is_view() ? x.offset : 0;
  } else {
    s.buffer = room_.memory[b].buffer;
    s.offset = room_.memory[b].offset + (x.is_view() ? x.offset : 0);
  }
  s.strides = strides_of(x);
  return s;
}

void StepRunner::release_after(const PlanStep& step) {
  for (std::int32_t v : step.release) {
    room_.memory[v] = {};
    if (static_cast<std::size_t>(v) < outputs_.size()) outputs_[v].clear();
  }
}

}  // namespace ebb
