// SPDX-License-Identifier: MIT
#pragma once
#include "schedule/values.h"

namespace ebb {

// Turns products of halves whose only reader adds one row to all of theirs into calls that add it before rounding:
// where a device's products can do that, it saves reading and writing the result once.
void add_rows_to_products(ValueGraph& graph);

}  // namespace ebb
