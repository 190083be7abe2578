// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

// Columns from `first` on of every row. Column c of it lies c·column elements from the row's beginning or, if `lines`
// is set, c / inner · axis + c % inner · column. Without data they are zeros.
struct JoinPart {
  const char* data;
  i64 first, row, column, axis, lines;
};
EBB_ARGS(6, JoinPart);

// A dense matrix, made of parts of its columns.
template <int most>
struct JoinArgs {
  JoinPart of[most];
  char* out;
  i64 n, columns, inner, count;
  i64 aligned;                 // out begins at 16 bytes
  u32 by_columns, of_columns;  // factor and shift: see core/divisor.h
  u32 by_inner, of_inner;
};
EBB_ARGS(6 * 2 + 8, JoinArgs<2>);

constexpr int kMostJoined = 8;

}  // namespace ebb::cuda
