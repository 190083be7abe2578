// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/library/kernels.h"

namespace ebb::cuda {

// Rows of lines that lie one behind the other, `size` each, which an index along an axis names: dense, i32 where that
// is enough. One that is outside is said and taken for the line's first.
View rows_of_lines(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& index, int axis, std::int64_t size,
                   BufferPtr& keep);

// Rows of g, [outer, tokens, inner], are added to those of out, [outer, size, inner], that `rows` names. f32 is added
// in f64, halves in f32.
struct RowSums {
  View rows, g, out;  // all lie densely
  std::int64_t outer, size, inner;
};
void add_rows(Gpu& gpu, const RowSums& task);

}  // namespace ebb::cuda
