// SPDX-License-Identifier: MIT
#include "losses/linear_loss.h"

#include <cmath>

#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "losses/classes.h"
#include "losses/linear_answers.h"
#include "losses/linear_chunks.h"
#include "losses/reduction.h"
#include "ops/build.h"

namespace ebb {
namespace {

using Tensors = std::vector<Tensor>;

const char* const kLossName = "linear_loss";

// The leading axes of a formula's arguments: x's or target's.
struct LeadingAxes {
  std::int64_t entries = 0, units = 0, tokens = 1;
  Shape batch;  // of all entries

  LeadingAxes(const LinearLossInputs& in, const LinearLossOptions& o) {
    const Tensor &x = in.x, &head = in.head;
    require(x.rank() >= 2 && head.rank() == 2 && x.size(-1) == head.size(1),
            "{}: hidden states of shape {} and a head of shape {} do not fit; give [N, .., H] and [V, H]", kLossName,
            x.shape(), head.shape());
    require(is_floating(x.dtype()) && is_floating(head.dtype()), Error::Kind::type,
            "{}: hidden states and head must be floating, got {} and {}", kLossName, x.dtype(), head.dtype());
    require(head.size(0) > 0, "{}: a head of shape {} has no classes", kLossName, head.shape());
    batch = x.shape().without(x.rank() - 1);
    entries = batch[0];
    for (int k = 1; k < batch.rank(); ++k) tokens *= batch[k];
    require(in.target.defined() || o.of == LossOf::logits, "{}: log-probabilities need a target", kLossName);
    if (in.target.defined()) {
      require(in.target.shape() == batch, "{}: target of shape {} does not fit hidden states of shape {}; give {}",
              kLossName, in.target.shape(), x.shape(), batch);
      require(in.target.dtype() == DType::i64 || in.target.dtype() == DType::i32, Error::Kind::type,
              "{}: target must be class indices, i64 or i32, got {}", kLossName, in.target.dtype());
    }
    require(o.sides == 1 || o.sides == 2, "{}: sides must be 1 or 2, got {}", kLossName, o.sides);
    require(entries % o.sides == 0, "{}: pairs need an even number of entries, the chosen ones first, got {}",
            kLossName, entries);
    units = entries / o.sides;
    require(o.temperature > 0, "{}: temperature must be positive, got {}", kLossName, o.temperature);
    require(o.softcap >= 0, "{}: softcap must not be negative, got {}", kLossName, o.softcap);
    require(o.chunk >= 0, "{}: chunk must not be negative, got {}", kLossName, o.chunk);
    require(o.reduction == Reduction::mean || o.reduction == Reduction::sum,
            "{}: reduction must be mean or sum; linear_log_probs has the log-probabilities themselves", kLossName);
    require(!o.bias.defined() || o.bias.shape() == Shape{head.size(0)}, "{}: bias of shape {} does not fit {} classes",
            kLossName, o.bias.defined() ? o.bias.shape() : Shape{}, head.size(0));
    for (std::size_t k = 0; k < in.others.size(); ++k) {
      const Tensor& t = in.others[k];
      require(t.rank() == 0 || t.size(0) == entries || t.size(0) == units,
              "{}: others[{}] of shape {} must have {} entries, one per {} of target, or no axes; tensors that every "
              "chunk needs whole are passed as shared",
              kLossName, k, t.shape(), units, o.sides == 2 ? "pair" : "entry");
    }
  }
  Shape part(std::int64_t count) const { return batch.with(0, count); }
};

// The formula's terms, checked, in the dtype that logits have.
Tensor terms_of(const TermFormula& formula, const Tensors& arguments, std::int64_t count, DType dtype) {
  const Tensor terms = formula(arguments);
  require(terms.shape() == Shape{count}, "{}: the formula must return one term per entry, shape {}, got shape {}",
          kLossName, Shape{count}, terms.shape());
  return cast(terms, dtype);
}

// Inputs in the order of the gradients; undefined without a bias.
Tensors listed(const LinearLossInputs& in, const Tensor& bias) {
  Tensors all{in.x, in.head, bias};
  all.insert(all.end(), in.others.begin(), in.others.end());
  all.insert(all.end(), in.shared.begin(), in.shared.end());
  return all;
}

Tensor reduced(const Tensor& terms, const LinearLossOptions& o) { return reduce(kLossName, terms, o.reduction); }

// By the kernel of linear_cross_entropy, which requests the cotangents of log-probabilities while it has the logits.
Tensor by_kernel(const Tensors& v, const LeadingAxes& at, const LinearLossInputs& in, const TermFormula& formula,
                 const LinearLossOptions& o) {
  const double factor = o.logit_scale / o.temperature;
  LinearLogProbOptions head = o;
  head.temperature = 1;
  head.softcap = o.softcap / o.temperature;
  head.bias = factor == 1 || !v[2].defined() ? v[2] : v[2] * factor;
  const DType wide = compute_dtype(promote(in.x.dtype(), in.head.dtype()));
  AnswerLoss loss;
  loss.sides = o.sides;
  loss.further.assign(v.begin() + 3, v.end());
  loss.terms = [formula, at, wide, sides = o.sides](const Tensor& log_probs, const Tensors& further) {
    const std::int64_t entries = log_probs.size(0);
    Tensors arguments{reshape(log_probs, at.part(entries))};
    arguments.insert(arguments.end(), further.begin(), further.end());
    return terms_of(formula, arguments, entries / sides, wide);
  };
  loss.reduce = [o](const Tensor& terms) { return reduced(terms, o); };
  const Tensor x = reshape(factor == 1 ? v[0] : v[0] * factor, {at.entries, at.tokens, in.x.size(-1)});
  return linear_answer_loss(x, v[1], reshape(in.target, {at.entries, at.tokens}), head, loss);
}

// By ordinary operations on the logits: the terms, and their inputs in the order of LogitTerms.
struct ByChunks {
  LogitTerms terms;
  Tensors inputs;
  std::size_t operands = 2;  // x, head and perhaps a bias; then perhaps the target

