// SPDX-License-Identifier: MIT
// Attention by products over some rows at a time, so that scores are never stored for all of them:
//   s = q·kᵀ,   p = softmax(scale·s + mask),   o = p·v,   lse = log Σ e^s
//   backward: p = e^(s − lse) is recomputed, and with δ = Σ do·o
//   dv = pᵀ·do,   ds = scale·p∘(do·vᵀ − δ),   dq = ds·k,   dk = dsᵀ·q
// Weights and their gradients are rounded to the dtype of the inputs for the products, as products of halves require.
// Parts depend on the shapes alone, and are added in order.
#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/attention_results.h"
#include "calls/attention.h"
#include "cuda/kernels/args/attention.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {

View heads_second(View x) {
  x.shape = {x.shape[0], x.shape[2], x.shape[1], x.shape[3]};
  std::swap(x.strides[1], x.strides[2]);
  return x;
}

namespace {

struct AttentionSizes {
  AttentionCall o;
  std::int64_t batches, groups, positions, columns, width, values;  // groups: batches of q for one of k and v
  DType dtype, compute;
  std::int64_t batches_together, positions_together;

  AttentionSizes(const Gpu& gpu, const Attrs& attrs, const View& q, const View& k, const View& v)
      : o(options_as<AttentionCall>(attrs)),
        batches(q.shape[0]),
        groups(k.shape[0] > 0 ? batches / k.shape[0] : 1),
        positions(q.shape[1]),
        columns(k.shape[1]),
        width(q.shape[2]),
        values(v.shape[2]),
        dtype(q.dtype),
        compute(compute_dtype(q.dtype)) {
    const std::int64_t row = std::max<std::int64_t>(1, columns * static_cast<std::int64_t>(size_of(compute)));
    const std::int64_t rows = std::max<std::int64_t>(1, gpu.model().score_bytes / row);
    positions_together = std::clamp<std::int64_t>(rows, 1, std::max<std::int64_t>(1, positions));
    batches_together =
        std::clamp<std::int64_t>(rows / std::max<std::int64_t>(1, positions), 1, std::max<std::int64_t>(1, batches));
    if (groups > 1) batches_together = 1;
  }
  // Columns that some row of the part sees. Only for a single batch: then a part of dk and dv is dense.
  std::int64_t seen(std::int64_t count, std::int64_t first, std::int64_t rows) const {
    return o.causal && count == 1 ? std::min(columns, first + rows) : columns;
  }
};

// [B, H, T, D] as [B·H, T, D].
View flat(Gpu& gpu, View x, BufferPtr& keep) {
  if (x.shape[0] != 1 && x.shape[1] != 1 && x.strides[0] != x.shape[1] * x.strides[1])
    x = packed(gpu, x, keep, "attention");
  View y{x.data, x.dtype, {x.shape[0] * x.shape[1], x.shape[2], x.shape[3]}, {}};
  y.strides[0] = x.strides[x.shape[1] == 1 ? 0 : 1], y.strides[1] = x.strides[2], y.strides[2] = x.strides[3];
  return y;
}
// A result [B, T, H, E] as [B·H, T, E], in separate memory unless its rows have that layout; then scatter_heads copies.
View flat_result(Gpu& gpu, const View& out, BufferPtr& keep) {
  const Shape shape{out.shape[0] * out.shape[2], out.shape[1], out.shape[3]};
  const bool there = out.shape[2] == 1 && is_contiguous(out.shape, out.strides);
  return there ? reshaped(out, shape) : workspace(gpu, out.dtype, shape, keep, "attention");
}
void scatter_heads(Gpu& gpu, const View& out, const View& from) {
  const View to = heads_second(out);
  if (from.data != out.data) copy_elements(gpu, to, reshaped(from, to.shape));
}
// Rows [t, t + rows) of matrices [b, b + count).
View rows_of(const View& v, std::int64_t b, std::int64_t count, std::int64_t t, std::int64_t rows) {
  return part_of(part_of(v, 0, b, count), 1, t, rows);
}

struct RowCall {
  View scores, gradient, weights, weights_gradient;
  View lse;  // of the part's batches, all positions
  const View* mask = nullptr;
  std::int64_t heads = 1;
  void* documents = nullptr;
  View go, o;
};

void launch_rows(Gpu& gpu, const AttentionSizes& z, const char* kernel, const RowCall& c, std::int64_t b,
                 std::int64_t count, std::int64_t t, std::int64_t rows, std::int64_t columns) {
  const auto mask_step = [&](int axis) { return c.mask ? c.mask->strides[axis] : 0; };
  const auto step = [](const View& v, int axis) { return v.data ? v.strides[axis] : 0; };
  launch_blocks(gpu, {element_text(z.dtype) + texts::attention_rows}, kernel, count * rows,
                AttentionRowsArgs<void, void>{.scores = c.scores.data,
                                              .gradient = c.gradient.data,
                                              .weights = c.weights.data,
                                              .weights_gradient = c.weights_gradient.data,
                                              .lse = c.lse.data,
                                              .mask = c.mask ? c.mask->data : nullptr,
                                              .rows = count * rows,
                                              .columns = columns,
                                              .positions = rows,
                                              .first_position = t,
                                              .all_positions = z.positions,
                                              .causal = z.o.causal,
                                              .first_batch = b,
                                              .heads = c.heads,
                                              .mask_0 = mask_step(0),
                                              .mask_1 = mask_step(1),
                                              .mask_2 = mask_step(2),
                                              .mask_3 = mask_step(3),
                                              .documents = static_cast<const i32*>(c.documents),
                                              .go = c.go.data,
                                              .o = c.o.data,
                                              .values = z.values,
                                              .go_batch = step(c.go, 0),
                                              .go_row = step(c.go, 1),
                                              .go_value = step(c.go, 2),
                                              .o_batch = step(c.o, 0),
                                              .o_row = step(c.o, 1),
                                              .o_value = step(c.o, 2),
                                              .scale = z.o.scale});
}

// Calls f(b, count, t, rows, columns) for the parts.
template <class F>
void in_parts(const AttentionSizes& z, F&& f) {
  for (std::int64_t b = 0; b < z.batches; b += z.batches_together) {
    const std::int64_t count = std::min(z.batches_together, z.batches - b);
    for (std::int64_t t = 0; t < z.positions; t += z.positions_together) {
      const std::int64_t rows = std::min(z.positions_together, z.positions - t);
      f(b, count, t, rows, z.seen(count, t, rows));
    }
  }
}

}  // namespace

