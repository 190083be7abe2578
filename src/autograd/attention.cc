// SPDX-License-Identifier: MIT
#include "ebb/backward/attention.h"

#include <cmath>
#include <limits>

#include "calls/attention.h"
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "graph/history.h"
#include "ops/build.h"

namespace ebb {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// q [B, H, T, D], k [B, K, S, D], v [B, K, S, E] of one dtype, H a multiple of K; mask [B, H, T, S], undefined if there
// is none. H is the last of several batch axes.
struct Problem {
  Tensor q, k, v, mask, documents;
  AttentionCall call;
  Shape result;
};

Shape batch_of(const Tensor& x) { return Shape(x.shape().begin(), x.rank() - 2); }

// Heads of k and v that several of q share; 0 where axes broadcast as usual.
std::int64_t shared_heads(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.rank() < 4 || k.rank() < 3 || v.rank() < 3 || k.size(-3) != v.size(-3)) return 0;
  const std::int64_t heads = q.size(-3), shared = k.size(-3);
  return shared > 0 && heads > shared && heads % shared == 0 ? shared : 0;
}

// The bounds of runs of equal numbers, see calls/attention.h: where a run begins, the last beginning so far, and,
// scanning backwards, the same for the ends.
Tensor bounds_of_runs(const Tensor& ids) {
  const std::int64_t n = ids.size(1), count = ids.size(0);
  const Tensor at = arange(n), edge = ones({count, std::min<std::int64_t>(n, 1)}, DType::bool_);
  const Tensor differs = narrow(ids, 1, std::min<std::int64_t>(n, 1), std::max<std::int64_t>(n - 1, 0)) !=
                         narrow(ids, 1, 0, std::max<std::int64_t>(n - 1, 0));
  const Tensor first = cummax(where(cat({edge, differs}, 1), at, 0), 1).first;
  const Tensor end = flip(cummin(flip(where(cat({differs, edge}, 1), at + 1, n), 1), 1).first, 1);
  return cast(stack({first, end}, 1), DType::i32);
}
Tensor bounds_of(const char* op, const Tensor& documents, const Shape& batch, std::int64_t before, std::int64_t rows,
                 std::int64_t columns) {
  require(is_integer(documents.dtype()), Error::Kind::type, "{}: documents are whole numbers, got {}", op,
          documents.dtype());
  require(rows == columns, "{}: documents need as many keys as queries, got {} and {}", op, columns, rows);
  Shape all = batch.rank() > 1 ? batch.without(batch.rank() - 1) : batch;
  all = all.inserted(all.rank(), rows);
  bool fits = documents.rank() >= 1 && documents.rank() <= all.rank() && documents.size(-1) == rows;
  for (int d = 2; fits && d <= documents.rank(); ++d)
    fits = documents.size(-d) == 1 || documents.size(-d) == all[all.rank() - d];
  require(fits, "{}: documents of shape {} do not broadcast to the positions' shape {}", op, documents.shape(), all);
  NoHistory off;
  const bool same = documents.numel() == rows;  // for all batches
  const Tensor ids = same ? reshape(documents, {1, rows}) : reshape(broadcast_to(documents, all), {before, rows});
  return expand(bounds_of_runs(ids), {before, 2, rows});
}

