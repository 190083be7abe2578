// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/backend.h"
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/losses/linear_cross_entropy.h"
#include "ebb/ops.h"
#include "losses/classes.h"
#include "losses/linear_chunks.h"
#include "losses/linear_rows.h"
#include "losses/one_pass.h"
#include "ops/build.h"
#include "ops/reduce_parts.h"

// Log-probabilities of targets, and other statistics of the distributions of tokens, from hidden states and an LM
// head.
namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;

const char* const kLogProbsName = "linear_log_probs";

// The columns of the results; log p and log Σ e^z always exist. -1: not requested.
struct Columns {
  int log_prob = 0, logsumexp = 1, entropy = -1, log_sum_sq_probs = -1, mean_logits = -1, argmax = -1, count = 2;
  explicit Columns(const TokenStatisticsOptions& o) {
    if (o.entropy) entropy = count++;
    if (o.log_sum_sq_probs) log_sum_sq_probs = count++;
    if (o.mean_logits) mean_logits = count++;
    if (o.argmax) argmax = count++;
  }
};

// t·p of p = e^d: 0 where d is −∞, for an impossible class. Without a constant to compare with, so that a GPU's plan
// recognises it (cuda/plan/softmax.cc).
Tensor times_exponential(const Tensor& t, const Tensor& d, const Tensor& p) { return where(isfinite(d), t, p) * p; }

// The first class whose logit is the row's largest, or NaN, as a formula: a pass that computes the exponentials of a
// row finds it as well.
Tensor first_largest(const Tensor& z) {
  const std::int64_t classes = z.size(1);
  const Tensor found = logical_or(z == max(z, 1, true), isnan(z));
  return min(where(found, arange(0, classes, 1, DType::i32), classes), 1, true);
}

// The statistics of rows of logits z [n, V].
//   m = max z,  d = z − m,  s = Σ e^d:   log p = d − log s,   −Σ p·log p = log s − Σ e^d·d / s,   log Σ e^z = m + log
//   s, log Σ p² = log Σ e^2d − 2·log s
Tensor columns_of(const Tensor& z, const Tensor& target, const TokenStatisticsOptions& o) {
  const ShiftedExp e = shifted_exp(z, 1u << 1);
  const Tensor d = z - e.shift, log_s = log(e.total);
  Tensors columns{pick_class(d, 1, unsqueeze(target, 1), "linear_log_probs: target") - log_s, e.shift + log_s};
  if (o.entropy) columns.push_back(log_s - sum(times_exponential(d, d, e.terms), 1, true) / e.total);
  if (o.log_sum_sq_probs) columns.push_back(log(sum(exp(2 * d), 1, true)) - 2 * log_s);
  if (o.mean_logits) columns.push_back(mean(z, 1, true));
  if (o.argmax) columns.push_back(cast(first_largest(z), z.dtype()));
  return cat(columns, 1);
}

// A GPU has a kernel for logits of bf16 that are only scaled.
bool has_statistics_kernel(const Tensors& in, const TokenStatisticsOptions& o) {
  return backend_of(in[0].device()).has_token_statistics() && in[0].dtype() == DType::bf16 &&
         in[1].dtype() == DType::bf16 && in.size() == 2 && in[0].size(1) > 0 && o.softcap == 0 && o.logit_scale > 0 &&
         !o.log_sum_sq_probs && !o.mean_logits;
}
Tensor columns_by_kernel(const Tensors& in, const Tensor& target, const TokenStatisticsOptions& o) {
  const TokenStatisticsCall c{
      .factor = o.logit_scale / o.temperature, .chunk = o.chunk, .entropy = o.entropy, .argmax = o.argmax};
  const Tensors inputs{contiguous(in[0]), contiguous(in[1]), target};
  return make_call(Op::linear_cross_entropy, inputs, with_options(c),
                   {{Shape{in[0].size(0), c.columns()}, DType::f32}});
}

