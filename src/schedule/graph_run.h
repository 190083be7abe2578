// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "schedule/step_runner.h"

namespace ebb {

// Nodes claimed by one evaluation: others that need them wait for it to end instead of computing them too.
class Claim {
 public:
  // Call under the lock; `roots` must outlive the claim.
  Claim(std::span<const Tensor> roots, std::uint64_t parts);
  ~Claim();
  Claim(const Claim&) = delete;
  void let_go_under_lock();

  // Waits until some evaluation has ended since ended() returned `before`.
  static std::uint32_t ended();
  static void wait_for_an_end(std::uint32_t before);

 private:
  std::span<const Tensor> roots_;
  std::uint64_t parts_;
  bool held_ = true;
};

// Runs a plan for a traced graph and marks its nodes evaluated as their memory is filled.
class GraphRun {
 public:
  // Memory passed from one run to the next for reuse.
  struct Room {
    StepRunner::Room steps;
    std::vector<Tensor> held;
    std::vector<Forgotten> forgotten;
  };
  // Construct it while the traced nodes are alive: under the lock, or with references to them. Afterwards it holds
  // those it needs. Their list and the room must outlive it.
  GraphRun(std::shared_ptr<const Plan> plan, std::span<Node* const> traced, std::uint64_t parts, Room& room);
  ~GraphRun();
  GraphRun(const GraphRun&) = delete;
  void run(Claim& claim);  // without the lock

  // Stores the node's elements there from now on. Under its lock; `forgotten` is to be released after unlocking.
  static void attach(Node* node, Storage storage, std::vector<Forgotten>& forgotten);

 private:
  void attach(std::int32_t i);
  void keep_outputs(NodeExtra& extra, std::int32_t i) const;

  const std::shared_ptr<const Plan> plan_;
  const std::uint64_t parts_;
  const std::span<Node* const> nodes_;  // of the trace, by index; only those in held_ are valid
  StepRunner steps_;
  std::vector<Tensor>& held_;  // in the order they are released
  std::size_t next_ = 0;
  std::vector<Forgotten>& forgotten_;
};

}  // namespace ebb
