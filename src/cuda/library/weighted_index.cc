// SPDX-License-Identifier: MIT
// weighted_gather, weighted_scatter, gather_dot: see kernels/weighted_index.cuh.
#include "cuda/kernels/args/weighted_index.h"

#include <algorithm>
#include <limits>

#include "calls/banded.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

constexpr const char* kWeightedName = "weighted_gather";

bool has_narrow_keys(std::int64_t size) { return size < std::numeric_limits<i32>::max(); }

struct WeightedTask {
  WeightedArgs<void, void, void> args;
  KernelSource source;
  std::int64_t row_groups;
  WeightedTask(const Complaints& complaints, const View& x, const View& y, const View& index, void* weight)
      : args{.x = x.data,
             .y = y.data,
             .index = elements<i64>(index),
             .weight = weight,
             .images = index.shape[0],
             .rows = x.shape[1],
             .size = x.shape[2],
             .points = index.shape[1],
             .taps = index.shape[2],
             .keys = nullptr,
             .order = nullptr,
             .ranges = nullptr,
             .many = nullptr,
             .many_count = nullptr,
             .complaints = complaints},
        source{element_text(x.dtype) + (has_narrow_keys(x.shape[2]) ? "typedef i32 K;\n" : "typedef i64 K;\n") +
               texts::weighted_index},
        row_groups(args.images * ((args.rows + kWeightedRows - 1) / kWeightedRows)) {}
};

}  // namespace

void run_weighted_gather(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  if (is_banded(call.attrs)) return run_banded(call, gpu);
  BufferPtr kept_x, kept_index, kept_weight;
  const View x = packed(gpu, call.inputs[0], kept_x, kWeightedName),
             index = packed(gpu, call.inputs[1], kept_index, kWeightedName);
  const WeightedTask t(check_index(mark, call, index, x.shape[2]), x, call.outputs[0], index,
                       packed(gpu, call.inputs[2], kept_weight, kWeightedName).data);
  launch_elements(gpu, t.source, "weighted_gather", t.row_groups * t.args.points, t.args);
}

void run_weighted_scatter(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  BufferPtr kept_y, kept_index;
  const View y = packed(gpu, call.inputs[0], kept_y, kWeightedName),
             index = packed(gpu, call.inputs[1], kept_index, kWeightedName);
  const View& x = call.outputs[0];
  if (x.shape.numel() == 0) return;
  BufferPtr kept_weight, kept[4];
  WeightedTask t(check_index(mark, call, index, x.shape[2]), x, y, index,
                 packed(gpu, call.inputs[2], kept_weight, kWeightedName).data);
  WeightedArgs<void, void, void>& a = t.args;
  const Shape lines{a.images, a.points * a.taps};
  const View keys = workspace(gpu, has_narrow_keys(a.size) ? DType::i32 : DType::i64, lines, kept[0], kWeightedName);
  const View order = workspace(gpu, DType::i64, lines, kept[1], kWeightedName);
  const View ranges = workspace(gpu, DType::i64, Shape{a.images * a.size, 2}, kept[2], kWeightedName);
  // One more, for the total.
  const View many = workspace(gpu, DType::i64, Shape{lines.numel() / kManyEntries + 1}, kept[3], kWeightedName);
  a.keys = keys.data;
  a.order = elements<i64>(order);
  a.ranges = elements<TokenRange>(ranges);
  a.many = elements<i64>(many) + 1;
  a.many_count = elements<u32>(many);
  gpu.clear(many.data, sizeof(i64));
  launch_elements(gpu, t.source, "make_keys", lines.numel(), a);
  argsort_keys(gpu, keys, 1, a.size, order);
  launch_elements(gpu, t.source, "find_entries", a.images * a.size, a);
  launch_elements(gpu, t.source, "weighted_scatter", t.row_groups * a.size, a);
  if (many.shape.numel() > 1)
    launch_blocks(gpu, t.source, "scatter_many",
                  std::min<std::int64_t>((many.shape.numel() * t.row_groups + 7) / 8, 4 * gpu.multiprocessors()), a);
}

void run_gather_dot(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  BufferPtr kept_x, kept_y, kept_index;
  const View x = packed(gpu, call.inputs[0], kept_x, kWeightedName),
             y = packed(gpu, call.inputs[1], kept_y, kWeightedName);
  const View index = packed(gpu, call.inputs[2], kept_index, kWeightedName);
  const WeightedTask t(check_index(mark, call, index, x.shape[2]), x, y, index, call.outputs[0].data);
  launch_elements(gpu, t.source, "gather_dot", index.shape.numel(), t.args);
}

}  // namespace ebb::cuda
