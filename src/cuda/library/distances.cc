// SPDX-License-Identifier: MIT
#include "calls/distances.h"

#include <fmt/format.h>
#include "cuda/kernels/args/distances.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

struct DistanceTask {
  DistanceArgs<void> args{};
  KernelSource source;
  std::int64_t lanes = 1;  // of a distance
  BufferPtr kept[2];

  // Rows are the inputs from `first` on.
  DistanceTask(const LibraryCall& call, Gpu& gpu, std::size_t first) {
    const auto& options = options_as<DistanceCall>(call.attrs);
    const View a = packed(gpu, call.inputs[first], kept[0], label_of(call));
    const View b = options.pairs ? a : packed(gpu, call.inputs[first + 1], kept[1], label_of(call));
    const int rank = a.shape.rank();
    args.a = a.data;
    args.b = b.data;
    args.out = call.outputs[0].data;
    args.batches = rank == 3 ? a.shape[0] : 1;
    args.m = a.shape[rank - 2];
    args.n = b.shape[rank - 2];
    args.depth = a.shape[rank - 1];
    lanes = args.depth < 32 ? 1 : 32;
    source = {element_text(a.dtype) +
              fmt::format("constexpr int kPower = {}, kLanes = {};\nconstexpr bool kPairs = {};\n", options.p, lanes,
                          options.pairs) +
              texts::distances};
  }
};

}  // namespace

void run_distances(const LibraryCall& call, Gpu& gpu) {
  if (call.outputs[0].shape.numel() == 0) return;
  const DistanceTask t(call, gpu, 0);
  launch_elements(gpu, t.source, "distances", t.args.batches * t.args.m * t.args.n * t.lanes, t.args);
}

void run_distances_gradient(const LibraryCall& call, Gpu& gpu) {
  if (call.outputs[0].shape.numel() == 0) return;
  DistanceTask t(call, gpu, 2);
  BufferPtr kept_g, kept_d;
  View g = call.inputs[0], d = call.inputs[1];
  if (options_as<DistanceCall>(call.attrs).pairs) {
    g = packed(gpu, g, kept_g, label_of(call));
    d = packed(gpu, d, kept_d, label_of(call));
  } else {
    t.args.grad_batch = g.strides[0], t.args.grad_row = g.strides[1], t.args.grad_column = g.strides[2];
    t.args.distance_batch = d.strides[0], t.args.distance_row = d.strides[1], t.args.distance_column = d.strides[2];
  }
  t.args.grad = g.data;
  t.args.distances = d.data;
  launch_elements(gpu, t.source, "gradient", t.args.batches * t.args.m * t.args.depth, t.args);
}

}  // namespace ebb::cuda
