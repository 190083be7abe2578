// SPDX-License-Identifier: MIT
// Launches of the fused kernels of attention.
#include <algorithm>

#include "backend/attention_results.h"
#include "cuda/library/attention_plan.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

using Path = AttentionPlan::Path;

// Whether 16 bytes of a row can be read at a time.
bool is_wide(const View& x) {
  bool good = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
  for (const int axis : {0, 1, 2})
    good = good && (x.shape[axis] == 1 || x.strides[axis] * static_cast<std::int64_t>(size_of(x.dtype)) % 16 == 0);
  return good;
}
// Makes a view readable by the kernels. Those by threads take rows from anywhere; copies of tiles allow no strides of 0.
View readable(Gpu& gpu, const View& x, Path path, BufferPtr& keep) {
  bool good = x.strides[3] == 1 || x.shape[3] == 1;
  if (path != Path::threads) good = good && is_wide(x);
  if (path == Path::pipeline) {
    for (const int axis : {0, 1, 2}) good = good && (x.shape[axis] == 1 || x.strides[axis] > 0);
  }
  if (good) return x;
  const View to = dense(x, x.dtype, keep, gpu, "attention");
  copy_elements(gpu, to, x);
  return to;
}
// Keys and values shared by several heads, as one head, by a stride of 0.
View without_copies(View x) {
  x.shape = x.shape.with(1, 1);
  return x;
}
AttentionMatrix matrix(const View& x) {
  return {elements<u16>(x), x.data ? x.strides[0] : 0, x.data ? x.strides[1] : 0, x.data ? x.strides[2] : 0};
}

struct AttentionViews {
  View q, k, v, o, g, dq, dk, dv;
  void* lse = nullptr;
  void* delta = nullptr;
  const View* mask = nullptr;
  void* documents = nullptr;
  std::int64_t groups = 1, shared = 1;  // heads of q for one of k, heads of k that are one in memory

  std::int64_t batches() const { return q.shape[0] * q.shape[1]; }
};

// By warps, single warpgroups or threads.
void launch(Gpu& gpu, const AttentionPlan& plan, const AttentionCall& call, const char* kernel, std::int64_t batches,
            std::int64_t length, std::int64_t bytes, const AttentionViews& m) {
  const FusedAttentionArgs args{.q = matrix(m.q),
                                .k = matrix(m.k),
                                .v = matrix(m.v),
                                .o = matrix(m.o),
                                .g = matrix(m.g),
                                .dq = matrix(m.dq),
                                .dk = matrix(m.dk),
                                .dv = matrix(m.dv),
                                .lse = static_cast<f32*>(m.lse),
                                .delta = static_cast<f32*>(m.delta),
                                .rows = m.q.shape[2],
                                .columns = m.k.shape[2],
                                .batches = m.batches(),
                                .heads = m.q.shape[1],
                                .causal = call.causal,
                                .groups = m.groups,
                                .scale = call.scale,
                                .wide = is_wide(m.q) && is_wide(m.k) && is_wide(m.v) && (!m.g.data || is_wide(m.g)),
                                .mask = m.mask ? elements<f32>(*m.mask) : nullptr,
                                .mask_outer = m.mask ? m.mask->strides[0] : 0,
                                .mask_head = m.mask ? m.mask->strides[1] : 0,
                                .mask_row = m.mask ? m.mask->strides[2] : 0,
                                .mask_column = m.mask ? m.mask->strides[3] : 0,
                                .documents = static_cast<const i32*>(m.documents)};
  const std::int64_t own = kAttentionOwn * plan.slices, blocks = batches * ((length + own - 1) / own);
  gpu.launch(gpu.kernel(attention_source(plan), kernel), static_cast<unsigned>(blocks), KernelArgs(args).words(),
             kAttentionThreads, static_cast<unsigned>(bytes));
}

