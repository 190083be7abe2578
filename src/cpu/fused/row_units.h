// SPDX-License-Identifier: MIT
#pragma once
#include "backend/call.h"
#include "calls/linear_cross_entropy.h"

namespace ebb::cpu {

// The cotangents of the losses of units [first, first + count). `losses` are those of all rows, [N]; `further` are the
// call's further inputs, of all units.
Tensor ask_for_cotangents(const RowUnits& units, std::int64_t first, std::int64_t count, const View& losses,
                          std::span<const View> further);

}  // namespace ebb::cpu
