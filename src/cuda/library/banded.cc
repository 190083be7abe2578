// SPDX-License-Identifier: MIT
// weighted_gather by banded matrices: see kernels/banded.cuh.
#include "calls/banded.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/divisor.h"
#include "cuda/kernels/args/banded.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

// Taps of an unrolled loop: few texts, and none of many loads for few terms. 0: a loop that counts.
std::int64_t unrolled(std::int64_t taps) {
  for (const std::int64_t most : {1, 2, 4, 8}) {
    if (taps <= most) return most;
  }
  return 0;
}

}  // namespace

void run_banded(const LibraryCall& call, Gpu& gpu) {
  const auto& options = options_as<BandedCall>(call.attrs);
  const View& y = call.outputs[0];
  if (y.shape.numel() == 0) return;
  BufferPtr kept[3];
  const View x = packed(gpu, call.inputs[0], kept[0], label_of(call)),
             index = packed(gpu, call.inputs[1], kept[1], label_of(call)),
             weights = packed(gpu, call.inputs[2], kept[2], label_of(call));
  const GpuModel& model = gpu.model();
  const auto axes = static_cast<int>(options.axes);
  BandedArgs<void, void> args{};
  args.x = x.data;
  args.y = y.data;
  args.planes = y.shape[0];
  args.inner = y.shape[axes + 1];
  args.from = x.shape.numel() / args.planes;
  args.to = y.shape.numel() / args.planes;
  args.counts_narrow = std::max(x.shape.numel(), y.shape.numel()) >> 31 == 0;
  const Divisor by_inner = divisor_of(args.inner);
  args.by_inner = by_inner.factor;
  args.of_inner = by_inner.shift;
  std::int64_t taps[3] = {1, 1, 1};
  for (int a = 0; a < axes; ++a) {
    const BandedAxis axis = banded_axis(options, a, x.shape, y.shape);
    const Divisor by = divisor_of(axis.rows);
    taps[a] = axis.taps;
    args.sides[a] = {elements<i64>(index) + axis.index_at,
                     static_cast<std::byte*>(weights.data) + axis.weight_at * static_cast<i64>(size_of(weights.dtype)),
                     axis.rows,
                     axis.columns,
                     axis.taps,
                     by.factor,
                     by.shift};
  }
  // Planes that share the terms of an element, if there are threads enough.
  std::int64_t rows = 1, lanes = 1;
  while (rows < model.band_planes && y.shape.numel() / (2 * rows) >= model.band_threads && args.planes >= 2 * rows)
    rows *= 2;
  if (axes == 1 && taps[0] >= model.band_warp_taps && args.inner < 32) lanes = 32;
  if (axes == 1 && taps[0] >= model.band_block_taps) lanes = kThreads;
  const KernelSource source{
      element_text(y.dtype) +
      fmt::format("constexpr int kAxes = {}, kRows = {}, kLanes = {};\nconstexpr int kTaps[3] = {{{}, {}, {}}};\n",
                  axes, rows, std::max<std::int64_t>(lanes, 32), unrolled(taps[0]), unrolled(taps[1]),
                  unrolled(taps[2])) +
      texts::banded};
  if (lanes > 1) {
    launch_blocks(gpu, source, "multiply_long_band", (y.shape.numel() * lanes + kThreads - 1) / kThreads, args);
  } else {
    launch_elements(gpu, source, "multiply_bands", (args.planes + rows - 1) / rows * args.to, args);
  }
}

}  // namespace ebb::cuda