void run_attention(const LibraryCall& call, Gpu& gpu) {
  if (run_fused_attention(call, gpu)) return;
  if (call.outputs[1].shape.numel() == 0) return;
  BufferPtr keep[4];
  const View q = flat(gpu, call.inputs[0], keep[0]), k = flat(gpu, call.inputs[1], keep[1]),
             v = flat(gpu, call.inputs[2], keep[2]), out = flat_result(gpu, call.outputs[0], keep[3]);
  const AttentionSizes z(gpu, call.attrs, q, k, v);
  const View lse = reshaped(call.outputs[1], {z.batches, z.positions});
  BufferPtr keep_scores, keep_weights, keep_documents;
  const View documents = z.o.documents ? packed(gpu, call.inputs.back(), keep_documents, "attention") : View{};
  in_parts(z, [&](std::int64_t b, std::int64_t count, std::int64_t t, std::int64_t rows, std::int64_t columns) {
    const Shape shape{count, rows, columns};
    RowCall c;
    c.scores = workspace(gpu, z.compute, shape, keep_scores, "attention");
    c.weights = is_half(z.dtype) ? workspace(gpu, z.dtype, shape, keep_weights, "attention") : c.scores;
    c.lse = part_of(lse, 0, b, count);
    View mask;
    if (z.o.mask) mask = call.inputs[3], c.mask = &mask;
    c.heads = call.inputs[0].shape[1];
    c.documents = documents.data;
    multiply_floats(gpu, rows_of(q, b, count, t, rows), transposed(rows_of(k, b / z.groups, count, 0, columns)),
                    c.scores);
    launch_rows(gpu, z, "softmax_rows", c, b, count, t, rows, columns);
    multiply_floats(gpu, c.weights, rows_of(v, b / z.groups, count, 0, columns), rows_of(out, b, count, t, rows));
  });
  scatter_heads(gpu, call.outputs[0], out);
}

