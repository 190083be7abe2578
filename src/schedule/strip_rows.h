// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/values.h"

namespace ebb {

// The dimensions [first, last) of a value that together are the rows of a strip loop: [B, T, V] may have B·T rows.
// Dimensions of size 1 at either end are left out, so that equal rows compare equal. None: the value is the same for
// every strip.
struct RowDims {
  int first = 0, last = 0;
  bool none() const { return first == last; }
  bool has(int d) const { return first <= d && d < last; }
  bool operator==(const RowDims&) const = default;
};

// The fate of an input's rows in the result.
struct RowsOfResult {
  enum class Kind : std::uint8_t {
    lost,    // rows are combined: the result needs all of them
    rows,    // row i of the result is computed from row i
    summed,  // a sum (maximum...) over the rows: strips contribute parts of it
  } kind = Kind::lost;
  RowDims rows = {};
};

// Rows of v's result, given those of its k-th input.
RowsOfResult rows_of_result(const ValueGraph& graph, std::int32_t v, std::size_t k, RowDims rows);

// Rows of v's inputs, given those of its result. Empty: v is not computed row by row.
std::optional<std::vector<RowDims>> rows_of_inputs(const ValueGraph& graph, std::int32_t v, RowDims rows);

// The same for a sum over rows, where input k has these.
std::optional<std::vector<RowDims>> rows_of_summed_inputs(const ValueGraph& graph, std::int32_t v, std::size_t k,
                                                          RowDims rows);

// Does `place` put its numbers along the rows? Each strip then takes those that fall into it.
bool places_across(const Value& v, RowDims rows);

RowDims trimmed(const Shape& shape, RowDims rows);
std::int64_t count_rows(const Shape& shape, RowDims rows);

// The shape of a strip: one dimension of `count` rows instead of the rows' own.
Shape strip_shape(const Shape& shape, RowDims rows, std::int64_t count);
// Index in a strip of the whole's dimension d.
inline int strip_dim(RowDims rows, int d) {
  return rows.none() || d <= rows.first ? d : d < rows.last ? rows.first : d - (rows.last - rows.first - 1);
}
// The parameters of v's operation on strips, where its first input has rows `in`, and the result `out`.
Attrs strip_attrs(const Value& v, RowDims in, RowDims out);

}  // namespace ebb
