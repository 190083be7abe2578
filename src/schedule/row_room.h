// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "backend/backend.h"
#include "schedule/fuse.h"

namespace ebb {

// Temporary matrices between sweeps and products get room behind each row where the device's products want it
// (Backend::row_step): rows of 50,257 halves begin anywhere otherwise, and a product would copy all of them to where
// they do not. Sweeps see such rows as strides and leave the room alone; products may write there. Results, and what
// other calls read, lie densely as before.
void make_room_behind_rows(ValueGraph& graph, const Fusion& fusion, const std::vector<char>& live,
                           const Backend& backend);

}  // namespace ebb
