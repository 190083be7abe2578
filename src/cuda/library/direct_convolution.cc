// SPDX-License-Identifier: MIT
#include "cuda/library/direct_convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/ceil_div.h"
#include "cuda/kernels/args/direct.h"
#include "cuda/kernels/args/window.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"
#include "cuda/library/weight_gradient.h"
#include "ebb/memory.h"

namespace ebb::cuda {
namespace {

bool is_depthwise(const ConvCall& o, const View& w) { return o.groups > 1 && w.shape[1] == 1; }

// Whether places and positions are 32-bit numbers.
bool fits_kernels(const ConvCall& o, const View& x, const View& w, const View& y) {
  constexpr std::int64_t kMost = std::int64_t{1} << 29, kMostElements = std::int64_t{1} << 32;
  for (const int d : {2, 3}) {
    const auto axis = static_cast<std::size_t>(d - 2);
    if (x.shape[d] >= kMost || y.shape[d] * o.stride[axis] >= kMost ||
        w.shape[d] * o.dilation[axis] + o.padding[axis] >= kMost)
      return false;
  }
  const auto positions = [](const View& v) { return v.shape[0] * v.shape[2] * v.shape[3]; };
  return std::max(x.shape.numel(), y.shape.numel()) < kMostElements && positions(x) < kMost && positions(y) < kMost &&
         w.shape[2] * w.shape[3] < kMost;
}

// The view itself if offsets into a channel of it fit 32 bits, else a copy.
View with_small_offsets(Gpu& gpu, const View& v, BufferPtr& keep) {
  std::int64_t last = 0;
  bool forwards = true;
  for (const int d : {0, 2, 3}) {
    last += (v.shape[d] - 1) * v.strides[d];
    forwards = forwards && (v.strides[d] >= 0 || v.shape[d] == 1);
  }
  return forwards && last < std::int64_t{1} << 32 ? v : packed(gpu, v, keep, "convolution");
}

// Equal tiles of up to 16 channels.
int channels_of_tile(std::int64_t n) {
  return static_cast<int>(std::max<std::int64_t>(1, ceil_div(n, std::max<std::int64_t>(1, ceil_div(n, 16)))));
}

DirectAxis direct_axis(bool forward, const ConvCall& o, std::size_t axis, const View& x, const View& w, const View& y) {
  const int d = static_cast<int>(axis) + 2;
  const std::int64_t stride = o.stride[axis], dilation = o.dilation[axis], up = forward ? 1 : stride;
  return {.taps = w.shape[d],
          .up = up,
          .down = forward ? stride : 1,
          .sign = forward ? -1 : 1,
          .padding = o.padding[axis],
          .dilation = dilation,
          .period = up / std::gcd(up, dilation),
          .source = (forward ? x : y).shape[d],
          .result = (forward ? y : x).shape[d]};
}

}  // namespace

std::optional<DirectPlan> plan_direct_convolution(ConvolutionResult result, const ConvCall& o, const View& x,
                                                  const View& w, const View& y, const GpuModel& model) {
  const DType dtype = x.dtype;
  if (o.last || dtype == DType::f64 || y.dtype != dtype || result == ConvolutionResult::w || !fits_kernels(o, x, w, y))
    return {};
  const bool forward = result == ConvolutionResult::y, exact = dtype == DType::f32 && !tf32();
  const bool strided = o.stride[0] > 1 || o.stride[1] > 1;
  const std::int64_t source = forward ? w.shape[1] : w.shape[0] / o.groups;
  const std::int64_t channels = forward ? w.shape[0] / o.groups : w.shape[1];
  const std::int64_t classes = forward ? 1 : o.stride[0] * o.stride[1];
  if (classes > model.direct_classes) return {};
  if (!is_depthwise(o, w) && (forward || !exact || (!strided && channels > model.direct_channels))) return {};
  DirectPlan plan;
  plan.channels = channels_of_tile(channels);
  plan.deep = source == 1 ? 1 : source <= 4 ? 4 : 8;
  const View& to = forward ? y : x;
  const std::int64_t positions = to.shape[0] * to.shape[2] * to.shape[3] / classes;
  while (plan.positions > 1 &&
         ceil_div(positions, plan.positions * kThreads) * classes * o.groups * ceil_div(channels, plan.channels) <
             model.direct_blocks)
    plan.positions /= 2;
  return plan;
}

std::string describe(const DirectPlan& plan) {
  return fmt::format("direct: {} channel{} of {} position{} per thread", plan.channels, plan.channels == 1 ? "" : "s",
                     plan.positions, plan.positions == 1 ? "" : "s");
}

void run_direct_convolution(Gpu& gpu, ConvolutionResult kind, const ConvCall& o, const View& x, const View& w,
                            const View& y, const View& bias, const DirectPlan& plan) {
  const bool forward = kind == ConvolutionResult::y;
  BufferPtr keep;
  const View source = with_small_offsets(gpu, forward ? x : y, keep), result = forward ? y : x;
  DirectArgs<void> args{.source = source.data,
                        .weights = w.data,
                        .bias = bias.data,
                        .result = result.data,
                        .blocks = 0,
                        .images = result.shape[0],
                        .source_channels = source.shape[1] / o.groups,
                        .result_channels = result.shape[1] / o.groups,
                        .tiles = ceil_div(result.shape[1] / o.groups, plan.channels),
                        .blocks_of_positions = 0,
                        .bias_step = bias.data ? bias.strides[0] : 0,
                        .source_n = source.strides[0],
                        .source_c = source.strides[1],
                        .source_h = source.strides[2],
                        .source_w = source.strides[3],
                        .weight_g = w.shape[0] / o.groups * w.strides[0],
                        .weight_to = w.strides[forward ? 0 : 1],
                        .weight_from = w.strides[forward ? 1 : 0],
                        .weight_h = w.strides[2],
                        .weight_w = w.strides[3],
                        .result_n = result.strides[0],
                        .result_c = result.strides[1],
                        .result_h = result.strides[2],
                        .result_w = result.strides[3],
                        .rows = direct_axis(forward, o, 0, x, w, y),
                        .columns = direct_axis(forward, o, 1, x, w, y)};
  const std::int64_t positions =  // of the first class, which has most
      args.images * ceil_div(args.rows.result, args.rows.up) * ceil_div(args.columns.result, args.columns.up);
  args.blocks_of_positions = ceil_div(positions, plan.positions * kThreads);
  args.blocks = args.blocks_of_positions * args.rows.up * args.columns.up * args.tiles * o.groups;
  const std::string sizes = fmt::format("constexpr int kChannels = {}, kPositions = {}, kDeep = {};\n", plan.channels,
                                        plan.positions, plan.deep);
  launch_blocks(gpu, {element_text(x.dtype) + sizes + texts::direct}, "direct_convolution", args.blocks, args);
}

std::optional<DepthwisePlan> plan_depthwise_gradient(const ConvCall& o, const View& x, const View& w, const View& y,
                                                     const GpuModel& model) {
  if (!is_depthwise(o, w) || o.last || x.dtype == DType::f64 || !fits_kernels(o, x, w, y)) return {};
  const std::int64_t taps = w.shape[2] * w.shape[3], positions = y.shape[0] * y.shape[2] * y.shape[3];
  DepthwisePlan plan;
  plan.taps = static_cast<int>(std::min<std::int64_t>(taps, model.depthwise_taps));
  const std::int64_t units = w.shape[0] * ceil_div(taps, plan.taps);
  if (units > model.most_blocks) return {};
  const std::int64_t steps = ceil_div(positions, kThreads);
  const std::int64_t parts =
      std::clamp<std::int64_t>(model.weight_gradient_blocks / units, 1, ceil_div(steps, model.depthwise_steps));
  plan.each = ceil_div(steps, parts) * kThreads;
  plan.parts = ceil_div(positions, plan.each);
  return plan;
}

std::string describe(const DepthwisePlan& plan) {
  return fmt::format("{} tap{} per block, {} part{} of {} positions", plan.taps, plan.taps == 1 ? "" : "s", plan.parts,
                     plan.parts == 1 ? "" : "s", plan.each);
}

void run_depthwise_gradient(Gpu& gpu, const ConvCall& o, const View& x, const View& w, const View& y,
                            const DepthwisePlan& plan) {
  constexpr const char* kWhat = "conv_weight_gradient";
  const std::int64_t taps = w.shape[2] * w.shape[3], n = w.shape.numel(), chunks = ceil_div(taps, plan.taps);
  BufferPtr keep_sums, keep_parts;
  const View sums = w.dtype == DType::f32 ? w : workspace(gpu, DType::f32, w.shape, keep_sums, kWhat);
  const View parts = plan.parts == 1 ? sums : workspace(gpu, DType::f32, Shape{plan.parts, n}, keep_parts, kWhat);
  const DepthwiseArgs<void> args{.x = x.data,
                                 .y = y.data,
                                 .parts = elements<f32>(parts),
                                 .positions = y.shape[0] * y.shape[2] * y.shape[3],
                                 .each = plan.each,
                                 .outputs = w.shape[0],
                                 .per_channel = w.shape[0] / o.groups,
                                 .chunks = chunks,
                                 .x_n = x.strides[0],
                                 .x_c = x.strides[1],
                                 .x_h = x.strides[2],
                                 .x_w = x.strides[3],
                                 .y_n = y.strides[0],
                                 .y_c = y.strides[1],
                                 .y_h = y.strides[2],
                                 .y_w = y.strides[3],
                                 .height = x.shape[2],
                                 .width = x.shape[3],
                                 .rows = y.shape[2],
                                 .columns = y.shape[3],
                                 .taps_h = w.shape[2],
                                 .taps_w = w.shape[3],
                                 .stride_h = o.stride[0],
                                 .stride_w = o.stride[1],
                                 .padding_h = o.padding[0],
                                 .padding_w = o.padding[1],
                                 .dilation_h = o.dilation[0],
                                 .dilation_w = o.dilation[1]};
  const std::string sizes = fmt::format("constexpr int kTaps = {};\n", plan.taps);
  launch_blocks(gpu, {element_text(x.dtype) + sizes + texts::depthwise_gradient}, "depthwise_gradient",
                plan.parts * w.shape[0] * chunks, args);
  if (plan.parts > 1) add_gradients(gpu, parts, sums);
  if (w.dtype != DType::f32) convert_elements(gpu, w, sums);
}

}  // namespace ebb::cuda
