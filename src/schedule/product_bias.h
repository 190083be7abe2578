// SPDX-License-Identifier: MIT
#pragma once
#include "schedule/values.h"

namespace ebb {

// Products of halves whose only reader adds one row to all of theirs become calls that add it before they round: where
// a device's products can do that, it saves reading and writing the result once more.
void add_rows_to_products(ValueGraph& graph);

}  // namespace ebb
