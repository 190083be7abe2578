// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

// The order in which every backend adds the numbers of a sum, and with it the bits of the result.
//
// A line of n numbers, T(n): the reduction of a row, and the total of a sweep without rows (whose line is all elements
//   in the order of the sweep's axes). Blocks of kBlock numbers; in a block kSumLanes lanes in the type of the numbers,
//   lane l takes the numbers l, l + kSumLanes, ...; the lanes are added in order in f64. Blocks are added in order in
//   groups of kBlocksPerGroup, groups in order, in f64. It depends only on n.
// The total of a sweep with rows: T(columns) of each row, or the row's number itself.
// Rows are added in order in parts of rows_per_part(rows, columns), parts in order, in
// f64.
// The sums of columns: in parts of rows as above; in a part kRowsPerRun rows at a time are added in the type of the
//   numbers, runs and parts in order in f64.
//
// The result is rounded once. Products use the same order, and so do sums of products, whose products are rounded
// first; integers wrap, and maxima and minima are the same in any order.
//
// Nothing here depends on threads, on strides within a row, on what else is in the sweep, or on whether steps were
// joined to loops. Which axes are the rows of a sweep does depend on what is fused: a sum over an axis is a line where
// that axis is the sweep's columns, and a sum of columns where it is the sweep's rows.
namespace ebb {

inline constexpr std::size_t kSumLanes = 16;
inline constexpr std::size_t kBlock = 1024;
inline constexpr std::size_t kBlocksPerGroup = 64;
inline constexpr int kRowsPerRun = 32;

// Rows that go through a block of elements together; at least one.
constexpr std::int64_t rows_per_block(std::int64_t rows, std::int64_t columns) {
  constexpr auto block = static_cast<std::int64_t>(kBlock);
  return std::clamp<std::int64_t>(block / std::max<std::int64_t>(columns, 1), 1, std::max<std::int64_t>(rows, 1));
}

// Rows added before the next part begins: about 16,384 elements, but not more than 64 parts. Whole blocks of
// rows.
constexpr std::int64_t rows_per_part(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t elements = 1 << 14, most_parts = 64;
  const std::int64_t together = rows_per_block(rows, columns), blocks = (rows + together - 1) / together;
  const std::int64_t by_size = elements / std::max<std::int64_t>(together * columns, 1);
  return together * std::max({std::int64_t{1}, by_size, (blocks + most_parts - 1) / most_parts});
}

}  // namespace ebb