// The columns of all rows, inputs {x [N, H], head [V, H]} and perhaps a bias [V]: chunks of rows.
Tensor columns_by_rows(const Tensors& in, const Tensor& target, const TokenStatisticsOptions& o) {
  if (has_statistics_kernel(in, o)) return columns_by_kernel(in, target, o);
  const std::int64_t rows = in[0].size(0), classes = in[1].size(0);
  const std::int64_t chunk = even_length(rows, logits_at_a_time(o.chunk, classes, in[0].device()) / classes);
  const ChunkHead head(in[0], in[1]);
  Tensors parts;
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t count = std::min(chunk, rows - first);
    Tensor x = narrow(in[0], 0, first, count);
    if (!parts.empty()) x = after(x, parts.back());
    const Tensor z = head.logits_of(x, in.size() > 2 ? in[2] : Tensor{}, o);
    parts.push_back(columns_of(z, narrow(target, 0, first, count), o));
  }
  return parts.empty() ? zeros({0, Columns(o).count}, compute_dtype(in[0].dtype())) : cat(parts, 0);
}

// Columns [N, 1] of a matrix of them.
TokenStatistics each_column(const Tensor& all, const TokenStatisticsOptions& o) {
  const Columns at(o);
  const auto column = [&](int k) { return k < 0 ? Tensor{} : narrow(all, 1, k, 1); };
  return {.log_probs = column(at.log_prob),
          .entropy = column(at.entropy),
          .logsumexp = column(at.logsumexp),
          .log_sum_sq_probs = column(at.log_sum_sq_probs),
          .mean_logits = column(at.mean_logits)};
}

// Cotangents of the requested inputs, from those of the columns, g, and from the columns' values: blocks of classes,
// so that the gradient of the head is computed once, block by block, and the sum is only over the small gradient of
// x.
//   d = z − lse,  p = e^d,  H the entropy,  S = log Σ p²:
//   dz = p·(g_lse − g_logp − g_H·(d + H) − 2·g_S) + 2·g_S·e^(2d − S) + g_mean/V + g_logp·[c = y]
Tensors gradients_by_classes(const TokenStatistics& g, const TokenStatistics& value, const Tensors& in,
                             const std::vector<bool>& asked, const Tensor& target, const TokenStatisticsOptions& o) {
  const std::int64_t rows = in[0].size(0), classes = in[1].size(0);
  const std::int64_t budget = logits_at_a_time(o.chunk, classes, in[0].device());
  const std::int64_t block = even_length(classes, budget / std::max<std::int64_t>(rows, 1));
  Tensor of_x, last;
  Tensors of_head, of_bias;
  for (std::int64_t first = 0; first < classes; first += block) {
    const std::int64_t count = std::min(block, classes - first);
    const Tensor x = last.defined() ? after(in[0], last) : in[0], head = narrow(in[1], 0, first, count);
    const Tensor z = logits_of(x, head, in.size() > 2 ? narrow(in[2], 0, first, count) : Tensor{}, o);
    const Tensor d = z - value.logsumexp, p = exp(d);
    Tensor dz;
    const auto add = [&](const Tensor& part) { dz = dz.defined() ? dz + part : part; };
    if (g.logsumexp.defined() && g.log_probs.defined()) {
      add(p * (g.logsumexp - g.log_probs));
    } else if (g.logsumexp.defined() || g.log_probs.defined()) {
      add(p * (g.logsumexp.defined() ? g.logsumexp : -g.log_probs));
    }
    if (g.entropy.defined()) add(-g.entropy * times_exponential(d + value.entropy, d, p));
    if (g.log_sum_sq_probs.defined()) add(2 * g.log_sum_sq_probs * (exp(2 * d - value.log_sum_sq_probs) - p));
    if (g.mean_logits.defined()) add(expand(g.mean_logits * (1 / static_cast<double>(classes)), z.shape()));
    if (g.log_probs.defined()) add(where(unsqueeze(target - first, 1) == arange(count), g.log_probs, 0));
    const LogitGradients of(dz, z, x, o, head);
    if (asked[0]) {
      const Tensor part = of.of_x();
      of_x = of_x.defined() ? of_x + part : part;
      last = of_x;
    }
    if (asked[1]) {
      const Tensor part = of.of_head(x, in[1].dtype());
      of_head.push_back(last.defined() ? after(part, last) : part);
      last = of_head.back();
    }
    if (asked.size() > 2 && asked[2]) of_bias.push_back(cast(of.of_bias(), in[2].dtype())), last = of_bias.back();
  }
  Tensors found(in.size());
  if (asked[0]) found[0] = cast(of_x, in[0].dtype());
  if (asked[1]) found[1] = cat(of_head, 0);
  if (asked.size() > 2 && asked[2]) found[2] = cat(of_bias, 0);
  return found;
}

