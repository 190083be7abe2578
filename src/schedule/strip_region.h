// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "schedule/strips.h"

namespace ebb {

// Values that can be computed strip by strip, grown from one product.
struct StripRegion {
  enum class Role : std::uint8_t { outside, by_row, summed };
  std::int64_t count = 0;       // of rows
  std::vector<Role> role;       // of each value of the graph
  std::vector<RowDims> rows;    // of those by row
  std::vector<char> wide;       // large values, and views of such: never in memory as a whole if all goes well
  std::int64_t widest_row = 0;  // bytes

  // Sums of exponentials over the rows, shifted by the rows' own maximum, Σ exp(x − m), m = max x. Each strip takes its
  // own maximum, m_k, and both are known after one round, as in an online softmax:
  //   Σ exp(x − m) = Σ_k exp(m_k − m)·Σ exp(x_k − m_k)
  struct Shift {
    std::int32_t maximum = -1;
    std::int32_t value = -1;  // the value subtracted: the maximum, or another number where that is infinite
  };
  std::map<std::int32_t, Shift> shifts;  // by the sum
  bool is_shift(std::int32_t maximum) const;
  // The values a strip reads to compute v, a member.
  std::vector<std::int32_t> reads(const ValueGraph& graph, std::int32_t v) const;

  // A loop over all strips. A value that needs a number of the whole batch belongs to a later round than the inputs of
  // that number, and wide values of earlier rounds are recomputed there.
  struct Round {
    std::vector<std::int32_t> members;  // inputs first; sums included
    std::vector<std::int32_t> outputs;  // members read outside the round; no views
  };
  std::vector<Round> rounds;
  // Members `place` along the columns, computed by comparing each element's column with the index.
  std::set<std::int32_t> compared;
  int products_again = 0;
  std::int64_t saved = 0;  // bytes of the products that are not held

  // Rows of v's inputs; v is a member.
  std::vector<RowDims> inputs(const ValueGraph& graph, std::int32_t v) const;
};

// The region around the product `seed`, whose result has these rows. With `through_products`, products of its values
// with other matrices belong to it with all that follows (a network of several layers); otherwise it ends with them.
std::optional<StripRegion> find_region(const ValueGraph& graph, const StripModel& model, std::int32_t seed,
                                       RowDims rows, bool through_products);

// pick(x − m) is pick(x) − m, to the bit, where m is the same for all that is picked from, such as the maximum of a
// row: x can then be picked from before m is known.
void pick_before_differences(ValueGraph& graph);

// Both directions have the same targets, and so share one value with ones at their places. Gives each reader its own,
// which then has the rows of that direction. `seed` moves with the values.
ValueGraph with_places_per_reader(ValueGraph graph, std::int32_t& seed);

// A graph in which numbers across the rows that the region around `seed` waits for (sums along the columns, as a loss
// of pairs in both directions has them) come from a second product, to be computed in strips of columns. Empty: there
// are no such numbers.
struct Apart {
  ValueGraph graph;
  std::int32_t seed = -1, second = -1;  // the two products
  int products_again = 0;
};
std::optional<Apart> with_directions_apart(const ValueGraph& graph, const StripModel& model, std::int32_t seed,
                                           RowDims rows);

}  // namespace ebb
