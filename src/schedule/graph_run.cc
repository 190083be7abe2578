// SPDX-License-Identifier: MIT
#include "schedule/graph_run.h"

#include <atomic>

#include "graph/history.h"

namespace ebb {
namespace {

std::atomic<std::uint32_t> ended_evaluations{0}, waiting{0};

}  // namespace

Claim::Claim(std::span<const Tensor> roots, std::uint64_t parts) : roots_(roots), parts_(parts) {
  for (const Tensor& t : roots_) t.node()->computed_by = this_evaluator();
}

Claim::~Claim() {
  if (held_) {
    GraphLock lock(parts_);
    let_go_under_lock();
  }
  ended_evaluations.fetch_add(1);
  if (waiting.load() != 0) ended_evaluations.notify_all();
}

void Claim::let_go_under_lock() {
  for (const Tensor& t : roots_) t.node()->computed_by = nullptr;
  held_ = false;
}

std::uint32_t Claim::ended() { return ended_evaluations.load(std::memory_order_acquire); }
void Claim::wait_for_an_end(std::uint32_t before) {
  waiting.fetch_add(1);  // before checking: an evaluation that ends afterwards sees the waiter
  ended_evaluations.wait(before);
  waiting.fetch_sub(1);
}

GraphRun::GraphRun(std::shared_ptr<const Plan> plan, std::span<Node* const> traced, std::uint64_t parts, Room& room)
    : plan_(std::move(plan)),
      parts_(parts),
      nodes_(traced),
      steps_(*plan_, nodes_, room.steps),
      held_(room.held),
      forgotten_(room.forgotten) {
  // The marked nodes must outlive their readers, which may be destroyed as soon as they are evaluated.
  for (std::int32_t i : plan_->attach_first) held_.emplace_back(nodes_[i]);
  for (const PlanStep& step : plan_->steps) {
    for (std::int32_t i : step.attach) held_.emplace_back(nodes_[i]);
    if (step.node >= 0) held_.emplace_back(nodes_[step.node]);
  }
}

GraphRun::~GraphRun() {
  held_.clear();
  forgotten_.clear();
}

void GraphRun::run(Claim& claim) {
  const auto let_go = [this](std::size_t count) {
    forgotten_.clear();
    for (std::size_t k = 0; k < count; ++k) held_[next_++] = Tensor();
  };
  // Nothing may be released under the lock, not even because the list cannot grow.
  const auto make_room = [this](std::size_t count) { forgotten_.reserve(count); };
  const StepRunner::Running running(steps_);
  const std::vector<PlanStep>& steps = plan_->steps;
  if (!plan_->attach_first.empty() || steps.empty()) {
    make_room(plan_->attach_first.size());
    {
      GraphLock lock(parts_);
      for (std::int32_t i : plan_->attach_first) attach(i);
      if (steps.empty()) claim.let_go_under_lock();
    }
    let_go(plan_->attach_first.size());
  }
  for (const PlanStep& step : steps) {
    steps_.run(step);
    const bool last = &step == &steps.back();
    if (!step.attach.empty() || last) {
      make_room(step.attach.size());
      GraphLock lock(parts_);
      for (std::int32_t i : step.attach) attach(i);
      if (last) claim.let_go_under_lock();
    }
    let_go(step.attach.size() + (step.node >= 0 ? 1 : 0));
    steps_.release_after(step);
  }
}

void GraphRun::attach(std::int32_t i) {
  Node* n = nodes_[i];
  if (n->evaluated.load(std::memory_order_relaxed)) return;  // another evaluation was faster
  if (n->extra && !n->extra->output_types.empty()) keep_outputs(*n->extra, i);
  attach(n, steps_.storage(i), forgotten_);
}

void GraphRun::attach(Node* n, Storage storage, std::vector<Forgotten>& forgotten) {
  if (n->homeless) n->device = storage.buffer.device();
  n->storage = std::move(storage);
  n->evaluated.store(true, std::memory_order_release);
  // Its inputs are kept only if it may still be differentiated. A variable starts a history; what it was computed from
  // is not part of it.
  if (n->op == Op::variable || (n->history & history_in_use()) == 0 || n->consumed)
    forgotten.push_back(forget_inputs(n));
}

// A call's other outputs may be requested later: they stay with the call, which lives as long as they can be.
void GraphRun::keep_outputs(NodeExtra& extra, std::int32_t i) const {
  const std::span<const BufferPtr> all = steps_.outputs(i);
  std::vector<Storage> outputs;  // all of them or, where memory runs out, none
  for (std::size_t k = 0; k < extra.output_types.size(); ++k)
    outputs.push_back({all[k], 0, contiguous_strides(extra.output_types[k].first)});
  extra.outputs = std::move(outputs);
}

}  // namespace ebb
