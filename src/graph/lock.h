// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "graph/node.h"

namespace ebb {

// Guards what changes in a node after construction (its inputs, its memory, the marks of walks). The graph is guarded
// in parts: a node belongs to the part of the thread that made it, so threads that build and evaluate their own graphs
// never wait for each other. The lock covers walks and changes, never computing: while it is held, no node is
// evaluated, no rule is called and nothing is freed.
//
// A walk begins with the parts of the nodes it starts from. It calls holds() before reading a node's inputs or marks;
// if that returns false it gives up, calls widen() and starts again:
//
//   GraphLock lock(roots);
//   while (!walk(lock)) lock.widen();
//
// No lock is needed for what is fixed when a node is made, and for the storage of an evaluated node.
class GraphLock {
 public:
  explicit GraphLock(const Node* start) : parts_(bit(*start)) { lock(); }
  explicit GraphLock(std::span<Node* const> start);
  explicit GraphLock(std::uint64_t parts) : parts_(parts) { lock(); }
  ~GraphLock() { unlock(); }
  GraphLock(const GraphLock&) = delete;

  // Is this node's part held? If not, widen() will take it.
  bool holds(const Node& node) {
    wanted_ |= bit(node);
    return (parts_ & bit(node)) != 0;
  }
  bool has(const Node& node) const { return (parts_ & bit(node)) != 0; }  // without requesting it
  // Releases the lock and takes it again with the requested parts added.
  void widen();

  std::uint64_t parts() const { return parts_; }
  void lock();
  void unlock();

  static std::uint64_t bit(const Node& node) { return std::uint64_t{1} << node.part; }
  // The part of nodes made by this thread.
  static std::uint8_t own_part();

 private:
  std::uint64_t parts_;
  std::uint64_t wanted_ = 0;
  bool locked_ = false;
};

// Input k of a node; undefined if the node no longer has it.
Tensor input_of(const Tensor& t, std::size_t k);

// Nodes to be evaluated together, referenced without ownership: a node that is destroyed removes itself from the
// list.
class Companions {
 public:
  // Adds nodes that have no such list yet.
  // The first is the loss whose gradients the others are.
  static void make(std::span<const Tensor> tensors);
  std::vector<Tensor> alive();
  Tensor loss();  // undefined if nobody holds it
  void leave(const Node& node);

 private:
  std::mutex mutex_;
  std::vector<Node*> nodes_;  // null where a node has been destroyed
  bool has_loss_ = false;     // and it was neither evaluated nor in a list before
};

}  // namespace ebb