  // `bias` as in v, which has x, head, bias, others and shared.
  ByChunks(const Tensors& v, const LeadingAxes& at, const LinearLossInputs& in, const TermFormula& formula,
           const LinearLossOptions& o) {
    const DType dtype = promote(in.x.dtype(), in.head.dtype()), wide = compute_dtype(dtype);
    terms.units = at.units;
    terms.sides = o.sides;
    terms.tokens = at.tokens;
    terms.head.logit_scale = o.logit_scale;
    terms.head.softcap = o.softcap;
    terms.head.temperature = o.temperature;
    terms.head.chunk = o.chunk;
    terms.has_bias = v[2].defined();
    const bool has_target = in.target.defined();
    terms.cut = in.others.size() + has_target;
    terms.formula = [at, formula, has_target, wide, of = o.of, ignored = o.ignore_index, sides = o.sides](
                        const Tensor& logits, const Tensors& further) {
      const std::int64_t entries = logits.size(0) / std::max<std::int64_t>(at.tokens, 1), classes = logits.size(1);
      const Shape batch = at.part(entries);
      Tensors arguments;
      if (of == LossOf::logits) {
        arguments.push_back(reshape(logits, batch.inserted(batch.rank(), classes)));
        if (has_target) arguments.push_back(further[0]);
      } else {
        const Tensor target = reshape(further[0], {-1, 1}), kept = target != ignored;
        const LogSoftmax s = log_softmax_parts(logits, 1);
        const Tensor picked = pick_class(s.z, 1, where(kept, target, 0), "linear_loss: target") - s.log_s;
        arguments.push_back(reshape(where(kept, picked, 0), batch));
      }
      arguments.insert(arguments.end(), further.begin() + has_target, further.end());
      return terms_of(formula, arguments, entries / sides, wide);
    };
    inputs = {reshape(cast(v[0], dtype), {at.entries * at.tokens, in.x.size(-1)}), cast(v[1], dtype)};
    if (terms.has_bias) inputs.push_back(v[2]);
    operands = inputs.size();
    if (has_target) inputs.push_back(cast(in.target, DType::i64));
    inputs.insert(inputs.end(), v.begin() + 3, v.end());
  }

