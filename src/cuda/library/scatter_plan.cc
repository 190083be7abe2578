// SPDX-License-Identifier: MIT
#include "cuda/library/scatter_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "calls/index_lines.h"
#include "cuda/kernels/args/index.h"

namespace ebb::cuda {

namespace {

std::int64_t power_of_two_from(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(1, n))));
}

// A piece has at least so many elements, and enough that sums of pieces are a small part of the data read; beyond
// `most_pieces` per line, pieces become longer.
void divide_line(ScatterPlan& plan, std::int64_t length, std::int64_t least, const GpuModel& model) {
  plan.piece = std::max({least, (length + model.most_pieces - 1) / model.most_pieces, std::int64_t{1}});
  plan.pieces = std::max<std::int64_t>(1, (length + plan.piece - 1) / plan.piece);
}

// Few places: each thread has its own sums, with as many threads as shared memory has room for.
std::optional<ScatterPlan> plan_own_sums(std::int64_t length, std::int64_t size, std::int64_t inner, std::int64_t bytes,
                                         const GpuModel& model) {
  std::int64_t threads = kThreads;
  while (threads > 64 && size * threads * bytes > model.own_sum_bytes) threads /= 2;
  ScatterPlan plan{ScatterPlan::Kind::own_sums};
  // A few neighbours: a power of two, for shared memory's banks; many: equal parts.
  const std::int64_t tiles = (inner + threads - 1) / threads;
  plan.columns = inner < 32 ? power_of_two_from(inner) : (inner + tiles - 1) / tiles;
  threads = std::clamp<std::int64_t>((power_of_two_from(length) * plan.columns + 31) / 32 * 32, 32, threads);
  plan.threads = static_cast<int>(threads);
  plan.shared_bytes = size * threads * bytes;
  if (plan.shared_bytes > std::min(model.most_own_sum_bytes, model.limits.shared)) return {};
  const std::int64_t groups = threads / plan.columns;
  const std::int64_t per_place = inner > 1 ? model.piece_per_place_of_slices : model.piece_per_place;
  divide_line(plan, length, std::max(model.own_sum_elements * groups, per_place * size), model);
  return plan;
}

// A thread per line, whose places are on chip; an odd number of them, for shared memory's banks.
std::optional<ScatterPlan> plan_places(std::int64_t length, std::int64_t size, std::int64_t bytes,
                                       const GpuModel& model) {
  if (length > model.line_of_places) return {};
  ScatterPlan plan{ScatterPlan::Kind::places};
  const std::int64_t line = (size | 1) * bytes;
  while (plan.threads > 64 && plan.threads * line > model.own_sum_bytes) plan.threads /= 2;
  plan.shared_bytes = plan.threads * line;
  return plan.shared_bytes <= model.own_sum_bytes ? std::optional(plan) : std::nullopt;
}

// Short lines with neither many elements per place nor many neighbours: a block's threads would have little to do.
bool adds_in_order(std::int64_t length, std::int64_t size, std::int64_t inner, const GpuModel& model) {
  return inner < 32 && length <= model.line_in_order &&
         (length <= model.line_of_warp || length < model.own_sums_per_place * size);
}

}  // namespace

DType dtype_of_sums(const LibraryCall& call) {
  const DType dtype = call.outputs[0].dtype;
  if (is_half(dtype)) return DType::f32;
  return dtype == DType::f32 && call.op == Op::index_zero_add ? DType::f64 : dtype;
}

