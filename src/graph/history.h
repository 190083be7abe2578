#pragma once
#include "graph/node.h"

namespace ebb {

// Nested gradient transforms. Depth d (from 1) owns bit d of Node::history while it is open; bit 0 belongs to
// variables.
int open_transform();  // the depth; throws when more than 30 are nested
void close_transform();
// The bits somebody can still differentiate by: variables and the calling thread's open transforms.
std::uint32_t active_history();
// Those that some thread can still differentiate by: a node may be evaluated by another thread than the one that
// differentiates it.
std::uint32_t history_in_use();

// Would something made of this tensor now be differentiated?
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

// The id the next node will get: nodes made from now on have at least this one.
std::uint64_t next_node_id();

}  // namespace ebb
