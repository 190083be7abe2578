// SPDX-License-Identifier: MIT
#pragma once
#include "calls/linear_cross_entropy.h"
#include "ebb/losses/linear_cross_entropy.h"

// Rows of cross-entropy through an LM head, before they are reduced.
namespace ebb {

// The operands of the kernel, in its order.
struct LinearOperands {
  Tensor x, head, target, bias, weight;  // [N, H], [V, H], [N], [V], [V]; the last two may be undefined
  std::vector<Tensor> list() const;
  static LinearOperands of(const std::vector<Tensor>& list, const LinearCrossEntropyCall& call);
};

struct LinearRows {
  LinearOperands o;
  LinearCrossEntropyCall c;
};

// The rows whose losses are −log p(target), checked and scaled.
LinearRows log_prob_rows(const Tensor& x, const Tensor& head, const Tensor& target,
                         const LinearLogProbOptions& options);

// Bounded by the softcap, if there is one.
Tensor capped(const Tensor& logits, double softcap);

// Every row's loss [N], in f32 or f64.
Tensor row_losses(const LinearRows& rows);

// linear_cross_entropy of probabilities, or through a head with further axes.
Tensor general_linear_cross_entropy(const Tensor& x, const Tensor& head, const Tensor& target,
                                    const LinearCrossEntropyOptions& options);

// The kernel's call: the losses, then the gradients that c names, for the given cotangents of the losses or, if they
// depend on the losses, for those that `units` computes from them and `further`.
Tensor linear_call(const LinearRows& rows, const Tensor& cotangent = {},
                   const std::shared_ptr<const RowUnits>& units = nullptr, const std::vector<Tensor>& further = {});

// c with the gradients that may be requested.
LinearCrossEntropyCall with_gradients(const LinearRows& rows);

}  // namespace ebb
