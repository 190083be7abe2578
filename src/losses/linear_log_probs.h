#pragma once
#include "ebb/losses/linear_cross_entropy.h"

// linear_log_probs and linear_sequence_log_probs before they are rounded: in f32 for halves, for losses that go on
// computing with them.
namespace ebb {

Tensor wide_log_probs(const Tensor& x, const Tensor& head, const Tensor& target, const LinearLogProbOptions& options);
Tensor wide_sequence_log_probs(const Tensor& x, const Tensor& head, const Tensor& target,
                               const LinearLogProbOptions& options, bool average);

}  // namespace ebb
