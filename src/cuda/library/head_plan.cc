// SPDX-License-Identifier: MIT
#include "cuda/library/head_plan.h"

#include <algorithm>

#include "cuda/library/aligned_product.h"

namespace ebb::cuda {
namespace {

std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
// Rows of nearly equal pieces, none longer than `most` if that is at least a tile's rows.
std::int64_t even_length(std::int64_t rows, std::int64_t most, std::int64_t tile) {
  most = std::max(tile, most / tile * tile);
  const std::int64_t each = divided(rows, divided(rows, most));
  return std::min(rows, divided(each, tile) * tile);
}

}  // namespace

HeadPlan plan_head(const GpuModel& model, const HeadWork& work) {
  HeadPlan plan;
  plan.step = aligned_step(model, work.classes);
  plan.width = is_half(work.dtype) ? aligned_step(model, work.width) : work.width;
  const std::int64_t rows = std::max<std::int64_t>(1, work.rows), tile = model.head_rows;
  const DType stored = work.narrow_logits ? work.dtype : compute_dtype(work.dtype);
  const std::int64_t logit_row = std::max<std::int64_t>(1, plan.step * static_cast<std::int64_t>(size_of(stored)));
  if (work.chunk > 0) {
    plan.chunk = plan.part = std::min(work.chunk, rows);
    return plan;
  }
  if (work.dtype != DType::bf16 || !work.gradients || work.whole_units) {
    const std::int64_t most = std::max(tile, model.logit_bytes / logit_row / 16 * 16);
    plan.chunk = plan.part = std::min({most, std::max(tile, model.logit_rows), rows});
    return plan;
  }
  // A chunk adds to the head's gradient, which takes 8 bytes of traffic per number of it: as long as 700 rows of the
  // product. A single chunk does not need these sums in f32, and may use their memory.
  const std::int64_t row = 2 * plan.step + 4 * plan.width;  // gradients of logits, x, gradient of x
  const std::int64_t sums = work.head_gradient ? 4 * plan.step * plan.width : 0;
  const std::int64_t most =
      std::min(model.logit_gradient_rows, model.logit_gradient_bytes / std::max<std::int64_t>(1, row));
  plan.chunk = rows <= (model.logit_gradient_bytes + sums) / std::max<std::int64_t>(1, row)
                   ? rows
                   : even_length(rows, most, tile);
  plan.part = work.narrow_logits ? plan.chunk : even_length(plan.chunk, model.part_bytes / logit_row, tile);
  return plan;
}

}  // namespace ebb::cuda