Problem problem_of(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  require(q.rank() >= 2 && k.rank() >= 2 && v.rank() >= 2 && q.size(-1) == k.size(-1) && k.size(-2) == v.size(-2),
          "{}: q, k and v of shapes {}, {} and {} do not fit; give [.., T, D], [.., S, D] and [.., S, E]", op,
          q.shape(), k.shape(), v.shape());
  require(is_floating(q.dtype()) && is_floating(k.dtype()) && is_floating(v.dtype()), Error::Kind::type,
          "{}: needs floating elements, got {}, {} and {}", op, q.dtype(), k.dtype(), v.dtype());
  require(o.dropout >= 0 && o.dropout <= 1, "{}: dropout must be in [0, 1], got {}", op, o.dropout);
  const DType dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  const std::int64_t shared = shared_heads(q, k, v);
  if (q.rank() >= 4 && k.rank() >= 3 && v.rank() >= 3) {
    const auto fits = [&](const Tensor& x) { return x.size(-3) == 1 || q.size(-3) == 1 || x.size(-3) == q.size(-3); };
    require(shared > 0 || (fits(k) && fits(v)),
            "{}: q, k and v have {}, {} and {} heads; those of q must be a multiple of the others'", op, q.size(-3),
            k.size(-3), v.size(-3));
  }
  Shape of_keys = broadcast_shapes(op, batch_of(k), batch_of(v));
  if (shared > 0) of_keys = of_keys.with(of_keys.rank() - 1, 1);
  const Shape batch = broadcast_shapes(op, batch_of(q), of_keys);
  const std::int64_t rows = q.size(-2), columns = k.size(-2), width = q.size(-1), values = v.size(-1);
  const std::int64_t heads = batch.rank() < 2 ? 1 : batch[batch.rank() - 1];
  const std::int64_t before = heads == 0 ? 0 : batch.numel() / heads, keys = shared > 0 ? shared : heads;
  const auto merged = [&](const Tensor& x, std::int64_t h, std::int64_t m, std::int64_t n) {
    const Shape of_heads = h == heads ? batch : batch.with(batch.rank() - 1, h);
    const Tensor all = broadcast_to(cast(x, dtype), of_heads.inserted(batch.rank(), m).inserted(batch.rank() + 1, n));
    return reshape(all, {before, h, m, n});
  };
  Problem p;
  p.q = merged(q, heads, rows, width);
  p.k = merged(k, keys, columns, width);
  p.v = merged(v, keys, columns, values);
  p.result = batch.inserted(batch.rank(), rows).inserted(batch.rank() + 1, values);
  p.call.scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, width))));
  p.call.causal = o.causal;
  if (o.documents.defined()) {
    p.call.documents = true;
    p.documents = bounds_of(op, o.documents, batch, before, rows, columns);
  }
  if (!o.mask.defined()) return p;
  const Shape scores = batch.inserted(batch.rank(), rows).inserted(batch.rank() + 1, columns);
  require(o.mask.dtype() == DType::bool_ || is_floating(o.mask.dtype()), Error::Kind::type,
          "{}: the mask must be bool or floating, got {}", op, o.mask.dtype());
  bool fits = o.mask.rank() <= scores.rank();
  for (int d = 1; fits && d <= o.mask.rank(); ++d)
    fits = o.mask.size(-d) == 1 || o.mask.size(-d) == scores[scores.rank() - d];
  require(fits, "{}: a mask of shape {} does not broadcast to the scores' shape {}", op, o.mask.shape(), scores);
  p.call.mask = true;
  const DType wide = compute_dtype(dtype);
  Tensor mask = o.mask.dtype() == DType::bool_ ? cast(where(o.mask, 0.0, kNever), wide) : cast(o.mask, wide);
  // A mask shared by all heads stays shared.
  if (batch.rank() > 2) mask = broadcast_to(mask, scores.with(batch.rank() - 1, mask.rank() > 2 ? mask.size(-3) : 1));
  if (batch.rank() > 2) mask = reshape(mask, {before, mask.size(-3), rows, columns});
  if (batch.rank() == 1 && mask.rank() == 3) mask = unsqueeze(mask, 1);
  while (mask.rank() < 4) mask = unsqueeze(mask, 0);
  p.mask = expand(mask, {before, heads, rows, columns});
  return p;
}

// Repeats keys or values for every head of q, and sums their gradients over the heads that share them.
Tensor for_each_head(const Tensor& x, std::int64_t heads) {
  const std::int64_t shared = x.size(1);
  if (shared == heads) return x;
  const Shape each{x.size(0), shared, heads / shared, x.size(2), x.size(3)};
  return reshape(broadcast_to(unsqueeze(x, 2), each), {x.size(0), heads, x.size(2), x.size(3)});
}
Tensor over_heads(const Tensor& x, std::int64_t shared) {
  if (shared == x.size(1)) return x;
  return sum(reshape(x, {x.size(0), shared, x.size(1) / shared, x.size(2), x.size(3)}), 2);
}

