// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "schedule/fuse.h"

// What happens to groups once every value has one.
namespace ebb {

// The members of `other` become members of `into`; axis a of theirs is axis where[a] there.
void join_groups(Fusion& f, int into, int other, const std::vector<std::int8_t>& where);

// Sweeps of one level that read the same memory over the same space become one, so that it is read once.
void join_neighbours(const ValueGraph& g, Fusion& f, Reductions reductions);

// What somebody outside its sweep reads must be written.
void mark_memory(const ValueGraph& g, Fusion& f);

}  // namespace ebb
