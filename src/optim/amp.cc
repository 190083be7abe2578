// SPDX-License-Identifier: MIT
#include "ebb/amp.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"

namespace ebb {

LossScaler::LossScaler(const LossScalerOptions& o) : o_(o), here_{o.scale} {
  require(o.scale > 0, "LossScaler: the scale must be positive, got {}", o.scale);
  require(o.growth > 1, "LossScaler: growth must be above 1, got {}", o.growth);
  require(o.backoff > 0 && o.backoff < 1, "LossScaler: backoff must be between 0 and 1, got {}", o.backoff);
  require(o.growth_interval > 0, "LossScaler: growth_interval must be positive, got {}", o.growth_interval);
}

// 2^16 overflows f16, so the product is computed in f32; the cotangent is cast where the loss was.
Tensor LossScaler::scale(const Tensor& loss) const {
  const Tensor wide = widen(loss);
  return there_.scale.defined() ? wide * cast(there_.scale, wide.dtype()) : wide * here_.scale;
}

Gradients LossScaler::unscale(const Gradients& gradients) const {
  std::vector<std::pair<Tensor, Tensor>> all;
  for (const auto& [v, g] : gradients.all()) {
    const Tensor wide = widen(g);
    all.emplace_back(v,
                     there_.scale.defined() ? wide * cast(1 / there_.scale, wide.dtype()) : wide * (1 / here_.scale));
  }
  return Gradients(std::move(all));
}

// One infinity makes a sum of absolute values infinite, a NaN makes it NaN; so can finite gradients of absurd size,
// which are no better. The cost is reading memory once.
Tensor LossScaler::finite(const Parameters& parameters, const Gradients& gradients) {
  std::vector<Tensor> sums;
  for (const Parameter& p : parameters) {
    if (gradients.contains(*p.tensor)) sums.push_back(cast(sum(abs(gradients[*p.tensor])), DType::f64));
  }
  if (sums.empty()) return full({}, true, DType::bool_);
  return all(isfinite(stack(sums)));
}

void LossScaler::report(bool good) {
  here_ = state();
  there_ = {};
  if (good) {
    ++here_.steps;
    ++here_.good_in_a_row;
    if (o_.dynamic && here_.good_in_a_row == o_.growth_interval) {
      here_.scale *= o_.growth;
      here_.good_in_a_row = 0;
    }
  } else {
    ++here_.skipped;
    here_.good_in_a_row = 0;
    if (o_.dynamic) here_.scale *= o_.backoff;
  }
}

// The same, computed on the device.
void LossScaler::report(const Tensor& good) {
  if (!there_.scale.defined()) {
    there_ = {full({}, here_.scale, DType::f64), full({}, here_.good_in_a_row, DType::i64),
              full({}, here_.steps, DType::i64), full({}, here_.skipped, DType::i64)};
  }
  const Tensor in_a_row = where(good, there_.in_a_row + 1, there_.in_a_row * 0);
  there_.steps = where(good, there_.steps + 1, there_.steps);
  there_.skipped = where(good, there_.skipped, there_.skipped + 1);
  if (o_.dynamic) {
    const Tensor grows = in_a_row == o_.growth_interval;
    there_.scale = where(good, where(grows, there_.scale * o_.growth, there_.scale), there_.scale * o_.backoff);
    there_.in_a_row = where(grows, in_a_row * 0, in_a_row);
  } else {
    there_.in_a_row = in_a_row;
  }
}

LossScaler::State LossScaler::state() const {
  if (!there_.scale.defined()) return here_;
  return {there_.scale.item(), there_.in_a_row.item<std::int64_t>(), there_.steps.item<std::int64_t>(),
          there_.skipped.item<std::int64_t>()};
}

void LossScaler::load_state(const State& state) {
  require(state.scale > 0, "LossScaler: the saved scale must be positive, got {}", state.scale);
  here_ = state;
  there_ = {};
}

std::string LossScaler::str() const {
  const State s = state();
  return fmt::format("scale {:g}, {} steps, {} skipped", s.scale, s.steps, s.skipped);
}

}  // namespace ebb
