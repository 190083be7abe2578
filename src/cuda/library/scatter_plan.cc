// SPDX-License-Identifier: MIT
#include "cuda/library/scatter_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "cuda/kernels/args/index.h"

namespace ebb::cuda {

ScatterPlan plan_scatter(const LibraryCall& call, const GpuModel& model) {
  using Kind = ScatterPlan::Kind;
  const bool sums = call.op == Op::scatter_zero_add;
  const DType dtype = call.outputs[0].dtype;
  Shape out = call.outputs[0].shape, index = call.inputs[1].shape;
  if (index.rank() == 0) index = Shape{1}, out = Shape{1};
  const int axis = out.rank() > 0 ? static_cast<int>(call.attrs.i[0]) : 0;
  const std::int64_t length = index[axis], size = out[axis], lines = index.numel() / std::max<std::int64_t>(1, length);
  const bool few_elements = length <= model.short_line && lines >= model.many_lines;
  if (!sums) return {few_elements ? Kind::threads : Kind::last_element};
  if (call.attrs.i[1] != 0) return {Kind::put};
  if ((dtype == DType::i64 || dtype == DType::i32) && !few_elements) return {Kind::atomics};

  const std::int64_t bytes = size * static_cast<std::int64_t>(size_of(is_half(dtype) ? DType::f32 : dtype)),
                     shared = bytes + kTurnSlots * static_cast<std::int64_t>(sizeof(u32));
  const bool fits = bytes > 0 && shared <= std::min(model.most_line_bytes, model.limits.shared);
  const bool same_lines = index.with(axis, 0) == out.with(axis, 0);
  if (is_floating(dtype) && same_lines && length >= (fits ? model.long_line_on_chip : model.long_line))
    return {Kind::sorted};
  std::int64_t inner = 1;
  for (int d = axis + 1; d < index.rank(); ++d) inner *= index[d];
  // Neighbouring lines are those of neighbouring threads where there are many.
  if (inner > 1 && lines >= model.many_lines) return {Kind::threads};
  if (fits && same_lines && lines > 0) {
    const auto threads = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(1, length)))), 32,
        kThreads);
    return {Kind::shared, static_cast<int>(threads), shared};
  }
  return {size < (std::int64_t{1} << 32) - 1 ? Kind::warps : Kind::threads};
}

std::string describe(const ScatterPlan& plan) {
  switch (plan.kind) {
    case ScatterPlan::Kind::threads:
      return "thread per line";
    case ScatterPlan::Kind::warps:
      return "warp per line";
    case ScatterPlan::Kind::shared:
      return fmt::format("block of {} threads per line, {} bytes of shared memory", plan.threads, plan.shared_bytes);
    case ScatterPlan::Kind::sorted:
      return "sorted by place";
    case ScatterPlan::Kind::put:
      return "thread per element, distinct places";
    case ScatterPlan::Kind::atomics:
      return "thread per element, atomic sums of integers";
    case ScatterPlan::Kind::last_element:
      return "thread per element, the last for each place";
  }
  return "";
}

}  // namespace ebb::cuda
