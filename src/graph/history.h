// SPDX-License-Identifier: MIT
#pragma once
#include "graph/node.h"

namespace ebb {

// Nested gradient transforms. Depth d (from 1) owns bit d of Node::history while it is open; bit 0 belongs to
// variables.
int open_transform();  // the depth; throws when more than 30 are nested
void close_transform();
// The bits that can still be differentiated by: variables and the calling thread's open transforms.
std::uint32_t active_history();
// The bits that any thread can still differentiate by: the thread that evaluates a node may not be the one that
// differentiates it.
std::uint32_t history_in_use();

// Would a result computed from this tensor now need a gradient?
bool carries_history(const Tensor& t);

// Within its scope new nodes carry history, even inside a NoHistory scope (a checkpoint's second run needs it).
class WithHistory {
 public:
  WithHistory();
  ~WithHistory();
  WithHistory(const WithHistory&) = delete;

 private:
  bool before_;
};

// The next node's id: nodes made from now on have at least this id.
std::uint64_t next_node_id();

}  // namespace ebb