// The columns with their gradient; the gradient's own derivatives are those of the plain formula, with all logits in
// memory.
Tensor columns_with_gradients(const Tensors& inputs, const Tensor& target, const TokenStatisticsOptions& o) {
  return custom_function(
      [&](const Tensors& in) { return columns_by_rows(in, target, o); },
      [target, o](const Tensor& grad, const Tensor& values, const Tensors& in) {
        const auto plain = [target, o](const Tensors& v) {
          return columns_of(logits_of(v[0], v[1], v.size() > 2 ? v[2] : Tensor{}, o, Product::differentiable), target,
                            o);
        };
        std::vector<bool> asked;
        for (const Tensor& t : in) asked.push_back(t.node()->history != 0);
        Tensors found;
        {
          NoHistory off;
          found = gradients_by_classes(each_column(grad, o), each_column(values, o), in, asked, target, o);
        }
        return differentiated_cotangents(plain, std::move(found), in, grad);
      },
      inputs);
}

// The columns' derivatives in the direction of the tangents of {x, head, bias}, some of which may be undefined:
//   z' the logits' one:  lse' = Σ p·z',  log p' = z'_y − lse',  H' = −Σ p·(d + H)·z',  S' = 2·(Σ e^(2d − S)·z' − lse')
TokenStatistics tangents_by_rows(const Tensors& in, const Tensors& tangents, const Tensor& target,
                                 const TokenStatisticsOptions& o) {
  const std::int64_t rows = in[0].size(0), classes = in[1].size(0);
  const std::int64_t chunk = even_length(rows, logits_at_a_time(o.chunk, classes, in[0].device()) / classes);
  TokenStatisticsOptions plain;  // of the product only
  std::vector<Tensors> parts(5);
  Tensor last;
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t count = std::min(chunk, rows - first);
    const auto some = [&](const Tensor& t) { return narrow(t, 0, first, count); };
    const Tensor x = last.defined() ? after(some(in[0]), last) : some(in[0]), y = some(target);
    const Tensor z = logits_of(x, in[1], in.size() > 2 ? in[2] : Tensor{}, o);
    const Tensor bias = in.size() > 2 && tangents[2].defined() ? expand(widen(tangents[2]), z.shape()) : Tensor{};
    Tensor moved;
    const auto add = [&](const Tensor& part) { moved = moved.defined() ? moved + part : part; };
    if (tangents[0].defined()) add(logits_of(some(tangents[0]), in[1], {}, plain));
    if (tangents[1].defined()) add(logits_of(x, tangents[1], {}, plain));
    if (bias.defined()) add(bias);
    moved = through_cap(moved, z, o);
    const TokenStatistics value = each_column(columns_of(z, y, o), o);
    const Tensor d = z - value.logsumexp, p = exp(d), lse = sum(p * moved, 1, true);
    const auto keep = [&](std::size_t k, const Tensor& column) { parts[k].push_back(column), last = column; };
    keep(0, pick_class(moved, 1, unsqueeze(y, 1), "linear_log_probs: target") - lse);
    if (o.entropy) keep(1, -sum(times_exponential(d + value.entropy, d, p) * moved, 1, true));
    if (o.logsumexp) keep(2, lse);
    if (o.log_sum_sq_probs) keep(3, 2 * (sum(exp(2 * d - value.log_sum_sq_probs) * moved, 1, true) - lse));
    if (o.mean_logits) keep(4, mean(moved, 1, true));
  }
  const auto whole = [&](std::size_t k, bool wanted) -> Tensor {
    if (!wanted) return {};
    return parts[k].empty() ? zeros({0, 1}, compute_dtype(in[0].dtype())) : cat(parts[k], 0);
  };
  return {.log_probs = whole(0, true),
          .entropy = whole(1, o.entropy),
          .logsumexp = whole(2, o.logsumexp),
          .log_sum_sq_probs = whole(3, o.log_sum_sq_probs),
          .mean_logits = whole(4, o.mean_logits)};
}

