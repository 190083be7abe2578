// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "backend/backend.h"
#include "schedule/fuse.h"

namespace ebb {

// Gives temporary matrices between sweeps and products room after each row where the device's products benefit
// (Backend::row_step): rows of 50,257 halves would begin at arbitrary addresses, and a product would copy all of them
// to aligned ones. Sweeps see such rows as strides and leave the room alone; products may write there. Results, and
// what other calls read, stay dense.
void make_room_behind_rows(ValueGraph& graph, const Fusion& fusion, const std::vector<char>& live,
                           const Backend& backend);

}  // namespace ebb
