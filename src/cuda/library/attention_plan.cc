// SPDX-License-Identifier: MIT
#include "cuda/library/attention_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;  // kernels count in 32 bits

int panels(int n) { return (n + 63) / 64; }

// A tile of k or v serves all own rows: with 128 of them, or 192 where registers allow, level 2 is read half or a third
// as often as with 64, which limited blocks of one warpgroup. A step is as wide as registers and shared memory allow.
//   registers of a consumer   sums of own rows, scores (and their gradients) of a step, and those rounded
AttentionTiling forward_tiling(int width, int values) {
  const int wider = std::max(width, values);
  if (wider <= 64) return {width, values, 3, 128, 2, 2, 160, 1};
  if (wider <= 128) return {width, values, 2, 128, 2, 2, 240, 1};
  if (wider <= 192) return {width, values, 2, 96, 2, 2, 240, 1};
  return {width, values, 2, 80, 2, 2, 240, 1};
}
AttentionTiling row_tiling(int width, int values) {
  const int wider = std::max(width, values);
  if (wider <= 64) return {width, values, 3, 64, 3, 2, 160, 1};
  if (wider <= 128) return {width, values, 2, 80, 3, 2, 240, 1};
  if (wider <= 192) return {width, values, 2, 64, 3, 2, 240, 1};
  return {width, values, 2, 32, 3, 2, 240, 1};
}
// Warps that copy need a few more registers here, for shifts and δ.
AttentionTiling column_tiling(int width, int values) {
  const int wider = std::max(width, values);
  if (wider <= 64) return {width, values, 1, 64, 3, 3, 216, 2};
  if (wider <= 96) return {width, values, 2, 64, 3, 3, 232, 1};
  if (wider <= 128) return {width, values, 2, 48, 3, 3, 232, 1};
  if (wider <= 192) return {width, values, 2, 48, 3, 2, 232, 1};
  return {width, values, 2, 32, 3, 2, 232, 1};
}

// Tensor maps copy tiles from version 12.0 on.
bool driver_copies_tiles() {
  static const bool can = [] {
    int version = 0;
    return driver().version(&version) == kSuccess && version >= 12'000;
  }();
  return can;
}

std::string head_of(const AttentionTiling& t, const AttentionPlan& p) {
  return fmt::format(
      "constexpr int kNumbers[] = {{{}, {}, {}, {}, {}, {}, {}, {}}};\nconstexpr bool kBf16 = {}, kMasked = {}, "
      "kDocuments = {};\n",
      t.width, t.values, t.consumers, t.step, t.stages, t.more_stages, t.registers, t.blocks, p.dtype == DType::bf16,
      p.masked, p.documents);
}
std::string text_of(const AttentionTiling& t) { return fmt::format("{} by {}", 64 * t.consumers, t.step); }

}  // namespace

// As kernels/attention_by_threads.cuh divides it: own rows, a step of the others, and weights.
std::int64_t bytes_of_threads(const AttentionPlan& p, bool both) {
  const auto row_of = [](std::int64_t n) { return (n + 15) / 16 * 16 + 4; };
  const std::int64_t d = row_of(p.width), e = row_of(p.values), own = kAttentionOwn;
  return 4 * (own * (d + (both ? e : 0)) + kAttentionStep * (d + e) + own * row_of(kAttentionStep));
}

