// SPDX-License-Identifier: MIT
#include "cuda/library/weight_gradient.h"

#include <fmt/format.h>

#include <algorithm>

#include "calls/convolution.h"
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"
#include "ebb/memory.h"

namespace ebb::cuda {
namespace {

// The side of a tile that wastes least of 16, 32 and 64.
int tile_side(std::int64_t n) { return n <= 16 ? 16 : n <= 32 ? 32 : 64; }

std::int64_t divided_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

KernelSource source_of(int tile_m, int tile_n) {
  return {fmt::format("constexpr int kTileM = {}, kTileN = {};\n", tile_m, tile_n) + texts::weight_gradient};
}

struct GradientSizes {
  const ConvCall& o;
  std::int64_t outputs, depth, positions;  // outputs of a group

  explicit GradientSizes(const LibraryCall& call)
      : o(options_as<ConvCall>(call.attrs)),
        outputs(call.outputs[0].shape[0] / o.groups),
        depth(call.outputs[0].shape.numel() / std::max<std::int64_t>(1, call.outputs[0].shape[0])),
        positions(call.inputs[1].shape[0] * call.inputs[1].shape[2] * call.inputs[1].shape[3]) {}
};

}  // namespace

std::optional<WeightGradientPlan> plan_weight_gradient(const LibraryCall& call, const GpuModel& model) {
  const View &x = call.inputs[0], &y = call.inputs[1], &w = call.outputs[0];
  if (w.dtype != DType::f32 || tf32() || options_as<ConvCall>(call.attrs).last) return {};
  const GradientSizes z(call);
  // Few outputs per group would leave most of a tile empty: those of one channel have another kernel.
  if (z.o.groups > 1 && z.outputs < 8) return {};
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // positions and places in an image are 32-bit numbers
  const auto reach = [&](int d) {
    const auto axis = static_cast<std::size_t>(d - 2);
    return w.shape[d] * z.o.dilation[axis] + y.shape[d] * z.o.stride[axis] + z.o.padding[axis];
  };
  if (z.positions >= kMost || reach(2) >= kMost || reach(3) >= kMost || x.shape[2] >= kMost || x.shape[3] >= kMost)
    return {};
  WeightGradientPlan plan{tile_side(z.outputs), tile_side(z.depth)};
  const std::int64_t tiles = z.o.groups * divided_up(z.outputs, plan.tile_m) * divided_up(z.depth, plan.tile_n);
  if (tiles > model.most_blocks) return {};
  const std::int64_t steps = divided_up(z.positions, kGradientStep);
  const std::int64_t parts =
      std::clamp<std::int64_t>(model.weight_gradient_blocks / tiles, 1, divided_up(steps, model.weight_gradient_steps));
  plan.each = divided_up(steps, parts) * kGradientStep;
  plan.parts = divided_up(z.positions, plan.each);
  return plan;
}

std::string describe(const WeightGradientPlan& plan) {
  return fmt::format("tiles of {} by {}, {} part{} of {} positions", plan.tile_m, plan.tile_n, plan.parts,
                     plan.parts == 1 ? "" : "s", plan.each);
}

void run_weight_gradient(const LibraryCall& call, Gpu& gpu, const WeightGradientPlan& plan) {
  const View &x = call.inputs[0], &y = call.inputs[1], &w = call.outputs[0];
  const GradientSizes z(call);
  BufferPtr keep;
  View parts = w;
  if (plan.parts > 1) parts = workspace(gpu, w.dtype, Shape{plan.parts, w.shape.numel()}, keep, label_of(call));
  WeightGradientArgs args{.x = elements<f32>(x),
                          .y = elements<f32>(y),
                          .parts = elements<f32>(parts),
                          .positions = z.positions,
                          .each = plan.each,
                          .outputs = z.outputs,
                          .tiles_m = divided_up(z.outputs, plan.tile_m),
                          .tiles_n = divided_up(z.depth, plan.tile_n),
                          .x_n = x.strides[0],
                          .x_c = x.strides[1],
                          .x_h = x.strides[2],
                          .x_w = x.strides[3],
                          .y_n = y.strides[0],
                          .y_c = y.strides[1],
                          .y_h = y.strides[2],
                          .y_w = y.strides[3],
                          .windows = {.groups = z.o.groups,
                                      .channels = w.shape[1],
                                      .height = x.shape[2],
                                      .width = x.shape[3],
                                      .rows = y.shape[2],
                                      .columns = y.shape[3],
                                      .taps_h = w.shape[2],
                                      .taps_w = w.shape[3],
                                      .stride_h = z.o.stride[0],
                                      .stride_w = z.o.stride[1],
                                      .padding_h = z.o.padding[0],
                                      .padding_w = z.o.padding[1],
                                      .dilation_h = z.o.dilation[0],
                                      .dilation_w = z.o.dilation[1]}};
  launch_blocks(gpu, source_of(plan.tile_m, plan.tile_n), "weight_gradient",
                plan.parts * z.o.groups * args.tiles_m * args.tiles_n, args);
  if (plan.parts > 1) add_gradients(gpu, parts, w);
}

void add_gradients(Gpu& gpu, const View& parts, const View& out) {
  const std::int64_t n = out.shape.numel();
  launch_blocks(
      gpu, source_of(16, 16), "add_gradients", divided_up(n, 32),
      AddGradientsArgs{.parts = elements<f32>(parts), .out = elements<f32>(out), .n = n, .count = parts.shape[0]});
}

}  // namespace ebb::cuda
