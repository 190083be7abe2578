// SPDX-License-Identifier: MIT
// argsort, and a range of its places: see kernels/sort.cuh, kernels/radix_sort.cuh, kernels/radix_select.cuh
// and kernels/select_one.cuh.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "calls/order.h"
#include "core/ceil_div.h"
#include "cuda/kernels/args/sort.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

constexpr const char* kArgsortName = "argsort";

// Lines along an axis, for which places [first, first + count) of the sorted order are requested.
struct SortTask {
  View x, out;  // one element per line
  std::int64_t length, x_step, out_step, first, count;
  bool descending;
  std::int64_t key_bits;  // elements differ only in these
  void* values;           // the elements themselves, in out's shape and strides; null: not requested
  std::int64_t lines() const { return x.shape.numel(); }
};

SortArgs args_of(const SortTask& t) {
  return {.x = kernel_view(t.x),
          .out = kernel_view(t.out),
          .length = t.length,
          .x_step = t.x_step,
          .out_step = t.out_step,
          .first = t.first,
          .count = t.count,
          .piece = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(t.length))),
          .values = t.values};
}

void sort_short(Gpu& gpu, const SortTask& t) {
  const KernelSource source{
      element_text(t.x.dtype) +
      fmt::format("constexpr bool kDescending = {}, kFloating = {};\n", t.descending, is_floating(t.x.dtype)) +
      texts::sort};
  const SortArgs args = args_of(t);
  launch_blocks(gpu, source, "sort_pieces", ceil_div(t.lines(), kSortPiece / args.piece), args);
}

std::string key_text(DType dtype, bool descending) {
  const char* const infinity = dtype == DType::f64    ? "0x7FF0000000000000"
                               : dtype == DType::f32  ? "0x7F800000"
                               : dtype == DType::f16  ? "0x7C00"
                               : dtype == DType::bf16 ? "0x7F80"
                                                      : "0";
  return bits_text(dtype) +
         fmt::format("constexpr bool kDescending = {}, kFloating = {}, kSigned = {};\nconstexpr T kInfinity = {};\n",
                     descending, is_floating(dtype), dtype == DType::i32 || dtype == DType::i64, infinity);
}

void select_one(Gpu& gpu, const SortTask& t) {
  const SortArgs args = args_of(t);
  const KernelSource source{key_text(t.x.dtype, t.descending) +
                            fmt::format("constexpr int kEach = {};\n", ceil_div(args.piece, 32)) + texts::select_one};
  launch_blocks(gpu, source, "select_one", ceil_div(t.lines(), kThreads / 32), args);
}

// Selected keys of dense lines, and the position of each in its line.
struct Selected {
  BufferPtr kept_keys, kept_places;
  void *keys = nullptr, *places = nullptr;
};