void run_attention_gradient(const LibraryCall& call, Gpu& gpu) {
  if (run_fused_attention_gradient(call, gpu)) return;
  BufferPtr keep_lse, keep[6], keep_inputs[5], keep_results[3], keep_documents;
  const auto input = [&](std::size_t i) { return flat(gpu, call.inputs[i], keep_inputs[i]); };
  const View g = input(0), q = input(1), k = input(2), v = input(3), o = input(4);
  const AttentionSizes z(gpu, call.attrs, q, k, v);
  const View lse = reshaped(packed(gpu, call.inputs[5], keep_lse, "attention"), {z.batches, z.positions});
  // Sums over parts of rows and over the heads of a group: the results themselves, or separate buffers in f32.
  const bool divided = z.positions_together < z.positions || z.groups > 1;
  const std::array<View, 3> results = attention_results(call);
  const auto result = [&](std::size_t i) { return flat_result(gpu, results[i], keep_results[i]); };
  const View dq = result(0), dk = result(1), dv = result(2);
  const auto sums_of = [&](const View& out, BufferPtr& memory) {
    return divided && is_half(out.dtype) ? workspace(gpu, DType::f32, out.shape, memory, "attention") : out;
  };
  const View documents = z.o.documents ? packed(gpu, call.inputs.back(), keep_documents, "attention") : View{};
  const View sum_k = sums_of(dk, keep[4]), sum_v = sums_of(dv, keep[5]);
  for (const View* s : {&sum_k, &sum_v})
    gpu.clear(s->data, static_cast<std::size_t>(s->shape.numel()) * size_of(s->dtype));
  if (z.batches > 0 && z.columns == 0) {
    gpu.clear(dq.data, static_cast<std::size_t>(dq.shape.numel()) * size_of(dq.dtype));
  }
  if (z.columns > 0) {
    in_parts(z, [&](std::int64_t b, std::int64_t count, std::int64_t t, std::int64_t rows, std::int64_t columns) {
      const Shape shape{count, rows, columns};
      const bool half = is_half(z.dtype);
      RowCall c;
      c.scores = workspace(gpu, z.compute, shape, keep[0], "attention");
      c.gradient = workspace(gpu, z.compute, shape, keep[1], "attention");
      c.weights = half ? workspace(gpu, z.dtype, shape, keep[2], "attention") : c.scores;
      c.weights_gradient = half ? workspace(gpu, z.dtype, shape, keep[3], "attention") : c.gradient;
      c.lse = part_of(lse, 0, b, count);
      View mask;
      if (z.o.mask) mask = call.inputs[6], c.mask = &mask;
      c.heads = call.inputs[1].shape[1];
      c.documents = documents.data;
      c.go = part_of(g, 0, b, count);
      c.o = part_of(o, 0, b, count);
      const View q_rows = rows_of(q, b, count, t, rows), g_rows = rows_of(g, b, count, t, rows);
      const std::int64_t key = b / z.groups;
      const bool adds = t > 0 || b % z.groups > 0;
      const View keys = rows_of(k, key, count, 0, columns), values = rows_of(v, key, count, 0, columns);
      multiply_floats(gpu, q_rows, transposed(keys), c.scores);
      multiply_floats(gpu, g_rows, transposed(values), c.gradient);
      launch_rows(gpu, z, "differentiate_rows", c, b, count, t, rows, columns);
      multiply_floats(gpu, c.weights_gradient, keys, rows_of(dq, b, count, t, rows));
      multiply_floats(gpu, transposed(c.weights_gradient), q_rows, rows_of(sum_k, key, count, 0, columns), adds);
      multiply_floats(gpu, transposed(c.weights), g_rows, rows_of(sum_v, key, count, 0, columns), adds);
    });
  }
  if (sum_k.data != dk.data) convert_elements(gpu, dk, sum_k);
  if (sum_v.data != dv.data) convert_elements(gpu, dv, sum_v);
  scatter_heads(gpu, results[0], dq);
  scatter_heads(gpu, results[1], dk);
  scatter_heads(gpu, results[2], dv);
}

}  // namespace ebb::cuda