// softmax(scale·q·kᵀ + mask), 0 in rows that attend to nothing, by ordinary operations.
Tensor weights_of(const Tensor& q, const Tensor& k, const Problem& p) {
  Tensor s = matmul(q, transpose(for_each_head(k, q.size(1)), -1, -2)) * p.call.scale;
  if (p.call.mask) s = s + p.mask;
  if (p.call.causal) {
    const Tensor row = reshape(arange(s.size(-2)), {-1, 1}), column = arange(s.size(-1));
    s = where(column <= row, s, kNever);
  }
  if (p.call.documents) {
    const auto bound = [&](std::int64_t which) { return unsqueeze(unsqueeze(select(p.documents, 1, which), 1), 3); };
    const Tensor column = arange(s.size(-1));
    s = where(logical_and(column >= bound(0), column < bound(1)), s, kNever);
  }
  const Tensor lse = logsumexp(s, -1, true);
  return exp(s - where(lse == kNever, 0, lse));
}

// Gradient number `which` (q, k, v) of Σ g·o by ordinary operations, for derivatives of the gradient. P = the weights:
//   dv = Pᵀ·g,   ds = scale·P∘(g·vᵀ − Σ P∘(g·vᵀ)),   dq = ds·k,   dk = dsᵀ·q
Tensor plain_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Problem& p, int which) {
  const Tensor w = weights_of(q, k, p);
  const std::int64_t heads = q.size(1);
  if (which == 2) return over_heads(matmul(transpose(w, -1, -2), g), v.size(1));
  const Tensor dw = matmul(g, transpose(for_each_head(v, heads), -1, -2));
  const Tensor ds = p.call.scale * w * (dw - sum(w * dw, -1, true));
  return which == 0 ? matmul(ds, for_each_head(k, heads)) : over_heads(matmul(transpose(ds, -1, -2), q), k.size(1));
}

// Converts [B, T, H, D] and [B, H, T, D] into each other.
Tensor swap_heads(const Tensor& x) { return transpose(x, 1, 2); }
Shape with_heads_beside(const Shape& s) { return {s[0], s[2], s[1], s[3]}; }

Tensor kernel(const Problem& p) {
  std::vector<Tensor> inputs{p.q, p.k, p.v};
  if (p.call.mask) inputs.push_back(p.mask);
  if (p.call.documents) inputs.push_back(p.documents);
  return make_call(Op::attention, inputs, with_options(p.call),
                   {{with_heads_beside(p.q.shape()).with(3, p.v.size(-1)), p.q.dtype()},
                    {p.q.shape().without(3), compute_dtype(p.q.dtype())}});
}

// dq, dk or dv, [B, H, T, D], of a call of attention_gradient.
Tensor result_of(const Tensor& call, const Problem& p, int which) {
  if (call.node()->extra->output_types.size() == 3) return swap_heads(output_of(call, which));
  const Tensor* const all[] = {&p.q, &p.k, &p.v};
  const auto width_of = [&](int i) { return all[i]->size(1) * all[i]->size(3); };
  std::int64_t at = 0;
  for (int i = 0; i < which; ++i) at += width_of(i);
  const Tensor& like = *all[which];
  const Tensor rows = narrow(output_of(call, 0), 2, at, width_of(which));
  return swap_heads(reshape(rows, with_heads_beside(like.shape())));
}