// Keys of x's elements, or of those selected from them.
void sort_by_digits(Gpu& gpu, const SortTask& t, const Selected& selected) {
  const bool narrow = t.length <= std::int64_t{1} << 31;
  const std::int64_t n = t.lines() * t.length;
  std::int64_t each = kRadixEach;
  if (t.length > kRadixTile) {
    each = size_of(t.x.dtype) > 4 ? kMovedEachOfWide : kMovedEach;
    while (each > 4 && n < gpu.model().radix_tiles * each * kThreads) each -= 4;
  }
  const KernelSource source{key_text(t.x.dtype, t.descending) +
                            fmt::format("typedef {} P;\nconstexpr int kEach = {};\n", narrow ? "u32" : "i64", each) +
                            texts::radix_sort};
  const std::int64_t tiles = ceil_div(t.length, each * kThreads);
  // About as many groups as tiles in each: both are summed one after the other.
  std::int64_t group = gpu.model().summed_tiles;
  while (group * group < tiles) group *= 2;
  RadixArgs<void, void> args{.x = kernel_view(t.x),
                             .out = kernel_view(t.out),
                             .length = t.length,
                             .x_step = t.x_step,
                             .out_step = t.out_step,
                             .first = t.first,
                             .count = t.count,
                             .tiles = tiles,
                             .shift = 0,
                             .group = group,
                             .groups = ceil_div(tiles, group),
                             .key_bits = t.key_bits,
                             .given_keys = selected.keys,
                             .given_places = selected.places,
                             .keys = {},
                             .places = {},
                             .counts = nullptr,
                             .sums = nullptr,
                             .totals = nullptr,
                             .varying = nullptr,
                             .values = t.values};
  if (tiles == 1) return launch_blocks(gpu, source, "sort_tiles", t.lines(), args);
  const DType of_places = narrow ? DType::i32 : DType::i64;
  BufferPtr keep[8];
  const auto bytes = static_cast<std::int64_t>(size_of(t.x.dtype));
  for (int side = 0; side < std::min<std::int64_t>(bytes - 1, 2); ++side) {
    args.keys[side] = workspace(gpu, t.x.dtype, Shape{n}, keep[side], kArgsortName).data;
    args.places[side] = workspace(gpu, of_places, Shape{n}, keep[2 + side], kArgsortName).data;
  }
  args.counts = workspace(gpu, of_places, Shape{t.lines() * 256 * tiles}, keep[4], kArgsortName).data;
  args.totals = workspace(gpu, of_places, Shape{t.lines() * 256}, keep[5], kArgsortName).data;
  if (args.groups > 1)
    args.sums = workspace(gpu, of_places, Shape{t.lines() * 256 * args.groups}, keep[7], kArgsortName).data;
  const std::int64_t blocks = t.lines() * tiles;
  if (t.key_bits == 8 * bytes) {  // with fewer bits the caller asserts that they differ
    args.varying = elements<u32>(workspace(gpu, DType::i32, Shape{2}, keep[6], kArgsortName));
    gpu.clear(args.varying, 2 * sizeof(u32));
  }
  for (; args.shift < t.key_bits; args.shift += 8) {
    launch_blocks(gpu, source, "count_digits", blocks, args);
    launch_blocks(gpu, source, "sum_counts", t.lines() * args.groups, args);
    if (args.groups > 1) launch_blocks(gpu, source, "sum_groups", t.lines(), args);
    launch_blocks(gpu, source, "move_by_digits", blocks, args);
  }
}

// Selects the elements of the range, in the order of their line.
Selected select(Gpu& gpu, const SortTask& t) {
  // One block per line if there are enough of them for a large GPU, or if more launches would take longer.
  const GpuModel& model = gpu.model();
  const KernelSource source{key_text(t.x.dtype, t.descending) + texts::radix_select};
  Selected selected;
  const Shape size{t.lines() * t.count};
  selected.keys = workspace(gpu, t.x.dtype, size, selected.kept_keys, kArgsortName).data;
  selected.places = workspace(gpu, DType::i32, size, selected.kept_places, kArgsortName).data;
  const std::int64_t wanted = std::min(ceil_div(t.length, model.select_piece), model.most_select_pieces);
  const std::int64_t piece = ceil_div(ceil_div(t.length, wanted), kSelectBatch) * kSelectBatch;
  SelectArgs<void> args{.x = kernel_view(t.x),
                        .length = t.length,
                        .x_step = t.x_step,
                        .first = t.first,
                        .count = t.count,
                        .piece = piece,
                        .pieces = ceil_div(t.length, piece),
                        .shift = 0,
                        .histograms = nullptr,
                        .chosen = nullptr,
                        .keys_to = selected.keys,
                        .places_to = static_cast<u32*>(selected.places)};
  if (t.lines() >= model.many_selected_lines || args.pieces == 1) {
    launch_blocks(gpu, source, "select_lines", t.lines(), args);
    return selected;
  }
  BufferPtr kept_histograms, kept_chosen;
  const auto bytes = static_cast<std::int64_t>(size_of(t.x.dtype));
  const std::int64_t blocks = t.lines() * args.pieces, counters = t.lines() * bytes * 2 * 256;
  args.histograms = elements<u32>(workspace(gpu, DType::i32, Shape{counters}, kept_histograms, kArgsortName));
  args.chosen = elements<u32>(workspace(gpu, DType::i32, Shape{blocks * 3}, kept_chosen, kArgsortName));
  gpu.clear(args.histograms, static_cast<std::size_t>(counters) * sizeof(u32));
  for (args.shift = 8 * bytes - 8; args.shift >= 0; args.shift -= 8)
    launch_blocks(gpu, source, "count_next_digit", blocks, args);
  launch_blocks(gpu, source, "count_chosen", blocks, args);
  launch_blocks(gpu, source, "collect_chosen", blocks, args);
  return selected;
}

