// SPDX-License-Identifier: MIT
// gather and index_select.
#include "cuda/kernels/args/index.h"

#include <vector>

#include "cuda/kernels/texts.h"
#include "cuda/library/index_parts.h"

namespace ebb::cuda {
namespace {

// Slices of contiguous elements are copied 16 bytes at a time: the last dimensions then count those. Returns the number
// of bytes.
std::size_t widen_slices(View& x, View& out, int axis) {
  const int last = x.shape.rank() - 1;
  const auto each = static_cast<std::int64_t>(16 / size_of(x.dtype));
  if (axis == last || x.strides[last] != 1 || x.shape[last] % each != 0 ||
      (reinterpret_cast<std::uintptr_t>(x.data) | reinterpret_cast<std::uintptr_t>(out.data)) % 16 != 0)
    return size_of(x.dtype);
  for (int d = 0; d < last; ++d) {
    if (x.strides[d] % each != 0) return size_of(x.dtype);
  }
  for (View* v : {&x, &out}) {
    v->shape = v->shape.with(last, v->shape[last] / each);
    for (int d = 0; d < last; ++d) v->strides[d] /= each;
  }
  return 16;
}

// Dense slices are copied by groups of lanes, which read the index once. False if they are not dense.
bool gather_rows(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& x, const View& index, const View& out) {
  const int axis = axis_of(call), rank = x.shape.rank();
  std::int64_t inner = 1;
  for (int d = rank - 1; d > axis; inner *= x.shape[d--]) {
    if (x.shape[d] != 1 && x.strides[d] != inner) return false;
  }
  View slices = x;  // the dimensions before the axis
  std::vector<std::int64_t> sizes(x.shape.begin(), x.shape.begin() + axis);
  slices.shape = Shape(sizes);
  std::int64_t x_step = x.strides[axis];
  std::size_t unit = size_of(x.dtype);
  const auto can_double = [&] {
    if (unit == 16 || inner % 2 != 0 || x_step % 2 != 0) return false;
    for (int d = 0; d < axis; ++d) {
      if (sizes[static_cast<std::size_t>(d)] != 1 && slices.strides[d] % 2 != 0) return false;
    }
    return (reinterpret_cast<std::uintptr_t>(x.data) | reinterpret_cast<std::uintptr_t>(out.data)) % (2 * unit) == 0;
  };
  for (; can_double(); unit *= 2) {
    inner /= 2, x_step /= 2;
    for (int d = 0; d < axis; ++d) slices.strides[d] /= 2;
  }
  const RowLanes rows = lanes_for(inner, kGatherPacks);
  const std::int64_t length = index.shape.numel();
  const GatherRowsArgs<void, void> args{.x = kernel_view(slices),
                                        .index = index.data,
                                        .out = out.data,
                                        .index_step = index.strides[0],
                                        .x_step = x_step,
                                        .size = x.shape[axis],
                                        .length = length,
                                        .inner = inner,
                                        .lane_bits = lane_bits(rows),
                                        .tiles = rows.tiles,
                                        .complaints = check_index(mark, call, index, x.shape[axis])};
  const std::int64_t bytes = inner * static_cast<std::int64_t>(unit);
  if (unit < 16 && inner > 1 && bytes <= gpu.model().collected_row_bytes &&
      reinterpret_cast<std::uintptr_t>(out.data) % 16 == 0) {
    launch_elements(gpu, {index_text(index) + word_text(unit) + texts::gather_short_rows}, "gather_short_rows",
                    (slices.shape.numel() * length * bytes + 15) / 16, args);
    return true;
  }
  if (out.shape.numel() > 0)
    launch_elements(gpu, {index_text(index) + word_text(unit) + texts::gather_rows}, "gather_rows",
                    slices.shape.numel() * length * rows.tiles * rows.lanes, args);
  return true;
}

}  // namespace

void run_gather(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  View x = at_least_1d(call.inputs[0]), out = at_least_1d(call.outputs[0]);
  const View given = at_least_1d(call.inputs[1]);
  const int axis = axis_of(call);
  const bool select = call.op == Op::index_select;  // one index for a whole slice
  if (select && gather_rows(call, gpu, mark, x, given, out)) return;
  const std::size_t unit = select ? widen_slices(x, out, axis) : size_of(x.dtype);
  View index = given;
  if (select) {
    index.shape = out.shape;
    index.strides = Strides{};
    index.strides[axis] = given.strides[0];
  }
  launch_elements(gpu, {index_text(index) + word_text(unit) + texts::gather}, "gather",
                  (out.shape.numel() + kGatherEach - 1) / kGatherEach,
                  GatherArgs<void>{.index = kernel_view(index),
                                   .x = kernel_view(beside(x, index.shape, axis)),
                                   .out = out.data,
                                   .x_step = x.strides[axis],
                                   .size = x.shape[axis],
                                   .inner = select ? inner_of(out.shape, axis) : 0,
                                   .length = out.shape[axis],
                                   .complaints = check_index(mark, call, given, x.shape[axis])});
}

}  // namespace ebb::cuda