// dq, dk, dv in one call; each can be differentiated again, through the plain formula.
std::vector<Tensor> gradients(const Problem& p, const Tensor& g, const Tensor& o, const Tensor& lse) {
  Tensor call;
  {
    NoHistory off;
    std::vector<Tensor> inputs{g, p.q, p.k, p.v, o, lse};
    if (p.call.mask) inputs.push_back(p.mask);
    if (p.call.documents) inputs.push_back(p.documents);
    const DType dtype = p.q.dtype();
    std::vector<std::pair<Shape, DType>> results;
    if (p.q.size(2) == p.k.size(2)) {
      std::int64_t width = 0;
      for (const Tensor& x : {p.q, p.k, p.v}) width += x.size(1) * x.size(3);
      results = {{{p.q.size(0), p.q.size(2), width}, dtype}};
    } else {
      for (const Tensor& x : {p.q, p.k, p.v}) results.emplace_back(with_heads_beside(x.shape()), dtype);
    }
    call = make_call(Op::attention_gradient, inputs, with_options(p.call), results);
  }
  Problem rest = p;  // for the rule: everything that is not among its inputs
  rest.q = rest.k = rest.v = {};
  std::vector<Tensor> out;
  for (int which : {0, 1, 2}) {
    out.push_back(custom_function([&](const std::vector<Tensor>&) { return result_of(call, p, which); },
                                  [rest, which](const Tensor& grad, const Tensor&, const std::vector<Tensor>& in) {
                                    WithHistory on;
                                    return ebb::grad(FunctionOfMany([&](const std::vector<Tensor>& at) {
                                      const auto [q, k, v, g] = widened(at[0], at[1], at[2], at[3]);
                                      return sum(plain_gradient(q, k, v, g, rest, which) * widen(grad));
                                    }))(in);
                                  },
                                  {p.q, p.k, p.v, g}));
  }
  return out;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  const Problem p = problem_of("scaled_dot_product_attention", q, k, v, options);
  const bool mask_is_learned = p.call.mask && p.mask.node()->history != 0;
  if (options.dropout > 0 || mask_is_learned) {
    const auto [wide_q, wide_k, wide_v] = widened(p.q, p.k, p.v);
    const Tensor w = dropout(weights_of(wide_q, wide_k, p), options.dropout, options.dropout > 0);
    return reshape(cast(matmul(w, for_each_head(wide_v, p.q.size(1))), p.q.dtype()), p.result);
  }
  Tensor call;
  {
    NoHistory off;
    call = kernel(p);
  }
  Problem rest = p;
  rest.q = rest.k = rest.v = {};
  const Tensor o = custom_function(
      [&](const std::vector<Tensor>&) { return swap_heads(output_of(call, 0)); },
      [rest, lse = output_of(call, 1)](const Tensor& grad, const Tensor& output, const std::vector<Tensor>& in) {
        Problem here = rest;
        here.q = in[0], here.k = in[1], here.v = in[2];
        return gradients(here, grad, output, lse);
      },
      {p.q, p.k, p.v});
  return reshape(o, p.result);
}

AttentionGradients scaled_dot_product_attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                                         const Tensor& v, const AttentionOptions& options) {
  const char* op = "scaled_dot_product_attention_backward";
  const Problem p = problem_of(op, q, k, v, options);
  require(options.dropout == 0, "{}: what was dropped is not known here; differentiate with backward instead", op);
  require(grad.shape() == p.result, "{}: gradient of shape {}, the result has shape {}", op, grad.shape(), p.result);
  const Tensor g = cast(reshape(grad, p.q.shape().with(3, p.v.size(-1))), p.q.dtype());
  Tensor call;
  {
    NoHistory off;
    call = kernel(p);
  }
  const std::vector<Tensor> all = gradients(p, g, swap_heads(output_of(call, 0)), output_of(call, 1));
  const auto like = [&](const Tensor& d, const Tensor& x) {
    Shape batch(p.result.begin(), p.result.rank() - 2);
    if (batch.rank() >= 2) batch = batch.with(batch.rank() - 1, d.size(1));
    return cotangent(reshape(d, batch.inserted(batch.rank(), x.size(-2)).inserted(batch.rank() + 1, x.size(-1))), x);
  };
  return {like(all[0], q), like(all[1], k), like(all[2], v)};
}

}  // namespace ebb
