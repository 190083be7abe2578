// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/losses/reduction.h"
#include "ebb/tensor.h"

namespace ebb {

struct LinearCrossEntropyOptions {
  Tensor bias = {};    // [V]
  Tensor weight = {};  // [V], of the classes
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
  double z_loss = 0;         // adds z_loss·w_y·lse² to every row that is not ignored
  double softcap = 0;        // logits become softcap·tanh(logits / softcap); 0: unchanged
  Tensor token_weight = {};  // one for each loss, in their shape; the mean divides by Σ w_y·token_weight
  Reduction reduction = Reduction::mean;
  std::int64_t chunk = 0;  // rows whose logits exist at a time; 0: chosen from the cache and the shape
  // For bf16 on a GPU, less memory and time for fewer digits:
  bool round_logits =
      false;  // logits are stored as bf16, as a Linear layer's would be (without bias, softcap, smoothing)
  bool round_sums = false;  // the head's gradient is rounded to bf16 after each chunk, not kept in f32
};

// cross_entropy(x·headᵀ + bias, target) of hidden states x [.., H], an LM head [V, H] and class indices target [..],
// without materialising the logits: rows stream in chunks, and the loss and its gradients, if requested together, are
// computed in one pass. Memory beyond inputs and gradients is chunk × V elements (f32, or f64 for f64 inputs). For f16
// and bf16 every sum is f32, including that of the head's gradient, which takes V × H f32 where there are several
// chunks. Second derivatives are those of the plain formula, and so is their memory: they materialise the logits.
//
// A floating target [.., V] holds probabilities; its rows stream through ordinary operations, chunk × V logits at a
// time, which the backward pass computes again. A head [V, d1, .., H] gives every row of x [N, H] d1·.. losses, each
// over V classes: target is [N, d1, ..] or, for probabilities, [N, V, d1, ..], and the bias [V, d1, ..].
Tensor linear_cross_entropy(const Tensor& x, const Tensor& head, const Tensor& target,
                            const LinearCrossEntropyOptions& options = {});

struct LinearCrossEntropyGradients {
  Tensor x, head, bias, target;  // undefined where there is no bias, and where the target is class indices
};
LinearCrossEntropyGradients linear_cross_entropy_backward(const Tensor& grad, const Tensor& x, const Tensor& head,
                                                          const Tensor& target,
                                                          const LinearCrossEntropyOptions& options = {});

// log p(target) of every row, and their sums along the last axis of target, for preference and policy losses. Rows with
// ignore_index count 0. Logits and results are f32 for halves.
struct LinearLogProbOptions {
  Tensor bias = {};
  std::int64_t ignore_index = -100;
  double softcap = 0;
  double temperature = 1;  // logits are divided by it, after the softcap
  std::int64_t chunk = 0;  // rows whose logits exist at a time; 0: chosen from the shape
};
Tensor linear_log_probs(const Tensor& x, const Tensor& head, const Tensor& target,
                        const LinearLogProbOptions& options = {});

// Outputs per row beside log p(target).
struct TokenStatisticsOptions : LinearLogProbOptions {
  double logit_scale = 1;  // of logits softcap(logit_scale·(x·headᵀ + bias)) / temperature
  bool entropy = true;
  bool logsumexp = true;
  bool log_sum_sq_probs = false;
  bool mean_logits = false;
  bool argmax = true;
};
struct TokenStatistics {
  Tensor log_probs = {};         // log p(target)
  Tensor entropy = {};           // −Σ p·log p
  Tensor logsumexp = {};         // log Σ e^z
  Tensor log_sum_sq_probs = {};  // log Σ p²
  Tensor mean_logits = {};       // Σ z / V
  Tensor argmax = {};            // i64: the class of the largest logit
};
// Each in the shape of target, 0 in rows with ignore_index; what is not wanted is undefined. All but argmax have
// gradients. Chunks of rows stream through ordinary operations, and the backward pass computes their logits again: four
// products with the head in all, chunk × V logits at a time.
TokenStatistics linear_token_statistics(const Tensor& x, const Tensor& head, const Tensor& target,
                                        const TokenStatisticsOptions& options = {});

// The gradients of Σ cotangent·statistic over the statistics whose cotangent is defined, from values that were computed
// before: logsumexp, and entropy and log_sum_sq_probs where they have a cotangent. Three products with the head.
struct WantedGradients {
  bool x = true, head = true, bias = true;
};
LinearCrossEntropyGradients linear_token_statistics_backward(const TokenStatistics& cotangents,
                                                             const TokenStatistics& values, const Tensor& x,
                                                             const Tensor& head, const Tensor& target,
                                                             const TokenStatisticsOptions& options = {},
                                                             WantedGradients wanted = {});

// The statistics' derivatives in a direction, forward mode; argmax has none. Tangents may be undefined, which is 0.
struct StatisticsTangents {
  Tensor x = {}, head = {}, bias = {};
};
TokenStatistics linear_token_statistics_jvp(const Tensor& x, const Tensor& head, const Tensor& target,
                                            const TokenStatisticsOptions& options, const StatisticsTangents& tangents);

struct SequenceLogProbOptions : LinearLogProbOptions {
  bool average = false;  // over the targets that are not ignored, instead of their sum
};
Tensor linear_sequence_log_probs(const Tensor& x, const Tensor& head, const Tensor& target,
                                 const SequenceLogProbOptions& options = {});

}  // namespace ebb
