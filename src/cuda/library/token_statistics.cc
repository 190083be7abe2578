// SPDX-License-Identifier: MIT
// Statistics of rows of logits. On Hopper a product of our own leaves sums over 256 columns, and no logits
// (kernels/token_statistics.cuh); elsewhere products of a part of the rows are stored.
#include <algorithm>
#include <numbers>

#include "calls/linear_cross_entropy.h"
#include "cuda/kernels/args/token_statistics.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"
#include "cuda/library/token_statistics.h"
#include "cuda/library/wide_product.h"

namespace ebb::cuda {
namespace {

constexpr const char* kStatisticsName = "linear_log_probs";

}  // namespace

KernelSource token_statistics_source(bool entropy, bool argmax) {
  const auto text = [](bool x) { return x ? "true" : "false"; };
  return {std::string("constexpr bool kEntropy = ") + text(entropy) + ", kArgmax = " + text(argmax) + ";\n" +
              texts::token_statistics,
          true, true};
}

void run_token_statistics(const LibraryCall& call, Gpu& gpu) {
  const TokenStatisticsCall& o = *statistics_options(call.attrs);
  const GpuModel& model = gpu.model();
  BufferPtr keep[5];
  const View x = packed(gpu, call.inputs[0], keep[0], kStatisticsName),
             head = packed(gpu, call.inputs[1], keep[1], kStatisticsName);
  const View& target = call.inputs[2];
  WideFactors factors{
      .rows = x.shape[0], .classes = head.shape[0], .width = x.shape[1], .x = x.data, .head = head.data};
  const std::int64_t rows = factors.rows, classes = factors.classes, tiles = tiles_of(classes);
  if (rows == 0) return;
  const bool wide = !model.each_row_anew && can_be_wide(gpu, factors, StatisticsTile::kSharedBytes);
  const std::int64_t row_bytes = static_cast<std::int64_t>(sizeof(StatisticsPart)) * tiles + (wide ? 0 : 4 * classes);
  const std::int64_t most = std::max(model.part_bytes / row_bytes / model.head_rows, std::int64_t{1}) * model.head_rows;
  const std::int64_t chunk = std::min(rows, o.chunk > 0 && !wide ? o.chunk : most);
  const View parts = workspace(gpu, DType::f32, Shape{chunk, 4 * tiles}, keep[2], kStatisticsName);
  const View own = workspace(gpu, DType::f32, Shape{chunk}, keep[3], kStatisticsName);
  const View products = wide ? View{} : workspace(gpu, DType::f32, Shape{chunk, classes}, keep[4], kStatisticsName);
  const View turned{head.data, head.dtype, Shape{head.shape[1], classes}, {head.strides[1], head.strides[0]}};
  StatisticsRowsArgs args{.parts = static_cast<StatisticsPart*>(parts.data),
                          .own = elements<f32>(own),
                          .products = elements<f32>(products),
                          .target = nullptr,
                          .out = nullptr,
                          .rows = 0,
                          .classes = classes,
                          .step = classes,
                          .tiles = tiles,
                          .target_step = target.strides[0],
                          .entropy = o.entropy,
                          .argmax = o.argmax,
                          .factor = static_cast<f32>(o.factor * std::numbers::log2e),
                          .unused = 0};
  const KernelSource by_rows{texts::statistics_rows};
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const View some = part_of(x, 0, first, std::min(chunk, rows - first));
    args.rows = factors.rows = some.shape[0];
    args.target = reinterpret_cast<const i64*>(element_at(target, first * target.strides[0]));
    args.out = reinterpret_cast<f32*>(element_at(call.outputs[0], first * o.columns()));
    factors.x = some.data;
    if (wide) {
      launch_wide(gpu, token_statistics_source(o.entropy, o.argmax), "token_statistics", factors,
                  TokenStatisticsArgs{.product = wide_product_args(factors),
                                      .parts = args.parts,
                                      .own = args.own,
                                      .target = args.target,
                                      .target_step = args.target_step,
                                      .factor = args.factor,
                                      .unused = 0,
                                      .further = {}},
                  StatisticsTile::kSharedBytes);
    } else {
      multiply_floats(gpu, some, turned, part_of(products, 0, 0, args.rows));
      launch_blocks(gpu, by_rows, "parts_of_products", (args.rows * tiles + kPartsOfBlock - 1) / kPartsOfBlock, args);
    }
    launch_blocks(gpu, by_rows, "statistics_of_parts", args.rows, args);
  }
}

}  // namespace ebb::cuda