// log p(target) by the kernel of linear_cross_entropy; undefined if that has no such form, or if a factor that is not a
// power of two would round the halves of x.
Tensor log_probs_by_kernel(const Tensor& x, const Tensor& head, const Tensor& target, const TokenStatisticsOptions& o) {
  const double factor = o.logit_scale / o.temperature;
  int exponent = 0;
  const bool exact = std::abs(std::frexp(factor, &exponent)) == 0.5 || !is_half(promote(x.dtype(), head.dtype()));
  if (!exact) return {};
  LinearLogProbOptions plain = o;
  plain.temperature = 1;
  plain.softcap = o.softcap / o.temperature;
  if (factor != 1 && plain.bias.defined()) plain.bias = plain.bias * factor;
  return reshape(-row_losses(log_prob_rows(factor == 1 ? x : x * factor, head, target, plain)), target.shape());
}

// Operands in the form used above: {x [N, H], head [V, H]} and perhaps a bias [V], and classes [N], 0 in rows that are
// ignored.
struct StatisticsOperands {
  Tensors inputs;
  Tensor target, kept;

  StatisticsOperands(const Tensor& x, const Tensor& head, const Tensor& y, const TokenStatisticsOptions& o) {
    LinearLogProbOptions plain = o;
    plain.temperature = 1;
    const LinearOperands in = log_prob_rows(x, head, y, plain).o;
    const std::int64_t classes = in.head.size(0);
    // The number of a class is stored in a column of f32.
    require(classes > 0 && classes <= 1 << 24, "{}: a head of shape {} must have 1 to 2^24 classes", kLogProbsName,
            head.shape());
    kept = in.target != o.ignore_index;
    const Tensor known = logical_or(logical_not(kept), logical_and(in.target >= 0, in.target < classes));
    target = where(kept, check(in.target, known, "linear_log_probs: target must be a class of the head"), 0);
    inputs = {in.x, in.head};
    if (o.bias.defined()) inputs.push_back(o.bias);
  }
  // A column [N] in the caller's shape.
  Tensor in_place(const Tensor& column, const Tensor& like) const {
    return reshape(where(kept, column, 0), like.shape());
  }
};

}  // namespace

TokenStatistics linear_token_statistics(const Tensor& x, const Tensor& head, const Tensor& target,
                                        const TokenStatisticsOptions& o) {
  require(o.temperature > 0, "{}: temperature must be positive, got {}", kLogProbsName, o.temperature);
  TokenStatistics out;
  if (!o.entropy && !o.logsumexp && !o.log_sum_sq_probs && !o.mean_logits && !o.argmax) {
    out.log_probs = log_probs_by_kernel(x, head, target, o);
    if (out.log_probs.defined()) return out;
  }
  const StatisticsOperands in(x, head, target, o);
  const Tensor all = columns_with_gradients(in.inputs, in.target, o);
  const Columns at(o);
  const auto column = [&](int k) { return k < 0 ? Tensor{} : in.in_place(select(all, 1, k), target); };
  out.log_probs = column(at.log_prob);
  if (o.logsumexp) out.logsumexp = column(at.logsumexp);
  out.entropy = column(at.entropy);
  out.log_sum_sq_probs = column(at.log_sum_sq_probs);
  out.mean_logits = column(at.mean_logits);
  if (o.argmax) out.argmax = cast(column(at.argmax), DType::i64);
  return out;
}

