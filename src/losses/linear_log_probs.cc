#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/backend.h"
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/losses/linear_cross_entropy.h"
#include "ebb/ops.h"
#include "losses/classes.h"
#include "losses/linear_rows.h"
#include "losses/products.h"
#include "ops/build.h"
#include "ops/reduce_parts.h"

// Log-probabilities of targets, and what else is asked of the distributions of tokens, from hidden states and an LM
// head.
namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;

const char* const kName = "linear_log_probs";

// z = softcap(s·(x·Wᵀ + b)) / τ of some rows. Halves are multiplied as they are, and the sums are f32.
Tensor logits_of(const Tensor& x, const Tensor& head, const Tensor& bias, const TokenStatisticsOptions& o) {
  const Tensor wide_x = widen(x), wide_head = widen(head);
  const bool by_bf16 = rounds_factors(x.dtype(), x.device(), x.size(0), head.size(0), x.size(1));
  Tensor z = by_bf16 ? rounded_product(wide_x, wide_head, {.b = true}) : matmul(wide_x, t(wide_head));
  if (bias.defined()) z = z + widen(bias);
  if (o.logit_scale != 1) z = z * o.logit_scale;
  z = capped(z, o.softcap);
  return o.temperature == 1 ? z : z * (1 / o.temperature);
}

// The statistics of rows of logits z [n, V], a column each, in the order of TokenStatistics.
//   m = max z,  d = z − m,  s = Σ e^d:   log p = d − log s,   −Σ p·log p = log s − Σ e^d·d / s,   log Σ e^z = m + log
//   s, log Σ p² = log Σ e^2d − 2·log s
Tensor columns_of(const Tensor& z, const Tensor& target, const TokenStatisticsOptions& o) {
  const ShiftedExp e = shifted_exp(z, 1u << 1);
  const Tensor d = z - e.shift, log_s = log(e.total);
  Tensors columns{pick_class(d, 1, target, "linear_log_probs: target") - log_s};
  if (o.entropy) {
    const Tensor terms = where(d == -std::numeric_limits<double>::infinity(), 0, e.terms * d);
    columns.push_back(log_s - sum(terms, 1, true) / e.total);
  }
  if (o.logsumexp) columns.push_back(e.shift + log_s);
  if (o.log_sum_sq_probs) columns.push_back(log(sum(exp(2 * d), 1, true)) - 2 * log_s);
  if (o.mean_logits) columns.push_back(mean(z, 1, true));
  if (o.argmax) columns.push_back(cast(argmax(z, 1, true), z.dtype()));
  return columns.size() == 1 ? columns[0] : cat(columns, 1);
}

// As many as make 16 MiB of f32 logits on the CPU and 1 GiB on a GPU, but enough for products to pay.
std::int64_t rows_at_a_time(std::int64_t chunk, std::int64_t classes, Device device) {
  if (chunk > 0) return chunk;
  const std::int64_t elements = std::int64_t{1} << (device == Device{} ? 22 : 28);
  return std::max<std::int64_t>(256, elements / std::max<std::int64_t>(classes, 1));
}

// log p(target) by the kernel of linear_cross_entropy; undefined where that has no such form, or where a factor that is
// not a power of two would round the halves of x.
Tensor log_probs_by_kernel(const Tensor& x, const Tensor& head, const Tensor& target, const TokenStatisticsOptions& o) {
  const double factor = o.logit_scale / o.temperature;
  int exponent = 0;
  const bool exact = std::abs(std::frexp(factor, &exponent)) == 0.5 || !is_half(promote(x.dtype(), head.dtype()));
  if (!exact || (o.softcap != 0 && o.temperature != 1)) return {};
  LinearLogProbOptions plain = o;
  plain.temperature = 1;
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
  const std::int64_t rows = in.x.size(0), classes = in.head.size(0);
  const DType dtype = compute_dtype(in.x.dtype());
  // The number of a class is a column of f32 beside the others.
  require(classes > 0 && classes <= 1 << 24, "{}: a head of shape {} must have 1 to 2^24 classes", kName, head.shape());

  const Tensor kept = in.target != o.ignore_index;
  const Tensor known = logical_or(logical_not(kept), logical_and(in.target >= 0, in.target < classes));
  const Tensor y = where(kept, check(in.target, known, "linear_log_probs: target must be a class of the head"), 0);
  const std::int64_t chunk = rows_at_a_time(o.chunk, classes, in.x.device());
  const auto columns = [o, y, biased = o.bias.defined()](const Tensors& v, std::int64_t first) {
    const Tensor z = logits_of(v[0], v[1], biased ? v[2] : Tensor{}, o);
    return columns_of(z, unsqueeze(narrow(y, 0, first, v[0].size(0)), 1), o);
  };
  Tensors parts;
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t count = std::min(chunk, rows - first);
    Tensors inputs{narrow(in.x, 0, first, count), in.head};
    if (o.bias.defined()) inputs.push_back(o.bias);
    const auto here = [columns, first](const Tensors& v) { return columns(v, first); };
    parts.push_back(count == rows ? here(inputs) : checkpoint(FunctionOfMany(here), inputs));
  }
  const Tensor all = parts.empty() ? zeros({0, 6}, dtype) : cat(parts, 0);
  std::int64_t next = 0;
  const auto column = [&](bool wanted) -> Tensor {
    if (!wanted) return {};
    return reshape(where(kept, select(all, 1, next++), 0), target.shape());
  };
  out.log_probs = column(true);
  out.entropy = column(o.entropy);
  out.logsumexp = column(o.logsumexp);
  out.log_sum_sq_probs = column(o.log_sum_sq_probs);
  out.mean_logits = column(o.mean_logits);
  if (o.argmax) out.argmax = cast(column(true), DType::i64);
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
