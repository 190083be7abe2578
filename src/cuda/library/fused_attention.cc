// SPDX-License-Identifier: MIT
// Which attention is for the fused kernels (kernels/attention_by_warps.cuh), and their launches.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/attention_results.h"
#include "calls/attention.h"
#include "cuda/kernels/args/attention.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

struct Fused : AttentionShape {
  AttentionCall call;
  std::int64_t heads, batches, rows, columns;

  Fused(const Gpu& gpu, const Attrs& attrs, const View& q, const View& k, const View& v)
      : AttentionShape{q.shape[3], v.shape[3], q.dtype},
        call(options_as<AttentionCall>(attrs)),
        heads(q.shape[1]),
        batches(q.shape[0] * heads),
        rows(q.shape[2]),
        columns(k.shape[2]) {
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    const auto fits = [](std::int64_t n) { return n > 0 && n <= 128 && n % 8 == 0; };
    const bool scores_grow = call.scale > 0 && std::isfinite(call.scale);  // the largest product is the largest score
    if (!is_half(dtype) || call.mask || !fits(width) || !fits(values) || !scores_grow || batches == 0 || rows == 0 ||
        columns == 0 || std::max(rows, columns) > kMost ||
        batches * ((std::max(rows, columns) + kAttentionOwn - 1) / kAttentionOwn) > kMost)
      return;
    // Whatever the number of rows: their bits are the same alone as in a batch.
    by_groups = width == values && (width == 64 || width == 128) && gpu.architecture() == "sm_90" &&
                std::max(bytes_of_rows(1, true), bytes_of_columns(1)) <= gpu.limits().shared;
    if (by_groups) {
      slices = 1;
      return;
    }
    // Rows that share what is read for them are faster, while they fill the GPU and their sums fit registers.
    const bool many = batches * ((rows + 127) / 128) >= gpu.multiprocessors();
    for (const int s : {2, 1}) {
      if (s == 2 && (std::max(width, values) > 64 || !many)) continue;
      if (std::max(bytes_of_rows(s, true), bytes_of_columns(s)) > gpu.limits().shared - kSharedOfText) continue;
      slices = s;
      return;
    }
  }
  std::int64_t own(int s) const { return kAttentionOwn * s; }
  // Shared memory of the kernels, as their texts divide it: own rows, and two steps of the others. Tiles of warpgroups
  // have rows without space between them and begin at multiples of 1024 bytes.
  std::int64_t row_of(std::int64_t n) const { return (n + 15) / 16 * 16 + (by_groups ? 0 : 8); }
  std::int64_t bytes_of_rows(int s, bool gradient) const {
    const std::int64_t d = row_of(width), e = row_of(values), step = kAttentionStep * (d + e);
    return (by_groups ? 1024 : 0) +
           (gradient ? 2 * (own(s) * (d + e) + step + std::max(step, own(s) * e)) : 2 * (own(s) * d + 2 * step));
  }
  std::int64_t bytes_of_columns(int s) const {
    return (by_groups ? 1024 : 0) + 2 * (own(s) + 2 * kAttentionStep) * (row_of(width) + row_of(values)) +
           4 * kAttentionStep * 4;
  }
};

// As the kernels read it: 16 bytes of a row at a time.
View readable(Gpu& gpu, const View& x, BufferPtr& keep) {
  bool good = x.strides[3] == 1 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
  for (const int axis : {0, 1, 2}) good = good && (x.strides[axis] % 8 == 0 || x.shape[axis] == 1);
  if (good) return x;
  const View to = dense(x, x.dtype, keep, gpu, "attention");
  copy_elements(gpu, to, x);
  return to;
}

struct Matrices {
  View q, k, v, o, g, dq, dk, dv;
  void* lse = nullptr;
  void* delta = nullptr;
};
void launch(Gpu& gpu, const Fused& z, const char* kernel, std::int64_t length, std::int64_t bytes, const Matrices& m) {
  const auto matrix = [](const View& x) {
    return AttentionMatrix{elements<u16>(x), x.data ? x.strides[0] : 0, x.data ? x.strides[1] : 0,
                           x.data ? x.strides[2] : 0};
  };
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
                                .rows = z.rows,
                                .columns = z.columns,
                                .batches = z.batches,
                                .heads = z.heads,
                                .causal = z.call.causal,
                                .scale = z.call.scale};
  const std::int64_t blocks = z.batches * ((length + z.own(z.slices) - 1) / z.own(z.slices));
  gpu.launch(gpu.kernel(attention_source(z), kernel), static_cast<unsigned>(blocks), KernelArgs(args).words(),
             kAttentionThreads, static_cast<unsigned>(bytes));
}

}  // namespace

KernelSource attention_source(const AttentionShape& a) {
  return {
      fmt::format("constexpr int kWidth = {}, kValues = {}, kSlices = {};\nconstexpr bool kGroups = {}, kBf16 = {};\n",
                  a.width, a.values, a.slices, a.by_groups, a.dtype == DType::bf16) +
          (a.by_groups ? texts::attention_by_groups : texts::attention_by_warps),
      a.by_groups, true};
}

bool run_fused_attention(const LibraryCall& call, Gpu& gpu) {
  const Fused z(gpu, call.attrs, call.inputs[0], call.inputs[1], call.inputs[2]);
  if (z.slices == 0) return false;
  BufferPtr keep[3];
  Matrices m;
  m.q = readable(gpu, call.inputs[0], keep[0]);
  m.k = readable(gpu, call.inputs[1], keep[1]);
  m.v = readable(gpu, call.inputs[2], keep[2]);
  m.o = heads_second(call.outputs[0]);
  m.lse = call.outputs[1].data;
  launch(gpu, z, "attend", z.rows, z.bytes_of_rows(z.slices, false), m);
  return true;
}

bool run_fused_attention_gradient(const LibraryCall& call, Gpu& gpu) {
  const Fused z(gpu, call.attrs, call.inputs[1], call.inputs[2], call.inputs[3]);
  if (z.slices == 0) return false;
  BufferPtr keep[7];
  Matrices m;
  m.g = readable(gpu, call.inputs[0], keep[0]);
  m.q = readable(gpu, call.inputs[1], keep[1]);
  m.k = readable(gpu, call.inputs[2], keep[2]);
  m.v = readable(gpu, call.inputs[3], keep[3]);
  m.o = readable(gpu, call.inputs[4], keep[4]);
  m.lse = packed(gpu, call.inputs[5], keep[5], "attention").data;
  m.delta = workspace(gpu, DType::f32, {z.batches, z.rows}, keep[6], "attention").data;
  const std::array<View, 3> results = attention_results(call);
  m.dq = heads_second(results[0]), m.dk = heads_second(results[1]), m.dv = heads_second(results[2]);
  launch(gpu, z, "differentiate_rows", z.rows, z.bytes_of_rows(z.slices, true), m);
  launch(gpu, z, "differentiate_columns", z.columns, z.bytes_of_columns(z.slices), m);
  return true;
}

}  // namespace ebb::cuda
