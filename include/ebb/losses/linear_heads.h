// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/losses/linear_cross_entropy.h"

// Further losses of hidden states and LM heads.
namespace ebb {

// dft_loss of the logits of x [.., H], a head [V, H] and target [..], with three products and without the logits.
struct LinearDftOptions {
  Tensor token_weight = {};  // [..]: one for each row; the mean divides by their sum
  Reduction reduction = Reduction::mean;
};
Tensor linear_dft_loss(const Tensor& x, const Tensor& head, const Tensor& target, const LinearDftOptions& options = {},
                       const LinearLogProbOptions& head_options = {});

// Divergences of a student, p = softmax(x·headᵀ/τ), and a teacher, q = softmax(teacher·teacher_headᵀ/τ), one term per
// row: hidden states [.., H] and [.., G], heads [V, H] and [V, G]. Both are formulas behind two products: large logits
// are made in strips (docs/strips.md). The teacher has gradients as well, where they are asked for.
struct LinearKlOptions {
  bool reverse = false;    // KL(p ‖ q) instead of KL(q ‖ p)
  double temperature = 1;  // τ; the loss is not multiplied by τ²
  Tensor mask = {};        // [..]: rows that count, over which the mean is; default: all
  Reduction reduction = Reduction::mean;
};
Tensor linear_kl_loss(const Tensor& x, const Tensor& head, const Tensor& teacher, const Tensor& teacher_head,
                      const LinearKlOptions& options = {});

// β·KL(q ‖ m) + (1 − β)·KL(p ‖ m),  m = β·q + (1 − β)·p
struct LinearJsdOptions {
  double beta = 0.5;
  double temperature = 1;
  Tensor mask = {};
  Reduction reduction = Reduction::mean;
};
Tensor linear_jsd_loss(const Tensor& x, const Tensor& head, const Tensor& teacher, const Tensor& teacher_head,
                       const LinearJsdOptions& options = {});

}  // namespace ebb
