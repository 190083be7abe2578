// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

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

// Log-probabilities of targets, and what else is asked of the distributions of tokens, from hidden states and an LM
// head.
namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;

const char* const kName = "linear_log_probs";

// Where the columns of the results are; log p and log Σ e^z are always there. -1: not asked for.
struct Columns {
  int log_prob = 0, logsumexp = 1, entropy = -1, log_sum_sq_probs = -1, mean_logits = -1, argmax = -1, count = 2;
  explicit Columns(const TokenStatisticsOptions& o) {
    if (o.entropy) entropy = count++;
    if (o.log_sum_sq_probs) log_sum_sq_probs = count++;
    if (o.mean_logits) mean_logits = count++;
    if (o.argmax) argmax = count++;
  }
};

// The statistics of rows of logits z [n, V].
//   m = max z,  d = z − m,  s = Σ e^d:   log p = d − log s,   −Σ p·log p = log s − Σ e^d·d / s,   log Σ e^z = m + log
//   s, log Σ p² = log Σ e^2d − 2·log s
Tensor columns_of(const Tensor& z, const Tensor& target, const TokenStatisticsOptions& o) {
  const ShiftedExp e = shifted_exp(z, 1u << 1);
  const Tensor d = z - e.shift, log_s = log(e.total);
  Tensors columns{pick_class(d, 1, unsqueeze(target, 1), "linear_log_probs: target") - log_s, e.shift + log_s};
  if (o.entropy) {
    const Tensor terms = where(d == -std::numeric_limits<double>::infinity(), 0, e.terms * d);
    columns.push_back(log_s - sum(terms, 1, true) / e.total);
  }
  if (o.log_sum_sq_probs) columns.push_back(log(sum(exp(2 * d), 1, true)) - 2 * log_s);
  if (o.mean_logits) columns.push_back(mean(z, 1, true));
  if (o.argmax) columns.push_back(cast(argmax(z, 1, true), z.dtype()));
  return cat(columns, 1);
}

