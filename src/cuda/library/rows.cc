// SPDX-License-Identifier: MIT
// sparsemax_threshold and multilabel_hinges: a block per row, or several.
#include <fmt/format.h>

#include <algorithm>

#include "core/ceil_div.h"
#include "cuda/kernels/args/rows.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {

namespace {

// The length of a row alone decides, so that its bits do not depend on the batch.
void long_sparsemax(Gpu& gpu, const View& x, const View& lines, int axis, const View& out) {
  const GpuModel& model = gpu.model();
  const std::int64_t length = x.shape[axis], rows = lines.shape.numel(),
                     piece = std::max(model.threshold_piece, ceil_div(length, model.most_threshold_pieces)),
                     pieces = ceil_div(length, piece);
  BufferPtr keep[4];
  const char* const what = "sparsemax_threshold";
  LongSparsemaxArgs<void> args{
      .x = kernel_view(lines),
      .out = out.data,
      .length = length,
      .column = x.strides[axis],
      .piece = piece,
      .pieces = pieces,
      .step = 0,
      .tops = elements<f64>(workspace(gpu, DType::f64, Shape{rows * pieces}, keep[0], what)),
      .sums = elements<f64>(workspace(gpu, DType::f64, Shape{2 * rows * pieces}, keep[1], what)),
      .counts = elements<i64>(workspace(gpu, DType::i64, Shape{2 * rows * pieces}, keep[2], what)),
      .before = elements<i64>(workspace(gpu, DType::i64, Shape{2 * rows}, keep[3], what))};
  const KernelSource source{element_text(x.dtype) + texts::long_sparsemax};
  launch_blocks(gpu, source, "tops_of_pieces", rows * pieces, args);
  for (; args.step < model.threshold_steps; ++args.step) launch_blocks(gpu, source, "add_above", rows * pieces, args);
  launch_blocks(gpu, source, "finish_thresholds", rows, args);
}

}  // namespace

void run_sparsemax_threshold(const LibraryCall& call, Gpu& gpu) {
  const View& x = call.inputs[0];
  const int axis = static_cast<int>(call.attrs.i[0]);
  View lines = x;
  lines.shape = x.shape.with(axis, 1);
  if (lines.shape.numel() == 0) return;
  if (x.shape[axis] >= gpu.model().long_threshold_row) return long_sparsemax(gpu, x, lines, axis, call.outputs[0]);
  launch_blocks(
      gpu, {element_text(x.dtype) + texts::sparsemax}, "thresholds", lines.shape.numel(),
      SparsemaxArgs<void>{
          .x = kernel_view(lines), .out = call.outputs[0].data, .length = x.shape[axis], .step = x.strides[axis]});
}

void run_multilabel_hinges(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const View &x = call.inputs[0], &target = call.inputs[1];
  const int last = x.shape.rank() - 1;
  const std::int64_t rows = last > 0 ? x.shape[0] : 1, classes = x.shape[last];
  if (rows == 0) return;
  BufferPtr keep;
  const View listed = workspace(gpu, DType::u8, Shape{rows, classes}, keep, "multilabel_margin_loss");
  const bool slopes = call.outputs.size() > 1, scaled = call.inputs.size() > 2;
  const std::uint64_t step = mark.add_step([=](int, std::int64_t position, std::uint64_t bits) {
    return Error(Error::Kind::index, fmt::format("multilabel_margin_loss: target[{}{}] = {} is outside [0, {})",
                                                 last > 0 ? fmt::format("{}, ", position / classes) : "",
                                                 position % classes, static_cast<std::int64_t>(bits), classes));
  });
  const std::string types =
      element_text(x.dtype) + fmt::format("typedef {} I;\n", target.dtype == DType::i32 ? "i32" : "i64");
  launch_blocks(gpu, {types + texts::hinges}, "hinges", rows,
                HingesArgs<void, void, void>{.x = x.data,
                                             .target = target.data,
                                             .scale = scaled ? call.inputs[2].data : nullptr,
                                             .sums = call.outputs[0].data,
                                             .gradient = slopes ? call.outputs[1].data : nullptr,
                                             .listed = elements<u8>(listed),
                                             .rows = rows,
                                             .classes = classes,
                                             .x_row = last > 0 ? x.strides[0] : 0,
                                             .x_step = x.strides[last],
                                             .target_row = last > 0 ? target.strides[0] : 0,
                                             .target_step = target.strides[last],
                                             .scale_step = scaled && last > 0 ? call.inputs[2].strides[0] : 0,
                                             .complaints = {mark.slot(), static_cast<i64>(step)}});
}

}  // namespace ebb::cuda