// As the texts of kernels/attention_by_warps.cuh divide it: own rows, and two steps of the others. Tiles of warpgroups
// have rows without gaps and begin at multiples of 1024 bytes.
std::int64_t bytes_of_rows(const AttentionPlan& p, bool gradient) {
  if (p.path == AttentionPlan::Path::threads) return bytes_of_threads(p, gradient);
  const bool groups = p.path == AttentionPlan::Path::groups;
  const auto row_of = [&](std::int64_t n) { return (n + 15) / 16 * 16 + (groups ? 0 : 8); };
  const std::int64_t d = row_of(p.width), e = row_of(p.values), step = kAttentionStep * (d + e);
  const std::int64_t own = kAttentionOwn * p.slices;
  return (groups ? 1024 : 0) +
         (gradient ? 2 * (own * (d + e) + step + std::max(step, own * e)) : 2 * (own * d + 2 * step));
}
std::int64_t bytes_of_columns(const AttentionPlan& p) {
  if (p.path == AttentionPlan::Path::threads) return bytes_of_threads(p, true);
  const bool groups = p.path == AttentionPlan::Path::groups;
  const auto row_of = [&](std::int64_t n) { return (n + 15) / 16 * 16 + (groups ? 0 : 8); };
  return (groups ? 1024 : 0) +
         2 * (kAttentionOwn * p.slices + 2 * kAttentionStep) * (row_of(p.width) + row_of(p.values)) +
         4 * kAttentionStep * 4;
}

int shared_bytes(const AttentionTiling& t, bool two_own, bool numbers) {
  const int d = panels(t.width), e = panels(t.values);
  return 1024 + 128 * 64 * t.consumers * (d + (two_own ? e : 0)) + 128 * t.step * (d * t.stages + e * t.more_stages) +
         (numbers ? 8 * t.step * t.stages : 0) + 16 * (1 + t.stages + t.more_stages);
}

AttentionPlan pipelined_attention_plan(std::int64_t width, std::int64_t values, DType dtype, bool masked,
                                       bool documents) {
  const int d = static_cast<int>(width), e = static_cast<int>(values);
  AttentionPlan plan{.path = AttentionPlan::Path::pipeline,
                     .width = width,
                     .values = values,
                     .dtype = dtype,
                     .masked = masked,
                     .documents = documents};
  plan.forward = forward_tiling(d, e);
  plan.rows = row_tiling(d, e);
  plan.columns = column_tiling(d, e);
  if (std::max(d, e) > 128) plan.v_columns = {d, e, 2, std::max(d, e) > 192 ? 64 : 96, 2, 2, 232, 1};
  return plan;
}

namespace {

using Path = AttentionPlan::Path;

bool fits(const Gpu& gpu, const AttentionPlan& p, std::int64_t rest) {
  return std::max(bytes_of_rows(p, true), bytes_of_columns(p)) <= gpu.limits().shared - rest;
}

// Rows that tensor cores can take.
bool choose_products_of_halves(const Gpu& gpu, const AttentionCall& call, std::int64_t batches, std::int64_t rows,
                               std::int64_t columns, AttentionPlan& plan) {
  const std::int64_t width = plan.width, values = plan.values, wider = std::max(width, values);
  const bool scores_grow = call.scale > 0 && std::isfinite(call.scale);  // the largest product is the largest score
  if (!is_half(plan.dtype) || width % 8 != 0 || values % 8 != 0 || wider > 256 || !scores_grow) return false;
  // Short rows of 64 are faster in many small blocks: fewer of them wait for the first tile and for the last.
  if (gpu.architecture() == "sm_90" && width == 64 && values == 64 && columns < gpu.model().long_attention_rows &&
      !call.mask && !call.documents) {
    plan.path = Path::groups, plan.slices = 1;
    if (fits(gpu, plan, 0)) return true;
  }
  if (gpu.architecture() == "sm_90" && driver_copies_tiles()) {
    const AttentionPlan made = pipelined_attention_plan(width, values, plan.dtype, call.mask, call.documents);
    const int bytes = std::max({shared_bytes(made.forward, false, false), shared_bytes(made.rows, true, false),
                                shared_bytes(made.columns, true, true), shared_bytes(made.v_columns, false, true)});
    if (bytes <= gpu.limits().shared) return plan = made, true;
  }
  if (wider > 128 || call.mask || call.documents) return false;
  // Rows that share the data read for them are faster, as long as they fill the GPU and their sums fit registers.
  const bool many = batches * ((rows + 127) / 128) >= gpu.multiprocessors();
  for (const int s : {2, 1}) {
    if (s == 2 && (wider > 64 || !many)) continue;
    plan.path = Path::warps, plan.slices = s;
    if (fits(gpu, plan, kSharedOfText)) return true;
  }
  return false;
}

}  // namespace