LinearCrossEntropyGradients linear_token_statistics_backward(const TokenStatistics& cotangents,
                                                             const TokenStatistics& values, const Tensor& x,
                                                             const Tensor& head, const Tensor& target,
                                                             const TokenStatisticsOptions& o, WantedGradients wanted) {
  require(values.logsumexp.defined() && (values.entropy.defined() || !cotangents.entropy.defined()) &&
              (values.log_sum_sq_probs.defined() || !cotangents.log_sum_sq_probs.defined()),
          "linear_token_statistics_backward: needs the values of logsumexp, and those of entropy and log_sum_sq_probs "
          "where they have a cotangent");
  const Tensor* const given[] = {&cotangents.log_probs, &cotangents.entropy, &cotangents.logsumexp,
                                 &cotangents.log_sum_sq_probs, &cotangents.mean_logits};
  require(std::any_of(std::begin(given), std::end(given), [](const Tensor* t) { return t->defined(); }),
          "linear_token_statistics_backward: there is no cotangent");
  const StatisticsOperands in(x, head, target, o);
  const DType dtype = compute_dtype(in.inputs[0].dtype());
  const Tensor kept = unsqueeze(in.kept, 1);
  const auto column = [&](const Tensor& t, double ignored) -> Tensor {
    if (!t.defined()) return {};
    require(t.shape() == target.shape(), "linear_token_statistics_backward: a statistic of shape {}, target has {}",
            t.shape(), target.shape());
    return where(kept, cast(reshape(t, {target.numel(), 1}), dtype), ignored);
  };
  const auto all = [&](const TokenStatistics& s, double logsumexp) -> TokenStatistics {
    return {column(s.log_probs, 0),        column(s.entropy, 0),     column(s.logsumexp, logsumexp),
            column(s.log_sum_sq_probs, 0), column(s.mean_logits, 0), {}};
  };
  // Probabilities of ignored rows are zeros: the computed ones are meaningless.
  const double nowhere = std::numeric_limits<double>::infinity();
  const std::vector<bool> asked{wanted.x, wanted.head, wanted.bias && o.bias.defined()};
  NoHistory off;
  Tensors found = gradients_by_classes(all(cotangents, 0), all(values, nowhere), in.inputs, asked, in.target, o);
  found.resize(3);
  if (wanted.x) found[0] = cast(reshape(found[0], x.shape()), x.dtype());
  if (wanted.head) found[1] = cast(found[1], head.dtype());
  return {found[0], found[1], found[2], {}};
}

TokenStatistics linear_token_statistics_jvp(const Tensor& x, const Tensor& head, const Tensor& target,
                                            const TokenStatisticsOptions& o, const StatisticsTangents& tangents) {
  const StatisticsOperands in(x, head, target, o);
  const auto given = [&](const char* name, const Tensor& t, const Tensor& of, const Tensor& operand) -> Tensor {
    if (!t.defined()) return {};
    require(of.defined() && t.shape() == of.shape(),
            "linear_token_statistics_jvp: a tangent of {} of shape {}, it has {}", name, t.shape(),
            of.defined() ? of.shape() : Shape{});
    return reshape(cast(t, operand.dtype()), operand.shape());
  };
  const Tensors directions{given("x", tangents.x, x, in.inputs[0]), given("head", tangents.head, head, in.inputs[1]),
                           given("bias", tangents.bias, o.bias, o.bias)};
  require(directions[0].defined() || directions[1].defined() || directions[2].defined(),
          "linear_token_statistics_jvp: there is no tangent");
  NoHistory off;
  TokenStatistics found = tangents_by_rows(in.inputs, directions, in.target, o);
  for (Tensor* t : {&found.log_probs, &found.entropy, &found.logsumexp, &found.log_sum_sq_probs, &found.mean_logits})
    if (t->defined()) *t = in.in_place(reshape(*t, {target.numel()}), target);
  return found;
}

Tensor linear_log_probs(const Tensor& x, const Tensor& head, const Tensor& target,
                        const LinearLogProbOptions& options) {
  TokenStatisticsOptions alone;
  static_cast<LinearLogProbOptions&>(alone) = options;
  alone.entropy = alone.logsumexp = alone.argmax = false;
  return linear_token_statistics(x, head, target, alone).log_probs;
}

Tensor linear_sequence_log_probs(const Tensor& x, const Tensor& head, const Tensor& target,
                                 const SequenceLogProbOptions& options) {
  require(target.rank() >= 1, "linear_sequence_log_probs: target needs an axis of positions, got shape {}",
          target.shape());
  const Tensor rows = linear_log_probs(x, head, target, options);
  const Tensor total = sum(rows, -1);
  return options.average ? total / sum(cast(target != options.ignore_index, rows.dtype()), -1) : total;
}

}  // namespace ebb
