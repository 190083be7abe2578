// SPDX-License-Identifier: MIT
#include "graph/lock.h"

#include <array>
#include <atomic>
#include <bit>
#include <mutex>

#include "core/host_lock.h"
#include "core/spin.h"
#include "graph/formula.h"

namespace ebb {
namespace {

constexpr int kParts = 32;

// The lock is held for a microsecond or so: it is worth spinning for about that long before going to sleep. A thread
// that sleeps releases the host's lock first.
class alignas(64) Part {
 public:
  void lock() {
    for (int i = 0; i < 200; ++i) {
      if (mutex_.try_lock()) return;
      pause_briefly();
    }
    OutsideHostLock waiting;
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

std::array<Part, kParts>& all_parts() {
  static auto* all = new std::array<Part, kParts>;  // never destroyed: tensors may outlive static destruction
  return *all;
}

// Adds a reference, unless the last one is already gone.
bool retain_if_alive(Node* node) {
  std::uint32_t refs = node->refs.load(std::memory_order_relaxed);
  while (refs != 0) {
    if (node->refs.compare_exchange_weak(refs, refs + 1, std::memory_order_acq_rel, std::memory_order_relaxed))
      return true;
  }
  return false;
}

}  // namespace

std::uint8_t GraphLock::own_part() {
  static constinit std::atomic<unsigned> next{0};
  constinit thread_local std::uint8_t part = kParts;  // none yet
  if (part == kParts) part = static_cast<std::uint8_t>(next.fetch_add(1, std::memory_order_relaxed) % kParts);
  return part;
}

GraphLock::GraphLock(std::span<Node* const> start) : parts_(0) {
  for (const Node* n : start) parts_ |= bit(*n);
  lock();
}

void GraphLock::lock() {
  for (std::uint64_t rest = parts_; rest; rest &= rest - 1)
    all_parts()[std::countr_zero(rest)].lock();  // always in order
  locked_ = true;
}

void GraphLock::unlock() {
  if (!locked_) return;
  for (std::uint64_t rest = parts_; rest; rest &= rest - 1) all_parts()[std::countr_zero(rest)].unlock();
  locked_ = false;
}

void GraphLock::widen() {
  unlock();
  parts_ |= wanted_;
  lock();
}

Tensor input_of(const Tensor& t, std::size_t k) {
  if (t.node()->op == Op::formula) expand(t);
  GraphLock lock(t.node());
  return k < t.node()->inputs.size() ? Tensor(t.node()->inputs[k]) : Tensor();
}

void Companions::make(std::span<const Tensor> tensors) {
  std::vector<Node*> nodes;
  nodes.reserve(tensors.size());
  for (const Tensor& t : tensors) {
    if (!t.evaluated() && info(t.node()->op).cls != OpClass::leaf) nodes.push_back(t.node());
  }
  if (nodes.empty()) return;
  const auto list = std::make_shared<Companions>();
  list->nodes_.reserve(nodes.size());  // a node registered by a list must be in it
  GraphLock lock(nodes);
  for (Node* n : nodes) {
    if (n->extra && n->extra->companions) continue;  // it already has a list: evaluating it evaluates those
    std::lock_guard guard(list->mutex_);
    n->more().companions = list;
    n->extra->companion_place = list->nodes_.size();
    n->watched = true;
    list->has_loss_ |= n == tensors[0].node();
    list->nodes_.push_back(n);
  }
}

std::vector<Tensor> Companions::alive() {
  std::vector<Tensor> owned;
  std::lock_guard guard(mutex_);
  owned.reserve(nodes_.size());
  for (Node* n : nodes_) {
    if (n && retain_if_alive(n)) owned.push_back(Tensor::adopt(n));
  }
  return owned;
}

Tensor Companions::loss() {
  std::lock_guard guard(mutex_);
  return has_loss_ && nodes_[0] && retain_if_alive(nodes_[0]) ? Tensor::adopt(nodes_[0]) : Tensor();
}

void Companions::leave(const Node& node) {
  std::lock_guard guard(mutex_);
  nodes_[node.extra->companion_place] = nullptr;
}

}  // namespace ebb
