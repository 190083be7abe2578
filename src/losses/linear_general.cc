// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/format_error.h"
#include "ebb/losses/classification.h"
#include "ebb/losses/linear_cross_entropy.h"
#include "ebb/ops.h"
#include "losses/classes.h"
#include "losses/linear_chunks.h"
#include "losses/linear_rows.h"
#include "ops/build.h"

// linear_cross_entropy for cases without a kernel: targets that are probabilities, heads with further axes.
namespace ebb {
namespace {

const char* const kCrossEntropyName = "linear_cross_entropy";

// −Σ w·t·log p of every row, [N], a chunk of rows at a time: the backward pass recomputes the logits.
Tensor probability_losses(const Tensor& x, const Tensor& head, const Tensor& target,
                          const LinearCrossEntropyOptions& o) {
  LogitTerms rows;
  rows.units = x.size(0);
  rows.head.softcap = o.softcap;
  rows.head.chunk = o.chunk;
  rows.has_bias = o.bias.defined();
  rows.cut = 1;
  const CrossEntropyOptions options{
      .weight = o.weight, .label_smoothing = o.label_smoothing, .z_loss = o.z_loss, .reduction = Reduction::none};
  rows.formula = [options](const Tensor& logits, const std::vector<Tensor>& v) {
    return cross_entropy(logits, cast(v[0], logits.dtype()), options);
  };
  const DType dtype = promote(x.dtype(), head.dtype());
  std::vector<Tensor> inputs{cast(x, dtype), cast(head, dtype)};
  if (o.bias.defined()) inputs.push_back(o.bias);
  inputs.push_back(target);
  return rows.terms(inputs);
}

}  // namespace

Tensor general_linear_cross_entropy(const Tensor& x, const Tensor& head, const Tensor& target,
                                    const LinearCrossEntropyOptions& o) {
  const bool probabilities = is_floating(target.dtype());
  require(head.rank() >= 2 && x.rank() >= 1 && x.size(-1) == head.size(-1),
          "{}: hidden states of shape {} and a head of shape {} do not fit; give [.., H] and [V, .., H]",
          kCrossEntropyName, x.shape(), head.shape());
  require(head.rank() == 2 || x.rank() == 2, "{}: a head of shape {} needs hidden states [N, H], got shape {}",
          kCrossEntropyName, head.shape(), x.shape());
  require(o.reduction != Reduction::batchmean, "{}: reduction must be none, mean or sum", kCrossEntropyName);
  require(!probabilities || o.ignore_index < 0,
          "{}: ignore_index = {} is for class indices, but the target holds probabilities", kCrossEntropyName,
          o.ignore_index);
  const std::int64_t classes = head.size(0), width = head.size(-1);
  const std::int64_t places = head.numel() / std::max<std::int64_t>(classes * width, 1);
  Shape expected = x.shape().without(x.rank() - 1);  // of the losses
  for (int k = 1; k < head.rank() - 1; ++k) expected = expected.inserted(expected.rank(), head.size(k));
  const Shape of_target =
      !probabilities ? expected : expected.inserted(head.rank() == 2 ? expected.rank() : 1, classes);
  require(!probabilities || target.shape() != expected, Error::Kind::type,
          "{}: target of shape {} must be class indices, i64 or i32, or probabilities of shape {}, got {}",
          kCrossEntropyName, target.shape(), of_target, target.dtype());
  require(target.shape() == of_target, "{}: target of shape {} does not fit hidden states {} and a head {}; give {}",
          kCrossEntropyName, target.shape(), x.shape(), head.shape(), of_target);
  require(!o.bias.defined() || o.bias.shape() == head.shape().without(head.rank() - 1),
          "{}: bias of shape {} does not fit a head of shape {}", kCrossEntropyName,
          o.bias.defined() ? o.bias.shape() : Shape{}, head.shape());

  const std::int64_t rows = x.numel() / std::max<std::int64_t>(width, 1);
  const Tensor flat = reshape(x, {rows, width}), heads = reshape(head, {classes, places, width});
  const Tensor biases = o.bias.defined() ? reshape(o.bias, {classes, places}) : Tensor{};
  const Tensor targets = probabilities ? reshape(target, {rows, classes, places}) : reshape(target, {rows, places});
  std::vector<Tensor> losses, weights;  // [N] of each place
  for (std::int64_t k = 0; k < places; ++k) {
    LinearCrossEntropyOptions each = o;
    if (o.bias.defined()) each.bias = select(biases, 1, k);
    const Tensor h = select(heads, 1, k), t = select(targets, targets.rank() - 1, k);
    if (probabilities) {
      losses.push_back(probability_losses(flat, h, t, each));
      continue;
    }
    // Sums and weights of the rows separately: a mean is over all places together.
    each.reduction = Reduction::none;
    each.token_weight = {};
    losses.push_back(linear_cross_entropy(widen(flat), widen(h), t, each));
    const Tensor kept = t != o.ignore_index;
    Tensor weight = cast(kept, losses.back().dtype());
    if (o.weight.defined()) {
      weight = weight * cast(index_select(o.weight, 0, where(kept, cast(t, DType::i64), 0)), weight.dtype());
    }
    weights.push_back(weight);
  }
  Tensor loss = stack(losses, 1), weight = probabilities ? Tensor{} : stack(weights, 1);
  if (const Tensor w = token_weights(kCrossEntropyName, o.token_weight, expected, loss.dtype()); w.defined()) {
    const Tensor each = reshape(w, loss.shape());
    loss = loss * each;
    weight = probabilities ? each : weight * each;
  }
  if (o.reduction == Reduction::none) loss = reshape(loss, expected);
  if (o.reduction == Reduction::sum) loss = sum(loss);
  if (o.reduction == Reduction::mean) loss = weight.defined() ? sum(loss) / sum(weight) : mean(loss);
  return cast(loss, promote(x.dtype(), head.dtype()));
}

}  // namespace ebb
