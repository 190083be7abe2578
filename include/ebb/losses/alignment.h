// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/losses/reduction.h"
#include "ebb/tensor.h"

// Losses over all alignments of a sequence of labels with a longer sequence of steps. Gradients are exact for any
// log-probabilities, normalised or not: minus the share of alignments that pass through each of them. They can be
// differentiated once more. Samples run in parallel; memory is O(steps · labels) per sample.
namespace ebb {

struct CtcOptions {
  std::int64_t blank = 0;
  Reduction reduction = Reduction::mean;  // mean: each loss / max(its labels, 1), then the mean over the batch
  bool zero_infinity = false;             // a sample with no possible alignment counts 0 instead of inf
};
// Connectionist temporal classification. log_probs [T, N, C] (or [T, C] for one sample); targets [N, S], or all labels
// concatenated [Σ target_lengths]; both lengths [N]. Lengths and labels are checked.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options = {});
Tensor ctc_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                         const Tensor& input_lengths, const Tensor& target_lengths, const CtcOptions& options = {});

struct RnntOptions {
  std::int64_t blank = 0;
  Reduction reduction = Reduction::mean;  // over the batch
};
// The RNN transducer. log_probs [N, T, U + 1, C] of the joint network, targets [N, U], both lengths [N].
Tensor rnnt_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths, const RnntOptions& options = {});
Tensor rnnt_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                          const Tensor& input_lengths, const Tensor& target_lengths, const RnntOptions& options = {});

}  // namespace ebb
