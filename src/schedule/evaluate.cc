// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/format_error.h"
#include "core/host_lock.h"
#include "graph/formula.h"
#include "schedule/fold.h"
#include "schedule/graph_run.h"
#include "schedule/plan_cache.h"
#include "schedule/read.h"
#include "schedule/schedule_model.h"

namespace ebb {
namespace {

std::vector<Tensor> owned(std::span<Node* const> nodes) {
  std::vector<Tensor> tensors;
  tensors.reserve(nodes.size());
  for (Node* n : nodes) tensors.emplace_back(n);
  return tensors;
}

// The tensors to compute: those of the nodes that are not yet evaluated, and their companions. A loss and its gradients
// are one computation: evaluating one computes the others in the same sweeps. All on one device, the first encountered;
// the rest follows afterwards. False: a part of the graph is missing.
bool find_unevaluated(std::span<Node* const> nodes, GraphLock& lock, Device& device, std::vector<Tensor>& roots) {
  std::optional<std::unordered_set<const Node*>> many;  // a training step has thousands of roots
  const auto is_new = [&](const Node& n) {
    if (roots.size() < kScheduleModel.few_roots)
      return std::none_of(roots.begin(), roots.end(), [&](const Tensor& t) { return t.node() == &n; });
    if (!many) {
      many.emplace();
      for (const Tensor& t : roots) many->insert(t.node());
    }
    return many->insert(&n).second;
  };
  bool device_is_known = false;
  const auto add = [&](Tensor t) {
    const Node& n = *t.node();
    if (n.evaluated.load(std::memory_order_acquire)) return;
    if (!n.homeless && !device_is_known) {
      device_is_known = true;
      device = n.device;
    }
    if ((n.homeless || n.device == device) && is_new(n)) roots.push_back(std::move(t));
  };
  for (Node* n : nodes) {
    if (n->evaluated.load(std::memory_order_acquire)) continue;
    if (!lock.holds(*n)) return false;
    add(Tensor(n));
  }
  const std::size_t asked = roots.size();
  std::optional<std::unordered_set<const void*>> seen;  // all gradients of a loss have the same companions
  for (std::size_t i = 0; i < asked; ++i) {
    const auto& extra = roots[i].node()->extra;
    if (!extra || !extra->companions) continue;
    if (!seen) seen.emplace();
    if (!seen->insert(extra->companions.get()).second) continue;
    for (Tensor& t : extra->companions->alive()) {
      if (!lock.holds(*t.node())) return false;
      add(std::move(t));
    }
  }
  return true;
}

// Follows the graph to evaluated nodes, or to what must first be moved between devices.
Traced trace_roots(std::span<Node* const> nodes, GraphLock& lock, std::vector<Tensor>& roots, Trace& t) {
  for (;;) {
    t.device = default_device();
    if (find_unevaluated(nodes, lock, t.device, roots)) {
      const Traced traced = trace(t, roots, lock);
      if (traced != Traced::part_missing) return traced;
    }
    lock.unlock();  // dropped references are released without it
    roots.clear();
    t.clear();
    lock.widen();
  }
}

// Memory that an evaluation leaves to the thread's next one: for a small graph, allocating it costs as much as
// everything else.
struct Room {
  std::vector<Tensor> roots, kept;
  Trace trace;
  GraphRun::Room run;
  // The trace whose formulas had to be expanded, and its nodes; empty if there was none.
  std::vector<Tensor> kept_before;
  std::vector<std::shared_ptr<const Formula>> formulas;
  Trace before;
};
struct Spare {
  Room* room;
  bool closed;  // static destructors may evaluate after the thread's variables are gone
};
constinit thread_local Spare spare{nullptr, false};
struct CloseSpare {
  ~CloseSpare() {
    spare.closed = true;
    delete std::exchange(spare.room, nullptr);
  }
};

class UsedRoom {
 public:
  UsedRoom() : room_(std::exchange(spare.room, nullptr)) {
    if (!room_) room_ = new Room;
  }
  ~UsedRoom() {
    clear();
    clear_before();
    Spare& s = spare;
    if (s.room || s.closed || room_->trace.key.capacity() > kScheduleModel.most_trace_words) {
      delete room_;
      return;
    }
    thread_local CloseSpare close;
    s.room = room_;
  }
  UsedRoom(const UsedRoom&) = delete;
  Room* operator->() const { return room_; }
  Room& operator*() const { return *room_; }
  void clear() {
    room_->kept.clear();
    room_->roots.clear();
    room_->trace.clear();
  }
  void clear_before() {
    room_->kept_before.clear();
    room_->formulas.clear();
    room_->before.clear();
  }

