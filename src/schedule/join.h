// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "schedule/fuse.h"
#include "schedule/schedule_model.h"

// Steps that follow once every value has a group.
namespace ebb {

// Moves the members of `other` to `into`; their axis a becomes axis where[a] there.
void join_groups(Fusion& f, int into, int other, const std::vector<std::int8_t>& where);

// Do reductions of rows meet reductions of so many columns that a device which keeps a row on chip has no room left for
// their sums, or of so few that a row is a small part of what its threads read at a time? Reading the same memory twice
// is then faster.
inline bool crowds(Reductions reductions, bool of_rows, bool of_columns, std::int64_t columns, std::int64_t elements) {
  return reductions == Reductions::by_memory && of_rows && of_columns &&
         (columns > kScheduleModel.most_columns_beside_rows ||
          (columns < kScheduleModel.fewest_columns_beside_rows && elements >= kScheduleModel.many_short_rows));
}
// Does a group have reductions of rows, or of columns?
bool reduces(const ValueGraph& g, const Fusion& f, const SweepGroup& group, Post post);

// Sweeps of one level that read the same memory over the same space become one, so that it is read once.
void join_neighbours(const ValueGraph& g, Fusion& f, Reductions reductions);

// Marks what is read outside its own sweep: it must be written.
void mark_memory(const ValueGraph& g, Fusion& f);

}  // namespace ebb
