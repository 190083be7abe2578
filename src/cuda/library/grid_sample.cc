// SPDX-License-Identifier: MIT
// grid_sample and its gradients: see kernels/grid_sample.cuh.
#include "calls/grid_sample.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include "cuda/kernels/args/grid_sample.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

static_assert(kGridReach == GridAxis::kReach);

constexpr const char* kGridName = "grid_sample";

GridNumber number(double x) { return {x, static_cast<f32>(x), 0}; }

struct GridTask {
  std::int64_t axes, taps, rows, row_groups;
  GridArgs<void, void, void> args{};
  bool narrow_keys;

  GridTask(const LibraryCall& call, const View& x, const View& y, const View& grid)
      : axes(x.shape.rank() - 2), taps(options_as<GridSampleCall>(call.attrs).taps), call_(call), dtype_(x.dtype) {
    const auto& sample = options_as<GridSampleCall>(call.attrs);
    args.x = x.data;
    args.y = y.data;
    args.grid = grid.data;
    args.images = x.shape[0];
    args.channels = x.shape[1];
    args.points = grid.shape[1];
    args.elements = args.cells = 1;
    for (std::int64_t a = 0; a < axes; ++a) {
      const GridAxis axis(sample, x.shape[static_cast<int>(axes + 1 - a)]);
      args.sides[a] = {number(axis.scale), number(axis.shift), number(axis.span),
                       number(axis.last(compute_dtype(dtype_))), axis.size};
      args.elements *= axis.size;
      args.cells *= axis.size + taps - 1;
    }
    rows = std::clamp<std::int64_t>(args.channels, 1, kGridChannels);
    row_groups = args.images * ((args.channels + rows - 1) / rows);
    narrow_keys = args.cells < std::numeric_limits<i32>::max();
  }
  KernelSource source(int lanes = 1) const {
    const auto padding = options_as<GridSampleCall>(call_.attrs).padding;
    return {element_text(dtype_) +
            fmt::format("typedef {} K;\nconstexpr int kAxes = {}, kTaps = {}, kLanes = {}, kRows = {};\n"
                        "constexpr bool kReflects = {}, kClamps = {};\n",
                        narrow_keys ? "i32" : "i64", axes, taps, lanes, rows, padding == GridSampleCall::reflection,
                        padding != GridSampleCall::zeros) +
            texts::grid_sample};
  }
  std::int64_t all_taps() const { return axes == 3 ? taps * taps * taps : taps * taps; }

 private:
  const LibraryCall& call_;
  DType dtype_;
};

// Lanes that share the channels of a point: more where points are few.
int lanes_of_point(const GridArgs<void, void, void>& a, const GpuModel& model) {
  int lanes = 1;
  while (lanes < 32 && a.images * a.points * lanes < model.grid_threads &&
         a.channels >= 2 * lanes * model.grid_lane_channels)
    lanes *= 2;
  return lanes;
}

}  // namespace

void run_grid_sample(const LibraryCall& call, Gpu& gpu) {
  BufferPtr kept_x, kept_grid;
  const View x = packed(gpu, call.inputs[0], kept_x, kGridName),
             grid = packed(gpu, call.inputs[1], kept_grid, kGridName);
  const GridTask t(call, x, call.outputs[0], grid);
  launch_elements(gpu, t.source(), "sample", t.row_groups * t.args.points, t.args);
}

void run_grid_sample_grid_gradient(const LibraryCall& call, Gpu& gpu) {
  BufferPtr kept_x, kept_y, kept_grid;
  const View y = packed(gpu, call.inputs[0], kept_y, kGridName), x = packed(gpu, call.inputs[1], kept_x, kGridName);
  const View grid = packed(gpu, call.inputs[2], kept_grid, kGridName);
  GridTask t(call, x, y, grid);
  t.args.gradient = call.outputs[0].data;
  const int lanes = lanes_of_point(t.args, gpu.model());
  launch_elements(gpu, t.source(lanes), "grid_gradient", t.args.images * t.args.points * lanes, t.args);
}

void run_grid_sample_image_gradient(const LibraryCall& call, Gpu& gpu) {
  BufferPtr kept_y, kept_grid, kept[5];
  const View y = packed(gpu, call.inputs[0], kept_y, kGridName),
             grid = packed(gpu, call.inputs[1], kept_grid, kGridName);
  const View& x = call.outputs[0];
  if (x.shape.numel() == 0) return;
  GridTask t(call, x, y, grid);
  GridArgs<void, void, void>& a = t.args;
  const Shape lines{a.images, a.points};
  const DType of_keys = t.narrow_keys ? DType::i32 : DType::i64;
  const View keys = workspace(gpu, of_keys, lines, kept[0], kGridName),
             sorted = workspace(gpu, of_keys, lines, kept[4], kGridName);
  const View order = workspace(gpu, DType::i64, lines, kept[1], kGridName);
  const View starts = workspace(gpu, DType::i64, Shape{a.images, a.cells + 1}, kept[2], kGridName);
  // One more, for the total. A point is near as many elements as it has taps.
  const View many =
      workspace(gpu, DType::i64, Shape{lines.numel() * t.all_taps() / kManyGridPoints + 1}, kept[3], kGridName);
  a.keys = keys.data;
  a.sorted = sorted.data;
  a.order = elements<i64>(order);
  a.starts = elements<i64>(starts);
  a.many = elements<i64>(many) + 1;
  a.many_count = elements<u32>(many);
  gpu.clear(many.data, sizeof(i64));
  const KernelSource source = t.source();
  launch_elements(gpu, source, "find_cells", lines.numel(), a);
  argsort_keys(gpu, keys, 1, a.cells, order, sorted.data);
  launch_elements(gpu, source, "find_starts", a.images * (a.points + 1), a);
  launch_elements(gpu, source, "add_points", t.row_groups * a.elements, a);
  if (many.shape.numel() > 1)
    launch_blocks(gpu, source, "add_many_points",
                  std::min<std::int64_t>((many.shape.numel() * t.row_groups + 7) / 8, 4 * gpu.multiprocessors()), a);
}

}  // namespace ebb::cuda