ScatterPlan plan_scatter(const LibraryCall& call, const GpuModel& model) {
  using Kind = ScatterPlan::Kind;
  const bool sums = call.op != Op::scatter, rows = call.op == Op::index_zero_add;
  const DType dtype = call.outputs[0].dtype;
  Shape out = call.outputs[0].shape, index = call.inputs[1].shape;
  if (out.rank() == 0) out = Shape{1};
  if (index.rank() == 0) index = Shape{1};
  const int axis = call.outputs[0].shape.rank() > 0 ? static_cast<int>(call.attrs.i[0]) : 0;
  if (rows) index = out.with(axis, index.numel());
  const std::int64_t length = index[axis], size = out[axis], lines = index.numel() / std::max<std::int64_t>(1, length);
  const bool few_elements = length <= model.short_line && lines >= model.many_lines;
  const bool same_lines = index.with(axis, 0) == out.with(axis, 0) && lines > 0;
  const std::int64_t most_shared = std::min(model.most_line_bytes, model.limits.shared);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(power_of_two_from(length), 32, kThreads));
  std::int64_t inner = 1;
  for (int d = axis + 1; d < index.rank(); ++d) inner *= index[d];
  if (!sums) {
    if (few_elements && same_lines && size <= model.places_per_first * length) {
      if (const auto plan = plan_places(length, size, static_cast<std::int64_t>(size_of(dtype)), model)) return *plan;
    }
    const bool sparse = length <= model.short_line && size > model.places_per_first * length;  // few places change
    if (few_elements || sparse) return {Kind::threads};
    const auto bytes = size * static_cast<std::int64_t>(sizeof(u32));
    const bool too_few = lines < model.busy_blocks && std::max(length, size) > model.shared_elements;
    if (inner > 1 || !same_lines || size == 0 || bytes > most_shared || too_few) {
      const bool packs = size_of(dtype) <= 4 && index.numel() < (std::int64_t{1} << 32) - 1;
      return {packs && out.numel() <= model.places_with_values * index.numel() ? Kind::last_value : Kind::last_element};
    }
    // Lines that leave most of a block's threads without an element share it.
    ScatterPlan plan{Kind::last_on_chip};
    const std::int64_t of_line = std::clamp<std::int64_t>(
        power_of_two_from(std::max(length, size) / model.elements_of_putting_thread), 32, kThreads);
    const std::int64_t fitting = std::max<std::int64_t>(1, model.table_bytes / 2 / bytes);
    while (2 * plan.columns * of_line <= kThreads && 2 * plan.columns <= std::min(fitting, lines)) plan.columns *= 2;
    plan.threads = static_cast<int>(plan.columns * of_line);
    plan.shared_bytes = plan.columns * bytes;
    return plan;
  }
  const auto known = static_cast<IndexLines>(call.attrs.i[1]);
  if (rows && known == IndexLines::ascending) return {Kind::sorted};
  if (known == IndexLines::different) return {Kind::put};
  if (known == IndexLines::runs && is_floating(dtype) && index == out) return {Kind::runs};
  if (dtype == DType::i64 || dtype == DType::i32) {
    if (few_elements && !rows) return {Kind::threads};
    const std::int64_t bytes = out.numel() * static_cast<std::int64_t>(size_of(dtype));
    if (bytes == 0 || bytes > std::min(model.table_bytes, model.limits.shared) || index.numel() < 4 * out.numel())
      return {Kind::atomics};
    ScatterPlan plan{Kind::table};
    while (plan.copies < 32 && 2 * plan.copies * bytes <= model.table_bytes / 2) plan.copies *= 2;
    plan.shared_bytes = plan.copies * bytes;
    return plan;
  }

  const auto each = static_cast<std::int64_t>(size_of(dtype_of_sums(call)));
  const std::int64_t bytes = size * each, shared = bytes + kTurnSlots * static_cast<std::int64_t>(sizeof(u32));
  const bool fits = bytes > 0 && shared <= most_shared && same_lines;
  if (is_floating(dtype) && same_lines && size > 0 && length > 0) {
    const bool sparse = out.numel() > model.places_per_first * index.numel();
    if (sparse && length <= model.line_of_firsts) return {Kind::firsts};
    if (!sparse) {
      if (const auto plan = plan_places(length, size, each, model)) return *plan;
    }
    if (adds_in_order(length, size, inner, model)) {
      if (rows && out.numel() >= model.worth_sorting) return {Kind::sorted};
      const std::int64_t warps = std::min<std::int64_t>(model.own_sum_bytes / bytes, kThreads / 32);
      if (warps > 1 && (lines >= model.lines_of_warps || length <= model.line_of_warp))
        return {Kind::warp_sums, static_cast<int>(32 * warps), warps * bytes};
    } else if (const auto plan = plan_own_sums(length, size, inner, each, model)) {
      return *plan;
    }
  }
  const bool exact = (dtype == DType::f32 || is_half(dtype)) && inner * size < (std::int64_t{1} << 32) / kMostDigits &&
                     length < model.longest_exact && size <= model.exact_places * length;
  if (exact && !fits && same_lines && length >= model.long_line &&
      (!rows || (inner == 1 && length > model.sorted_once)))
    return {Kind::exact};
  if (rows && (!is_floating(dtype) || inner > 1 || !fits)) return {Kind::sorted};
  if (is_floating(dtype) && same_lines && !fits && length >= model.long_line) return {Kind::sorted};
  const bool divided = is_floating(dtype) && fits && length >= model.long_line_on_chip;
  // Neighbouring lines go to neighbouring threads if there are many.
  if (inner > 1 && lines >= model.many_lines && !divided) return {Kind::threads};
  if (fits) {
    ScatterPlan plan{Kind::shared, threads, shared};
    plan.piece = length;
    if (divided) divide_line(plan, length, std::max(model.shared_elements, size), model);
    return plan;
  }
  return {size < (std::int64_t{1} << 32) - 1 ? Kind::warps : Kind::threads};
}