// The columns of all rows, inputs {x [N, H], head [V, H]} and perhaps a bias [V]: chunks of rows.
Tensor columns_by_rows(const Tensors& in, const Tensor& target, const TokenStatisticsOptions& o) {
  const std::int64_t rows = in[0].size(0), classes = in[1].size(0);
  const std::int64_t chunk = std::max<std::int64_t>(1, logits_at_a_time(o.chunk, classes, in[0].device()) / classes);
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

// Cotangents of the inputs that have a history, from those of the columns and from the columns' values: blocks of
// classes, so that the gradient of the head is computed once, block by block, and what is summed up is the small
// gradient of x.
//   d = z − lse,  p = e^d,  H the entropy,  S = log Σ p²:
//   dz = p·(g_lse − g_logp − g_H·(d + H) − 2·g_S) + 2·g_S·e^(2d − S) + g_mean/V + g_logp·[c = y]
Tensors gradients_by_classes(const Tensor& grad, const Tensor& values, const Tensors& in, const Tensor& target,
                             const TokenStatisticsOptions& o) {
  const Columns at(o);
  const std::int64_t rows = in[0].size(0), classes = in[1].size(0);
  const auto g = [&](int k) { return narrow(grad, 1, k, 1); };
  const auto value = [&](int k) { return narrow(values, 1, k, 1); };
  const std::int64_t budget = logits_at_a_time(o.chunk, classes, in[0].device());
  const std::int64_t block = std::clamp<std::int64_t>(budget / std::max<std::int64_t>(rows, 1), 1, classes);
  std::vector<bool> asked;
  for (const Tensor& t : in) asked.push_back(t.node()->history != 0);
  Tensor of_x, last;
  Tensors of_head, of_bias;
  for (std::int64_t first = 0; first < classes; first += block) {
    const std::int64_t count = std::min(block, classes - first);
    const Tensor x = last.defined() ? after(in[0], last) : in[0], head = narrow(in[1], 0, first, count);
    const Tensor z = logits_of(x, head, in.size() > 2 ? narrow(in[2], 0, first, count) : Tensor{}, o);
    const Tensor d = z - value(at.logsumexp), p = exp(d);
    Tensor dz = p * (g(at.logsumexp) - g(at.log_prob));
    if (at.entropy >= 0) {
      const Tensor term = g(at.entropy) * p * (d + value(at.entropy));
      dz = dz - where(d == -std::numeric_limits<double>::infinity(), 0, term);
    }
    if (at.log_sum_sq_probs >= 0) dz = dz + 2 * g(at.log_sum_sq_probs) * (exp(2 * d - value(at.log_sum_sq_probs)) - p);
    if (at.mean_logits >= 0) dz = dz + g(at.mean_logits) * (1 / static_cast<double>(classes));
    const Tensor here = unsqueeze(target - first, 1) == arange(count);
    dz = dz + where(here, g(at.log_prob), 0);
    const LogitGradients of(dz, z, x, o, head);
    if (asked[0]) {
      const Tensor part = of.of_x();
      of_x = of_x.defined() ? of_x + part : part;
      last = of_x;
    }
    if (asked[1]) {
      const Tensor part = of.of_head(x);
      of_head.push_back(cast(last.defined() ? after(part, last) : part, in[1].dtype()));
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
  return custom_function([&](const Tensors& in) { return columns_by_rows(in, target, o); },
                         [target, o](const Tensor& grad, const Tensor& values, const Tensors& in) {
                           const auto plain = [target, o](const Tensors& v) {
                             return columns_of(
                                 logits_of(v[0], v[1], v.size() > 2 ? v[2] : Tensor{}, o, Product::differentiable),
                                 target, o);
                           };
                           Tensors found;
                           {
                             NoHistory off;
                             found = gradients_by_classes(grad, values, in, target, o);
                           }
                           return differentiated_cotangents(plain, std::move(found), in, grad);
                         },
                         inputs);
}

// log p(target) by the kernel of linear_cross_entropy; undefined where that has no such form, or where a factor that is
// not a power of two would round the halves of x.
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

}  // namespace

TokenStatistics linear_token_statistics(const Tensor& x, const Tensor& head, const Tensor& target,
                                        const TokenStatisticsOptions& o) {
  require(o.temperature > 0, "{}: temperature must be positive, got {}", kName, o.temperature);
  TokenStatistics out;
  if (!o.entropy && !o.logsumexp && !o.log_sum_sq_probs && !o.mean_logits && !o.argmax) {
    out.log_probs = log_probs_by_kernel(x, head, target, o);
    if (out.log_probs.defined()) return out;
  }
  LinearLogProbOptions plain = o;
  plain.temperature = 1;
  const LinearOperands in = log_prob_rows(x, head, target, plain).o;
  const std::int64_t classes = in.head.size(0);
  // The number of a class is a column of f32 beside the others.
  require(classes > 0 && classes <= 1 << 24, "{}: a head of shape {} must have 1 to 2^24 classes", kName, head.shape());

  const Tensor kept = in.target != o.ignore_index;
  const Tensor known = logical_or(logical_not(kept), logical_and(in.target >= 0, in.target < classes));
  const Tensor y = where(kept, check(in.target, known, "linear_log_probs: target must be a class of the head"), 0);
  Tensors inputs{in.x, in.head};
  if (o.bias.defined()) inputs.push_back(o.bias);
  const Tensor all = columns_with_gradients(inputs, y, o);
  const Columns at(o);
  const auto column = [&](int k) -> Tensor {
    return k < 0 ? Tensor{} : reshape(where(kept, select(all, 1, k), 0), target.shape());
  };
  out.log_probs = column(at.log_prob);
  if (o.logsumexp) out.logsumexp = column(at.logsumexp);
  out.entropy = column(at.entropy);
  out.log_sum_sq_probs = column(at.log_sum_sq_probs);
  out.mean_logits = column(at.mean_logits);
  if (o.argmax) out.argmax = cast(column(at.argmax), DType::i64);
  return out;
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
