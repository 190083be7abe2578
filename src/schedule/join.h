// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "schedule/fuse.h"
#include "schedule/schedule_model.h"

// What happens to groups once every value has one.
namespace ebb {

// The members of `other` become members of `into`; axis a of theirs is axis where[a] there.
void join_groups(Fusion& f, int into, int other, const std::vector<std::int8_t>& where);

// Do reductions of rows meet those of so many columns that a device which keeps a row on chip has no room for their
// sums beside it? It reads the same memory in less time twice.
inline bool crowds(Reductions reductions, bool of_rows, bool of_columns, std::int64_t columns) {
  return reductions == Reductions::by_memory && of_rows && of_columns &&
         columns > kScheduleModel.most_columns_beside_rows;
}
// Has a group reductions of rows, or of columns?
bool reduces(const ValueGraph& g, const Fusion& f, const SweepGroup& group, Post post);

// Sweeps of one level that read the same memory over the same space become one, so that it is read once.
void join_neighbours(const ValueGraph& g, Fusion& f, Reductions reductions);

// What somebody outside its sweep reads must be written.
void mark_memory(const ValueGraph& g, Fusion& f);

}  // namespace ebb