std::string describe(const ScatterPlan& plan) {
  const std::string of_line = plan.pieces > 1 ? fmt::format("{} elements of a line", plan.piece) : "line";
  switch (plan.kind) {
    case ScatterPlan::Kind::places:
      return fmt::format("thread per line, its places in {} bytes of shared memory for {}", plan.shared_bytes,
                         plan.threads);
    case ScatterPlan::Kind::firsts:
      return "thread per element, the first for each place looks through the line";
    case ScatterPlan::Kind::threads:
      return "thread per line";
    case ScatterPlan::Kind::warps:
      return "warp per line";
    case ScatterPlan::Kind::warp_sums:
      return fmt::format("warp per line, {} in {} bytes of shared memory", plan.threads / 32, plan.shared_bytes);
    case ScatterPlan::Kind::shared:
      return fmt::format("block of {} threads per {}, {} bytes of shared memory", plan.threads, of_line,
                         plan.shared_bytes);
    case ScatterPlan::Kind::own_sums:
      return fmt::format("sums of {} threads per {}{}, {} bytes of shared memory", plan.threads, of_line,
                         plan.columns > 1 ? fmt::format(" of {} neighbours", plan.columns) : "", plan.shared_bytes);
    case ScatterPlan::Kind::exact:
      return "thread per element, exact sums in fixed point";
    case ScatterPlan::Kind::sorted:
      return "sorted by place";
    case ScatterPlan::Kind::runs:
      return "sums of runs";
    case ScatterPlan::Kind::put:
      return "thread per element, distinct places";
    case ScatterPlan::Kind::atomics:
      return "thread per element, atomic sums of integers";
    case ScatterPlan::Kind::table:
      return fmt::format("thread per element, {} of integers in shared memory",
                         plan.copies > 1 ? fmt::format("{} tables", plan.copies) : "a table");
    case ScatterPlan::Kind::last_on_chip:
      return fmt::format("block of {} threads per {}, the last for each place in {} bytes of shared memory",
                         plan.threads, plan.columns > 1 ? fmt::format("{} lines", plan.columns) : "line",
                         plan.shared_bytes);
    case ScatterPlan::Kind::last_element:
      return "thread per element, the last for each place";
    case ScatterPlan::Kind::last_value:
      return "thread per element, the last for each place with its value";
  }
  return "";
}

}  // namespace ebb::cuda
