#include "graph/history.h"
#include "schedule/step_runner.h"

namespace ebb {
namespace {

// Runs a plan for a traced graph and marks its nodes evaluated as their memory is filled.
class GraphRun {
 public:
  GraphRun(const Plan& plan, const Trace& trace) : p_(plan), t_(trace), steps_(plan, trace.nodes) {}

  ~GraphRun() {
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
    for (std::int32_t i : p_.attach_first) {
      attach(i);
      let_go();
    }
    for (const PlanStep& step : p_.steps) {
      steps_.run(step);
      for (std::int32_t i : step.attach) {
        attach(i);
        let_go();
      }
      if (step.node >= 0) let_go();
      steps_.release_after(step);
    }
  }

 private:
  // Nodes are let go in the order they were taken hold of.
  void let_go() { release(held_[next_++]); }

  void attach(std::int32_t i) {
    Node* n = t_.nodes[i];
    n->storage = steps_.storage(i);
    if (n->extra && !n->extra->output_types.empty()) keep_outputs(*n->extra, i);
    n->evaluated.store(true, std::memory_order_release);
    // What it was made of stays only where somebody may still differentiate it.
    // A variable starts a history; what it was computed from is not part of it.
    if (n->op == Op::variable || (n->history & active_history()) == 0 || n->consumed) forget_inputs(n);
  }

  // A call's other outputs may be asked for later: they stay with the call, which lives as long as somebody can ask.
  void keep_outputs(NodeExtra& extra, std::int32_t i) {
    const std::span<const BufferPtr> all = steps_.outputs(i);
    for (std::size_t k = 0; k < extra.output_types.size(); ++k)
      extra.outputs.push_back({all[k], 0, contiguous_strides(extra.output_types[k].first)});
  }

  const Plan& p_;
  const Trace& t_;
  StepRunner steps_;
  std::vector<Node*> held_;
  std::size_t next_ = 0;
};

}  // namespace

void run_plan(const Plan& plan, const Trace& trace) { GraphRun(plan, trace).run(); }

}  // namespace ebb