// Lines of contiguous elements: kernels read them several times.
View with_neighbours(Gpu& gpu, const View& x, int axis, BufferPtr& keep) {
  const std::int64_t length = x.shape[axis], step = x.strides[axis];
  if (step == 1 || step == -1 || x.shape.numel() == length) return x;
  View to = dense(x, x.dtype, keep, gpu, kArgsortName);
  const Strides lines = contiguous_strides(x.shape.with(axis, 1));
  for (int d = 0; d < x.shape.rank(); ++d) to.strides[d] = d == axis ? 1 : lines[d] * length;
  copy_elements(gpu, to, x);
  return to;
}

void sort_range(Gpu& gpu, const View& x, int axis, bool descending, std::int64_t first, const View& out,
                std::int64_t key_bits, void* values = nullptr) {
  if (out.shape.numel() == 0) return;
  const std::int64_t length = x.shape[axis], count = out.shape[axis];
  // A warp would be mostly idle with up to 32 elements; blocks merge many such lines at once.
  const bool one = count == 1 && length > 32 && length <= 32 * kMostOfLane;
  BufferPtr keep;
  const View from = one || length > kRadixTile ? with_neighbours(gpu, x, axis, keep) : x;
  SortTask task{from, out, length, from.strides[axis], out.strides[axis], first, count, descending, key_bits, values};
  task.x.shape = task.out.shape = x.shape.with(axis, 1);
  if (one) return select_one(gpu, task);
  // 4,000 lines of 1,001 numbers took 0.36 ms by merges, PyTorch 0.16; long keys have twice the digits.
  if (length <= (size_of(x.dtype) > 4 ? kSortPiece : kSortPiece / 2)) return sort_short(gpu, task);
  // For few places the rest need not be sorted.
  if (length <= kRadixTile || count > length / 4 || length > std::int64_t{1} << 31)
    return sort_by_digits(gpu, task, {});
  const Selected selected = select(gpu, task);
  task.length = count;
  task.first = 0;
  sort_by_digits(gpu, task, selected);
}

}  // namespace

void run_argsort(const LibraryCall& call, Gpu& gpu) {
  const auto& o = options_as<ArgsortCall>(call.attrs);
  sort_range(gpu, at_least_1d(call.inputs[0]), static_cast<int>(call.attrs.i[0]), o.descending, o.first,
             at_least_1d(call.outputs[0]), static_cast<std::int64_t>(8 * size_of(call.inputs[0].dtype)),
             o.values ? call.outputs[1].data : nullptr);
}

void argsort_keys(Gpu& gpu, const View& keys, int axis, std::int64_t most, const View& out, void* sorted) {
  const auto bits =
      static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(most, 1))));
  sort_range(gpu, keys, axis, false, 0, out, bits, sorted);
}

void run_searchsorted(const LibraryCall& call, Gpu& gpu) {
  const View &sorted = call.inputs[0], &values = call.inputs[1], &out = call.outputs[0];
  const int axis = values.shape.rank() - 1;
  if (values.shape.numel() == 0) return;
  if (sorted.shape[axis] == 0)
    return gpu.clear(out.data, static_cast<std::size_t>(out.shape.numel()) * size_of(out.dtype));
  View lines = sorted;
  lines.shape = sorted.shape.with(axis, 1);
  const KernelSource source{element_text(values.dtype) +
                                fmt::format("constexpr bool kRight = {}, kFloating = {};\n",
                                            options_as<SearchsortedCall>(call.attrs).right, is_floating(values.dtype)) +
                                texts::search,
                            false, true};
  const std::int64_t count = values.shape.numel(), blocks = ceil_div(count, kSearchEach * kThreads);
  const SearchArgs args{.sorted = kernel_view(lines),
                        .values = kernel_view(values),
                        .out = static_cast<i64*>(out.data),
                        .length = sorted.shape[axis],
                        .step = sorted.strides[axis],
                        .count = values.shape[axis]};
  const GpuModel& model = gpu.model();
  const auto bytes = sorted.shape[axis] * static_cast<std::int64_t>(size_of(compute_dtype(values.dtype)));
  if (lines.shape.numel() == 1 && bytes <= model.searched_bytes && count >= model.searches_per_element * args.length)
    return launch_blocks(gpu, source, "search_in_shared", std::min(blocks, model.search_blocks), args, bytes);
  launch_blocks(gpu, source, "search", blocks, args);
}

}  // namespace ebb::cuda