// [batch, head, row, element], copied 64 elements of `high` rows at a time. The emulated driver has none.
TensorMap tensor_map(const View& x, int high) {
  TensorMap map{};
  if (!x.data || !driver().encode_tiles) return map;
  const auto size = [&](int axis) { return static_cast<std::uint64_t>(x.shape[axis]); };
  const auto step = [&](int axis) {  // an axis of one element may have any
    return static_cast<std::uint64_t>(x.shape[axis] == 1 ? x.shape[3] : x.strides[axis]) * 2;
  };
  const std::uint64_t sizes[] = {size(3), size(2), size(1), size(0)}, steps[] = {step(2), step(1), step(0)};
  const std::uint32_t box[] = {64, static_cast<std::uint32_t>(high), 1, 1}, each[] = {1, 1, 1, 1};
  check(driver().encode_tiles(&map, x.dtype == DType::bf16 ? kMapBf16 : kMapF16, 4, x.data, sizes, steps, box, each, 0,
                              kMapSwizzle128, kMapPromote256, 0),
        "cuTensorMapEncodeTiled");
  return map;
}

// Blocks are persistent and take tile after tile. `by_rows`: tiles are of rows, which iterate over columns.
void launch_pipeline(Gpu& gpu, const AttentionCall& call, const KernelSource& source, const char* kernel,
                     const AttentionTiling& t, bool by_rows, int bytes, const AttentionViews& m) {
  const int own = 64 * t.consumers, rows_high = by_rows ? own : t.step, columns_high = by_rows ? t.step : own;
  const PipelinedAttentionArgs args{.q_map = tensor_map(m.q, rows_high),
                                    .k_map = tensor_map(m.k, columns_high),
                                    .v_map = tensor_map(m.v, columns_high),
                                    .g_map = tensor_map(m.g, rows_high),
                                    .q = matrix(m.q),
                                    .k = matrix(m.k),
                                    .v = matrix(m.v),
                                    .o = matrix(m.o),
                                    .g = matrix(m.g),
                                    .dq = matrix(m.dq),
                                    .dk = matrix(m.dk),
                                    .dv = matrix(m.dv),
                                    .lse = static_cast<f32*>(m.lse),
                                    .delta = static_cast<f32*>(m.delta),
                                    .rows = m.q.shape[2],
                                    .columns = m.k.shape[2],
                                    .batches = m.batches(),
                                    .heads = m.q.shape[1],
                                    .groups = m.groups,
                                    .shared = m.shared,
                                    .causal = call.causal,
                                    .mask = m.mask ? elements<f32>(*m.mask) : nullptr,
                                    .mask_outer = m.mask ? m.mask->strides[0] : 0,
                                    .mask_head = m.mask ? m.mask->strides[1] : 0,
                                    .mask_row = m.mask ? m.mask->strides[2] : 0,
                                    .mask_column = m.mask ? m.mask->strides[3] : 0,
                                    .documents = static_cast<const i32*>(m.documents),
                                    .scale = call.scale};
  const std::int64_t length = by_rows ? m.q.shape[2] : m.k.shape[2];
  const std::int64_t tiles = m.batches() / (by_rows ? 1 : m.groups) * ((length + own - 1) / own);
  const std::int64_t blocks = std::min<std::int64_t>(tiles, std::int64_t{gpu.multiprocessors()} * t.blocks);
  gpu.launch(gpu.kernel(source, kernel), static_cast<unsigned>(blocks), KernelArgs(args).words(),
             static_cast<unsigned>(128 * (t.consumers + 1)), static_cast<unsigned>(bytes));
}

// A call and the memory it keeps alive. Heads of k and v that share memory (stride 0) are one for copies of tiles.
struct FusedCall {
  AttentionCall options;
  AttentionPlan plan;
  bool pipeline;
  AttentionViews m;
  std::array<BufferPtr, 8> keep;