  LossAndGradients with_gradients(const LeadingAxes& at, const LinearLossInputs& in, const LinearLossOptions& o,
                                  const std::vector<bool>& asked) const {
    std::vector<bool> wanted{asked[0], asked[1]};
    if (terms.has_bias) wanted.push_back(asked[2]);
    const bool has_target = in.target.defined();
    if (has_target) wanted.push_back(false);
    wanted.insert(wanted.end(), asked.begin() + 3, asked.end());
    const DType wide = compute_dtype(promote(in.x.dtype(), in.head.dtype()));
    const double each = o.reduction == Reduction::mean ? 1.0 / static_cast<double>(at.units) : 1.0;
    NoHistory off;
    const bool any = std::find(wanted.begin(), wanted.end(), true) != wanted.end();
    const Tensors found = terms.pass(inputs, any ? full({at.units}, each, wide) : Tensor{}, wanted);
    LossAndGradients out;
    out.loss = reduced(found[0], o);
    out.gradients.resize(asked.size());
    if (asked[0]) out.gradients[0] = cast(reshape(found[1], in.x.shape()), in.x.dtype());
    if (asked[1]) out.gradients[1] = cast(found[2], in.head.dtype());
    if (terms.has_bias && asked[2]) out.gradients[2] = found[3];
    const std::size_t before = 1 + operands + has_target;
    for (std::size_t k = 3; k < asked.size(); ++k) out.gradients[k] = found[before + k - 3];
    return out;
  }
};

// Whether the kernel can be used. A factor that is not a power of two would round the halves of x.
bool has_kernel_for(const LinearLossInputs& in, const LeadingAxes& at, const LinearLossOptions& o) {
  int exponent = 0;
  const bool exact = std::abs(std::frexp(o.logit_scale / o.temperature, &exponent)) == 0.5 ||
                     !is_half(promote(in.x.dtype(), in.head.dtype()));
  return o.of == LossOf::log_probs && in.shared.empty() && exact && at.units > 0;
}

}  // namespace

Tensor linear_loss(const LinearLossInputs& in, const TermFormula& formula, const LinearLossOptions& o) {
  require(formula != nullptr, "{}: there is no formula", kLossName);
  require(in.x.defined() && in.head.defined(), "{}: an operand is an empty Tensor; give it a value", kLossName);
  const LeadingAxes at(in, o);
  const Tensors all = listed(in, o.bias);
  if (has_kernel_for(in, at, o)) return by_kernel(all, at, in, formula, o);
  const ByChunks chunks(all, at, in, formula, o);
  return reduced(chunks.terms.terms(chunks.inputs), o);
}

LossAndGradients linear_loss(const LinearLossInputs& in, const TermFormula& formula, const LinearLossOptions& o,
                             const std::vector<bool>& asked) {
  const LeadingAxes at(in, o);
  const Tensors all = listed(in, o.bias);
  if (!has_kernel_for(in, at, o)) return ByChunks(all, at, in, formula, o).with_gradients(at, in, o, asked);
  Tensors chosen;
  std::vector<std::size_t> positions;
  for (std::size_t k = 0; k < all.size(); ++k)
    if (asked[k]) chosen.push_back(all[k]), positions.push_back(k);
  LossAndGradients out;
  out.gradients.resize(all.size());
  if (chosen.empty()) {
    out.loss = by_kernel(all, at, in, formula, o);
    return out;
  }
  auto [value, grads] = value_and_grad(FunctionOfMany([&](const Tensors& tracked) {
    Tensors v = all;
    for (std::size_t k = 0; k < positions.size(); ++k) v[positions[k]] = tracked[k];
    return by_kernel(v, at, in, formula, o);
  }))(chosen);
  out.loss = value;
  for (std::size_t k = 0; k < positions.size(); ++k) out.gradients[positions[k]] = grads[k];
  return out;
}

}  // namespace ebb
