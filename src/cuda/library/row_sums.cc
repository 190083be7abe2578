// SPDX-License-Identifier: MIT
// Sums of rows: tokens are first sorted by their rows, see kernels/add_rows.cuh.
#include "cuda/library/row_sums.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/kernels/args/index.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/index_parts.h"

namespace ebb::cuda {
namespace {

std::string row_text(const View& rows) { return rows.dtype == DType::i32 ? "typedef i32 R;\n" : "typedef i64 R;\n"; }

}  // namespace

View rows_of_lines(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& index, int axis, std::int64_t size,
                   BufferPtr& keep) {
  const std::int64_t n = index.shape.numel(), length = index.shape[axis];
  const std::int64_t last = length > 0 ? n / length * size : 0;
  const View rows =
      workspace(gpu, last < std::int64_t{1} << 31 ? DType::i32 : DType::i64, Shape{n}, keep, label_of(call));
  launch_elements(gpu, {index_text(index) + row_text(rows) + texts::line_rows}, "line_rows", n,
                  LineRowsArgs<void>{.index = kernel_view(with_axis_last(index, axis)),
                                     .rows = rows.data,
                                     .length = length,
                                     .inner = inner_of(index.shape, axis),
                                     .size = size,
                                     .complaints = check_index(mark, call, index, size)});
  return rows;
}

void add_rows(Gpu& gpu, const RowSums& task) {
  const auto& [of_tokens, g, out, outer, size, inner, ascending] = task;
  const std::int64_t tokens = of_tokens.shape.numel();
  if (out.shape.numel() == 0) return;
  const auto each = static_cast<std::int64_t>(16 / size_of(out.dtype));
  const bool wide = inner % each == 0 &&
                    (reinterpret_cast<std::uintptr_t>(g.data) | reinterpret_cast<std::uintptr_t>(out.data)) % 16 == 0;
  const RowLanes rows = lanes_for(wide ? inner / each : inner, size_of(out.dtype) > 1 ? 4 : 2);
  const std::string types =
      row_text(of_tokens) + element_text(out.dtype) +
      fmt::format("typedef {} S;\nEBB S plus(S total, T x) {{ return {}; }}\n", out.dtype == DType::f32 ? "f64" : "A",
                  is_floating(out.dtype) ? "total + (S)load(x)" : "sum(total, load(x))") +
      fmt::format("constexpr int kPacks = {}, kEach = {};\nconstexpr bool kWide = {};\n", rows.packs, wide ? each : 1,
                  wide) +
      fmt::format("EBB void narrow(Pack<T, kEach>& to, int j, S x) {{ {}; }}\n",
                  wide && out.dtype == DType::bf16  ? "to.set_bf16(j, x)"
                  : wide && out.dtype == DType::f16 ? "to.set_f16(j, x)"
                                                    : "to.set(j, store((A)x))");
  const KernelSource source{types + texts::add_rows};
  BufferPtr kept_order, kept_sorted, kept_ranges, kept_segments, kept_divided, kept_parts;
  View order, sorted = of_tokens;
  if (!ascending) {
    order = workspace(gpu, DType::i64, Shape{tokens}, kept_order, "index_add");
    sorted = workspace(gpu, of_tokens.dtype, Shape{tokens}, kept_sorted, "index_add");
  }
  constexpr auto kWords = [](std::size_t bytes) { return static_cast<std::int64_t>(bytes / sizeof(i64)); };
  // Zeros for short rows are less than their ranges.
  const bool runs = outer * inner * static_cast<std::int64_t>(size_of(out.dtype)) <= gpu.model().short_row_bytes;
  const std::int64_t range_words = runs ? 0 : 2 * size;
  const View ranges =
      workspace(gpu, DType::i64, Shape{range_words + kWords(sizeof(RowCounters))}, kept_ranges, "index_add");
  // A row of n tokens, n > kManyTokens, has fewer segments than n / kManyTokens; one of several, up to twice n /
  // theirs.
  const std::int64_t segments = tokens / kManyTokens, divided = tokens / kSegmentTokens;
  const DType sums = out.dtype == DType::f32 || !is_floating(out.dtype) ? DType::f64 : compute_dtype(out.dtype);
  const View segment_list =
      workspace(gpu, DType::i64, Shape{segments * kWords(sizeof(RowSegment))}, kept_segments, "index_add");
  const View divided_list =
      workspace(gpu, DType::i64, Shape{divided * kWords(sizeof(DividedRow))}, kept_divided, "index_add");
  const View parts = workspace(gpu, sums, Shape{2 * divided * outer * inner}, kept_parts, "index_add");
  if (!ascending) argsort_keys(gpu, of_tokens, 0, size - 1, order, sorted.data);
  gpu.clear(ranges.data, bytes_of(ranges));
  if (runs) gpu.clear(out.data, bytes_of(out));
  const auto blocks_for = [](std::int64_t threads) { return (threads + kThreads - 1) / kThreads; };
  const std::int64_t most_of_many = segments * outer * inner;
  const std::int64_t many_blocks = std::min<std::int64_t>(blocks_for(most_of_many), 4 * gpu.multiprocessors());
  const AddRowsArgs<void, void, void> args{.rows = sorted.data,
                                           .g = g.data,
                                           .out = out.data,
                                           .order = elements<i64>(order),
                                           .ranges = runs ? nullptr : elements<TokenRange>(ranges),
                                           .segments = elements<RowSegment>(segment_list),
                                           .divided = elements<DividedRow>(divided_list),
                                           .counters = reinterpret_cast<RowCounters*>(element_at(ranges, range_words)),
                                           .parts = parts.data,
                                           .tokens = tokens,
                                           .outer = outer,
                                           .size = size,
                                           .inner = inner,
                                           .lane_bits = lane_bits(rows),
                                           .tiles = rows.tiles,
                                           .many_blocks = many_blocks};
  launch_elements(gpu, source, "find_rows", tokens, args);
  if (runs) {
    launch_blocks(gpu, source, "add_runs", many_blocks + blocks_for(tokens * outer * inner), args);
  } else {
    launch_blocks(gpu, source, "add_rows", many_blocks + blocks_for(outer * size * rows.tiles * rows.lanes), args);
  }
  if (divided > 0)
    launch_blocks(gpu, source, "add_divided_rows",
                  std::min<std::int64_t>(blocks_for(divided * outer * inner), 4 * gpu.multiprocessors()), args);
}

}  // namespace ebb::cuda