 private:
  Room* room_;
};

void expand_all(std::span<const Tensor> nodes) {
  for (const Tensor& t : nodes) expand(t);
}

// Makes a graph's plan available for its formulas unexpanded. Where a run would need their nodes, they are made
// immediately the next time.
void fold_plan(const Plan& plan, const Trace& after, Room& room) {
  room.before.read_key();
  Folding made = folded(plan, after, room.before);
  if (made.plan) plan_cache().add(room.before.key, std::move(*made.plan));
  if (!made.needs_nodes) return;
  for (const auto& formula : room.formulas) formula->folds.store(false, std::memory_order_relaxed);
}

bool all_evaluated(std::span<Node* const> nodes) {
  return std::all_of(nodes.begin(), nodes.end(),
                     [](const Node* n) { return n->evaluated.load(std::memory_order_acquire); });
}

}  // namespace

void evaluate(std::span<Node* const> nodes) {
  OutsideHostLock computing;
  UsedRoom room;
  while (!all_evaluated(nodes)) {
    room.clear();
    std::vector<Tensor>& roots = room->roots;
    Trace& t = room->trace;
    // In this order: released nodes are destroyed after unlocking.
    std::optional<Claim> claim;
    std::optional<GraphRun> run;
    const std::uint32_t ended_before = Claim::ended();
    GraphLock lock(nodes);
    const Traced traced = trace_roots(nodes, lock, roots, t);
    if (traced != Traced::done) {
      lock.unlock();
      if (traced == Traced::being_computed) Claim::wait_for_an_end(ended_before);
      for (const Tensor& moved : t.moves) move_between_devices(moved);
      continue;
    }
    if (roots.empty()) return;
    std::shared_ptr<const Plan> plan = plan_cache().find(t.key);
    const bool apart = !plan || numbers_are_apart(*plan, t);
    if (t.formulas > 0 && !(plan && apart)) {
      for (Node* n : t.nodes) {
        room->kept_before.emplace_back(n);
        if (is_folded(*n)) room->formulas.push_back(n->formula);
      }
      if (apart && room->before.nodes.empty()) std::swap(room->before, t);
      lock.unlock();
      expand_all(room->kept_before);
      continue;
    }
    claim.emplace(roots, lock.parts());
    const bool folds = !room->before.nodes.empty();
    if (plan && !folds) {
      run.emplace(std::move(plan), t.nodes, lock.parts(), room->run);
    } else {
      for (Node* n : t.nodes) room->kept.emplace_back(n);  // they must stay alive while their plan is made
    }
    lock.unlock();
    if (!run) {
      t.read_key();
      if (!plan) plan = plan_cache().add(t.key, make_plan(t));
      if (folds) fold_plan(*plan, t, *room);
      room.clear_before();
      run.emplace(std::move(plan), t.nodes, lock.parts(), room->run);
      room->kept.clear();
    }
    run->run(*claim);
  }
}

void eval(const std::vector<Tensor>& tensors) {
  std::vector<Node*> nodes;
  for (const Tensor& t : tensors) {
    require(t.defined(), "eval: a tensor has no value (default-constructed or moved from)");
    nodes.push_back(t.node());
  }
  evaluate(nodes);
}

OwnedTrace trace_of(const std::vector<Tensor>& tensors) {
  std::vector<Node*> nodes;
  for (const Tensor& t : tensors) nodes.push_back(t.node());
  for (;;) {
    OwnedTrace found;
    std::vector<Tensor> roots;
    const std::uint32_t ended_before = Claim::ended();
    GraphLock lock(nodes);
    const Traced traced = trace_roots(nodes, lock, roots, found.trace);
    found.nodes = owned(found.trace.nodes);
    lock.unlock();
    if (traced == Traced::done && found.trace.formulas == 0) {
      found.trace.read_key();
      return found;
    }
    expand_all(found.nodes);
    if (traced == Traced::being_computed) Claim::wait_for_an_end(ended_before);
    for (const Tensor& moved : found.trace.moves) move_between_devices(moved);
  }
}

std::string print_schedule(const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors)
    require(t.defined(), "print_schedule: a tensor has no value (default-constructed or moved from)");
  const OwnedTrace t = trace_of(tensors);
  return t.nodes.empty() ? "" : print(make_plan(t.trace));
}

const Tensor& Tensor::eval() const {
  require(defined(), "eval: this Tensor has no value (default-constructed or moved from)");
  if (!evaluated()) evaluate(std::span<Node* const>(&node_, 1));
  return *this;
}

}  // namespace ebb