AttentionPlan plan_attention(const Gpu& gpu, const AttentionCall& call, const View& q, const View& k, const View& v) {
  AttentionPlan plan{
      .width = q.shape[3], .values = v.shape[3], .dtype = q.dtype, .masked = call.mask, .documents = call.documents};
  const std::int64_t batches = q.shape[0] * q.shape[1], rows = q.shape[2], columns = k.shape[2];
  if (plan.width == 0 || plan.values == 0 || batches == 0 || rows == 0 || columns == 0 ||
      std::max(rows, columns) > kMost ||
      batches * ((std::max(rows, columns) + kAttentionOwn - 1) / kAttentionOwn) > kMost)
    return plan;
  if (choose_products_of_halves(gpu, call, batches, rows, columns, plan)) return plan;
  plan.path = Path::threads, plan.slices = 1;
  const std::int64_t widest = gpu.model().widest_attention_by_threads;
  if (compute_dtype(plan.dtype) == DType::f32 && std::max(plan.width, plan.values) <= widest &&
      fits(gpu, plan, kSharedOfText))
    return plan;
  plan.path = Path::products, plan.slices = 0;
  return plan;
}

std::string AttentionPlan::text() const {
  switch (path) {
    case Path::products:
      return "products over rows of scores";
    case Path::warps:
      return fmt::format("fused by warps, {} rows by {} columns", kAttentionOwn * slices, kAttentionStep);
    case Path::groups:
      return fmt::format("fused by single warpgroups, {} rows by {} columns", kAttentionOwn, kAttentionStep);
    case Path::threads:
      return fmt::format("fused by threads, {} rows by {} columns{}{}", kAttentionOwn, kAttentionStep,
                         masked ? ", masked" : "", documents ? ", documents" : "");
    case Path::pipeline:
      break;
  }
  return fmt::format("fused by warpgroups{}: values {}, dq {}, {} {}{}",
                     std::string(masked ? ", masked" : "") + (documents ? ", documents" : ""), text_of(forward),
                     text_of(rows), splits_columns() ? "dk" : "dk and dv", text_of(columns),
                     splits_columns() ? ", dv " + text_of(v_columns) : std::string());
}

KernelSource attention_source(const AttentionPlan& p) {
  if (p.path == Path::threads) {
    return {element_text(p.dtype) +
                fmt::format("constexpr int kWidth = {}, kValues = {};\nconstexpr bool kMasked = {}, kDocuments = {};\n",
                            p.width, p.values, p.masked, p.documents) +
                texts::attention_by_threads,
            false, true};
  }
  const bool groups = p.path == AttentionPlan::Path::groups;
  return {
      fmt::format("constexpr int kWidth = {}, kValues = {}, kSlices = {};\nconstexpr bool kGroups = {}, kBf16 = {};\n",
                  p.width, p.values, p.slices, groups, p.dtype == DType::bf16) +
          (groups ? texts::attention_by_groups : texts::attention_by_warps),
      groups, true};
}
KernelSource attention_forward_source(const AttentionPlan& p) {
  return {head_of(p.forward, p) + "constexpr bool kTurns = false;\n" + texts::attention_forward, true, true};
}
KernelSource attention_row_gradient_source(const AttentionPlan& p) {
  return {head_of(p.rows, p) + texts::attention_row_gradient, true, true};
}
KernelSource attention_column_gradient_source(const AttentionPlan& p, ColumnGradients makes) {
  return {head_of(makes == ColumnGradients::v ? p.v_columns : p.columns, p) +
              fmt::format("constexpr bool kMakesK = {}, kMakesV = {}, kAhead = true;\n", makes != ColumnGradients::v,
                          makes != ColumnGradients::k) +
              texts::attention_column_gradient,
          true, true};
}

}  // namespace ebb::cuda
