// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/library/kernels.h"

namespace ebb::cuda {

// Row numbers for an index along an axis into lines stored one after the other, `size` rows each: dense, i32 if that is
// wide enough. An index out of range is reported and replaced by the line's first row.
View rows_of_lines(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& index, int axis, std::int64_t size,
                   BufferPtr& keep);

// Adds rows of g, [outer, tokens, inner], to those of out, [outer, size, inner], that `rows` names. f32 is added in
// f64, halves in f32.
struct RowSums {
  View rows, g, out;  // all dense
  std::int64_t outer, size, inner;
  bool ascending = false;  // rows are in order already
};
void add_rows(Gpu& gpu, const RowSums& task);

}  // namespace ebb::cuda
