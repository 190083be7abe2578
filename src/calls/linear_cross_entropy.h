// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "graph/node.h"

namespace ebb {

// Rows of cross_entropy(x·Wᵀ + bias, target) without the logits.
//   inputs    x [N, H], head W [V, H], target [N] i64, then those that are named: cotangent [N], bias [V], weight [V];
//             with RowUnits, further ones that its function needs, [units or sides·units, ..] or one number each
//   outputs   losses [N] in the compute dtype, then those that are named: dx [N, H], dW [V, H], dbias [V],
//             the gradients of Σ cotangent·losses
struct LinearCrossEntropyCall {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0, z_loss = 0, softcap = 0;  // 0: none
  std::int64_t chunk = 0;                               // rows whose logits exist at a time; 0: chosen by the kernel
  bool cotangent = false, bias = false, weight = false;
  bool input_gradient = false, head_gradient = false, bias_gradient = false;
  bool round_logits = false, round_sums = false;
  bool of_log_probs = false;  // how errors name the call

  const char* name() const { return of_log_probs ? "linear_log_probs" : "linear_cross_entropy"; }
  bool gradients() const { return input_gradient || head_gradient || bias_gradient; }
  static constexpr std::int64_t kMostRows = (1 << 24) - 1;  // of a chunk

  bool operator==(const LinearCrossEntropyCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("ignore_index", ignore_index);
    visit("label_smoothing", label_smoothing);
    visit("z_loss", z_loss);
    visit("softcap", softcap);
    visit("chunk", chunk);
    visit("cotangent", cotangent);
    visit("bias", bias);
    visit("weight", weight);
    visit("input_gradient", input_gradient);
    visit("head_gradient", head_gradient);
    visit("bias_gradient", bias_gradient);
    visit("round_logits", round_logits);
    visit("round_sums", round_sums);
    visit("of_log_probs", of_log_probs);
  }
  std::optional<FirstOutputCall> first_output(std::size_t) const {
    if (!gradients()) return {};
    FirstOutputCall alone{{}, {0, 1, 2}};
    std::size_t next = cotangent ? 4 : 3;
    for (const bool given : {bias, weight}) {
      if (given) alone.inputs.push_back(next++);
    }
    LinearCrossEntropyCall c = *this;
    c.cotangent = c.input_gradient = c.head_gradient = c.bias_gradient = false;
    alone.options = make_options(c);
    return alone;
  }
};

// Cotangents that depend on the losses of the same rows: rows come in units, and the cotangents of a unit's rows depend
// only on that unit's losses (a pair of answers, one answer, one token). Row (s·units + u)·tokens + t, with s < sides,
// belongs to unit u. A linear_cross_entropy call with this as its data takes no cotangents; it requests them, some
// units at a time, while the logits of these units are still in memory.
struct RowUnits {
  std::int64_t units = 0, sides = 1, tokens = 1;
  // Returns the cotangents, in the shape and dtype of the losses [sides·n, tokens] of n units. `further` has the same
  // units' part of the call's further inputs (scalars are passed whole).
  std::function<Tensor(const Tensor& losses, const std::vector<Tensor>& further)> cotangents;
};

// Statistics of rows of logits z = factor·x·Wᵀ without storing the logits, for GPUs: a linear_cross_entropy call with
// these options.
//   inputs    x [N, H], head W [V, H] of bf16, target [N] i64, classes
//   outputs   f32 [N, ..]: log p(target), log Σ e^z, and where they are wanted −Σ p·log p and the first class with max
//   z
struct TokenStatisticsCall {
  double factor = 1;       // positive
  std::int64_t chunk = 0;  // rows whose logits may exist at a time; 0: chosen by the kernel
  bool entropy = false, argmax = false;

  std::int64_t columns() const { return 2 + entropy + argmax; }
  bool operator==(const TokenStatisticsCall&) const = default;
  template <class Visit>
  void each_field(Visit&& visit) const {
    visit("factor", factor);
    visit("chunk", chunk);
    visit("entropy", entropy);
    visit("argmax", argmax);
  }
};
// Null where the call has other options.
inline const TokenStatisticsCall* statistics_options(const Attrs& attrs) {
  const auto* const found = dynamic_cast<const OptionsOf<TokenStatisticsCall>*>(attrs.options.get());
  return found ? &found->value : nullptr;
}

}  // namespace ebb
