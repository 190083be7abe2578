// SPDX-License-Identifier: MIT
#pragma once
#include "schedule/fuse.h"
#include "sweep/program.h"

namespace ebb {

// A group as a program, and what to bind to its slots: inputs (values in memory or leaves) first, then outputs.
struct LoweredSweep {
  Program program;
  std::vector<std::int32_t> inputs;   // value bound to slot i (a view's base)
  std::vector<std::int32_t> outputs;  // value written through slot inputs.size() + i
};

LoweredSweep lower(const ValueGraph& graph, const Fusion& fusion, int group);

}  // namespace ebb
