// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "schedule/plan.h"
#include "schedule/strip_model.h"
#include "schedule/strip_rows.h"

namespace ebb {

// The part of a loop's input that one strip reads.
struct StripInput {
  enum class Kind : std::uint8_t {
    memory,
    number,
    ramp,
    random,
    row_numbers,  // those of the strip's rows, regardless of the input
  } kind = Kind::memory;
  std::int64_t row_stride = 0;  // elements from one row to the next; 0: every strip reads the same
  // A ramp appears as first + stride·index; random numbers start at number `first`.
  std::int64_t first = 0, stride = 1;
};

// Where a strip's result goes.
struct StripOutput {
  enum class Kind : std::uint8_t {
    rows,     // to its rows of the whole
    partial,  // to its place in a list of one result per strip
    sum,      // a product over rows: added to the sum of the strips before it
  } kind = Kind::rows;
  std::int64_t elements = 0;  // per row or per strip
};

// The work on a strip with so many rows: an ordinary plan whose leaves are the loop's inputs.
struct StripBody {
  std::int64_t rows = 0;
  Trace trace;
  std::vector<Tensor> kept;  // its nodes
  Plan plan;
  std::vector<std::int32_t> inputs, outputs;  // the plan's value for each of the loop's; -1: not read
};

struct StripLoop {
  std::int64_t rows = 0;  // of all strips
  std::int64_t strips = 0;
  std::vector<StripInput> inputs;
  std::vector<StripOutput> outputs;
  std::vector<StripBody> bodies;  // of all strips but the last, and of the last one where that is shorter
  int products_again = 0;         // products that an earlier loop computes, too
  bool tiles = false;             // the rows are columns of a strip

  const StripBody& body(std::int64_t strip) const { return strip + 1 < strips ? bodies.front() : bodies.back(); }
};
using StripLoopPtr = std::shared_ptr<const StripLoop>;

// Finds products that are large and read row by row, and replaces them, and what is computed from them row by row, by
// loops: values then come from those (Value::strips).
std::vector<StripLoopPtr> make_strips(ValueGraph& graph, const StripModel& model, Device device);

}  // namespace ebb