  // q, k and v are inputs[first] and the two after it.
  FusedCall(const LibraryCall& call, Gpu& gpu, std::size_t first)
      : options(options_as<AttentionCall>(call.attrs)),
        plan(plan_attention(gpu, options, call.inputs[first], call.inputs[first + 1], call.inputs[first + 2])),
        pipeline(plan.path == Path::pipeline) {
    if (plan.path == Path::products) return;
    m.q = call.inputs[first], m.k = call.inputs[first + 1], m.v = call.inputs[first + 2];
    m.groups = m.q.shape[1] / m.k.shape[1];
    if (pipeline && m.k.strides[1] == 0 && m.v.strides[1] == 0) {
      m.shared = m.k.shape[1];
      m.k = without_copies(m.k), m.v = without_copies(m.v);
    }
    m.q = readable(gpu, m.q, plan.path, keep[0]);
    m.k = readable(gpu, m.k, plan.path, keep[1]);
    m.v = readable(gpu, m.v, plan.path, keep[2]);
    if (options.mask) m.mask = &call.inputs[call.inputs.size() - 1 - options.documents];
    if (options.documents) m.documents = packed(gpu, call.inputs.back(), keep[7], "attention").data;
  }
};

}  // namespace

bool run_fused_attention(const LibraryCall& call, Gpu& gpu) {
  FusedCall fused(call, gpu, 0);
  const AttentionPlan& plan = fused.plan;
  if (plan.path == Path::products) return false;
  AttentionViews& m = fused.m;
  m.o = heads_second(call.outputs[0]);
  m.lse = call.outputs[1].data;
  if (fused.pipeline) {
    launch_pipeline(gpu, fused.options, attention_forward_source(plan), "attend", plan.forward, true,
                    shared_bytes(plan.forward, false, false), m);
  } else {
    launch(gpu, plan, fused.options, "attend", m.batches(), m.q.shape[2], bytes_of_rows(plan, false), m);
  }
  return true;
}

bool run_fused_attention_gradient(const LibraryCall& call, Gpu& gpu) {
  FusedCall fused(call, gpu, 1);
  const AttentionPlan& plan = fused.plan;
  if (plan.path == Path::products) return false;
  AttentionViews& m = fused.m;
  auto& keep = fused.keep;
  m.g = readable(gpu, call.inputs[0], plan.path, keep[3]);
  m.o = readable(gpu, call.inputs[4], plan.path == Path::pipeline ? Path::groups : plan.path, keep[4]);
  m.lse = packed(gpu, call.inputs[5], keep[5], "attention").data;
  m.delta = workspace(gpu, DType::f32, {m.batches(), m.q.shape[2]}, keep[6], "attention").data;
  const std::array<View, 3> results = attention_results(call);
  m.dq = heads_second(results[0]), m.dk = heads_second(results[1]), m.dv = heads_second(results[2]);
  if (!fused.pipeline) {
    launch(gpu, plan, fused.options, "differentiate_rows", m.batches(), m.q.shape[2], bytes_of_rows(plan, true), m);
    launch(gpu, plan, fused.options, "differentiate_columns", m.batches() / m.groups, m.k.shape[2],
           bytes_of_columns(plan), m);
    return true;
  }
  launch_pipeline(gpu, fused.options, attention_row_gradient_source(plan), "differentiate_rows", plan.rows, true,
                  shared_bytes(plan.rows, true, false), m);
  const auto columns = [&](ColumnGradients makes) {
    const AttentionTiling& t = makes == ColumnGradients::v ? plan.v_columns : plan.columns;
    launch_pipeline(gpu, fused.options, attention_column_gradient_source(plan, makes), "differentiate_columns", t,
                    false, shared_bytes(t, makes != ColumnGradients::v, true), m);
  };
  if (plan.splits_columns()) {
    columns(ColumnGradients::v);
    columns(ColumnGradients::k);
  } else {
    columns(ColumnGradients::both);
  }
  return true;
}

}  // namespace ebb::cuda
