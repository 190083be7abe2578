// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "graph/node.h"

namespace ebb {

// Where operations were built, see ebb/origins.h. Stored outside the nodes: every operation makes a node, and this is
// rarely looked at.
struct Origin;
using OriginPtr = std::shared_ptr<const Origin>;

namespace detail {
extern std::atomic<bool> origins_on;
extern std::atomic<std::int64_t> origins_kept;
}  // namespace detail

inline bool origins_on() { return detail::origins_on.load(std::memory_order_relaxed); }
void note_origin(const Node& node);  // records the line that is building it now
void forget_origin_kept(const Node& node) noexcept;
inline void forget_origin(const Node& node) noexcept {  // when it dies
  if (detail::origins_kept.load(std::memory_order_relaxed) != 0) forget_origin_kept(node);
}
OriginPtr origin_of(const Node& node);       // null: not known
std::string place_of(const Origin& origin);  // "train.cc:31"

// Lets a host language name its own line, "train.py:31"; empty where this thread is not running any of its code.
void set_host_origin(std::string (*line)());

}  // namespace ebb
