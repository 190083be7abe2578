// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "calls/attention.h"
#include "cuda/kernels/args/attention.h"
#include "cuda/runtime/gpu.h"
#include "cuda/runtime/kernel_source.h"

namespace ebb::cuda {

// How a call of attention, or of its gradient, is computed. It depends on widths, the number of columns, dtype and
// options, and on the number of rows only where that does not change a bit: a row has the same results alone as in a
// batch.
struct AttentionPlan {
  enum class Path {
    products,  // scores of some rows at a time in memory (attention.cc)
    warps,     // fused, products of warps (kernels/attention_by_warps.cuh)
    groups,    // fused, products of single warpgroups (kernels/attention_by_groups.cuh)
    threads,   // fused, products of single numbers (kernels/attention_by_threads.cuh)
    pipeline,  // fused, warpgroups that multiply and one that copies (kernels/attention_forward.cuh, ..)
  };
  Path path = Path::products;
  std::int64_t width = 0, values = 0;  // of a row of q and k, and of v
  DType dtype = DType::f32;
  bool masked = false, documents = false;
  int slices = 0;  // warps: groups of 16 rows per warp; otherwise 1
  AttentionTiling forward{}, rows{}, columns{}, v_columns{};  // pipeline; v_columns: dv by a launch of its own

  bool splits_columns() const { return v_columns.step > 0; }
  std::string text() const;  // one line
};
// Shapes as of calls/attention.h.
AttentionPlan plan_attention(const Gpu& gpu, const AttentionCall& call, const View& q, const View& k, const View& v);

// Tiles, decided by widths alone.
AttentionPlan pipelined_attention_plan(std::int64_t width, std::int64_t values, DType dtype, bool masked = false,
                                       bool documents = false);

// Texts of kernels. `makes`: which of dk and dv a launch for columns computes.
enum class ColumnGradients { both, k, v };
KernelSource attention_source(const AttentionPlan& plan);  // of warps, single groups and threads
KernelSource attention_forward_source(const AttentionPlan& plan);
KernelSource attention_row_gradient_source(const AttentionPlan& plan);
KernelSource attention_column_gradient_source(const AttentionPlan& plan, ColumnGradients makes);
// Shared memory of a block of `warps`, `groups` or `threads`.
std::int64_t bytes_of_rows(const AttentionPlan& plan, bool gradient);
std::int64_t bytes_of_columns(const AttentionPlan& plan);
// The same for the pipeline: own rows of one matrix or two, rings, two numbers per row of a step, barriers.
int shared_bytes(const AttentionTiling& t, bool two_own, bool numbers);

}  // namespace ebb::cuda
