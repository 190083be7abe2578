// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "schedule/values.h"

namespace ebb {

// How the values of a graph are grouped into sweeps.
//
// A group has an iteration space: a set of axes with sizes. Every dimension of a member maps to an axis, or is free
// (the member has that size there but does not vary), or has size 1. The axes a member varies over are its signature,
// and a sweep supports just three: none (scalar), `rows` (one number per row) and all axes (full). Results of
// reductions over everything or over the rows are known only after the last row ("post"): they may feed only further
// post values.
//
// Groups have levels: a value that reads another from memory is on a higher level. Groups on the same level never
// depend on each other, so joining them cannot create a cycle.
struct SweepGroup {
  static constexpr std::uint32_t kUndecided = ~0u;
  int level = 0;
  std::vector<std::int64_t> axes;         // sizes
  std::uint32_t rows = kUndecided;        // the signature of row values; the other axes are the columns
  std::vector<std::uint32_t> signatures;  // those in use, besides none
  std::vector<std::int32_t> members;      // values in order
  std::uint32_t all() const { return (1u << axes.size()) - 1; }
};

enum class Post : std::uint8_t { no, scalar, column };

inline constexpr std::int8_t kUnit = -1;  // a dimension of size 1
inline constexpr std::int8_t kFree = -2;  // a dimension along which the value is broadcast
using AxisMap = std::array<std::int8_t, Shape::kMaxRank>;

// The place given to a value.
struct Placement {
  int group = -1;  // -1: not in a sweep (leaf, view, library call)
  int level = 0;   // of its group; of a library call: when it runs; of a leaf: 0
  AxisMap map{};
  std::uint32_t varies = 0;
  AxisMap operand_map{};    // reduce and pick: the map of their first input
  std::uint32_t reads = 0;  // reduce: the axes that input varies over
  Post post = Post::no;
  bool in_memory = false;  // a sweep must write it (library results and leaves are in memory anyway)
};

struct Fusion {
  std::vector<SweepGroup> groups;  // some are empty after joining
  std::vector<Placement> places;   // one per value
};

// Decides which reductions are over the columns of a sweep, and which over its rows.
enum class Reductions : std::uint8_t {
  by_dimension,  // over the columns, unless they are over the first dimensions
  by_memory,     // likewise, but with a large view's dimensions in the order of its memory
  beside,        // also over the columns where the first dimensions have few numbers
};

// May compute values twice where that keeps them out of memory: the graph then changes. How much depends on the
// device's cost of a special function, and the choice of rows on whether it reduces rows stored side by side in memory
// as fast as others; see Backend.
Fusion fuse(ValueGraph& graph, int bytes_of_a_function = 0, Reductions reductions = Reductions::by_dimension);

// The map of value `v` (a member, or a view that a sweep can follow) as seen by a member of the same group.
AxisMap seen_map(const ValueGraph& graph, const Fusion& fusion, std::int32_t v);

}  // namespace ebb
