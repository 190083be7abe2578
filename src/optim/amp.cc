#include "ebb/amp.h"

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"

namespace ebb {

LossScaler::LossScaler(const LossScalerOptions& o) : o_(o), scale_(o.scale) {
  require(o.scale > 0, "LossScaler: the scale must be positive, got {}", o.scale);
  require(o.growth > 1, "LossScaler: growth must be above 1, got {}", o.growth);
  require(o.backoff > 0 && o.backoff < 1, "LossScaler: backoff must be between 0 and 1, got {}", o.backoff);
  require(o.growth_interval > 0, "LossScaler: growth_interval must be positive, got {}", o.growth_interval);
}

// 2^16 is beyond f16, so the product is made in f32; the cotangent is cast where the loss was.
Tensor LossScaler::scale(const Tensor& loss) const { return widen(loss) * scale_; }

Gradients LossScaler::unscale(const Gradients& gradients) const {
  std::vector<std::pair<Tensor, Tensor>> all;
  for (const auto& [v, g] : gradients.all()) all.emplace_back(v, widen(g) * (1 / scale_));
  return Gradients(std::move(all));
}

// One infinity makes a sum of absolute values infinite, a NaN makes it NaN; so can finite gradients of absurd size,
// which are no better. Reading memory once is all this costs.
bool LossScaler::finite(const Parameters& parameters, const Gradients& gradients) {
  std::vector<Tensor> sums;
  for (const Parameter& p : parameters) {
    if (gradients.contains(*p.tensor)) sums.push_back(cast(sum(abs(gradients[*p.tensor])), DType::f64));
  }
  return sums.empty() || all(isfinite(stack(sums))).item<bool>();
}

void LossScaler::report(bool good) {
  if (good) {
    ++steps_;
    ++good_in_a_row_;
    if (o_.dynamic && good_in_a_row_ == o_.growth_interval) {
      scale_ *= o_.growth;
      good_in_a_row_ = 0;
    }
  } else {
    ++skipped_;
    good_in_a_row_ = 0;
    if (o_.dynamic) scale_ *= o_.backoff;
  }
}

void LossScaler::load_state(const State& state) {
  require(state.scale > 0, "LossScaler: the saved scale must be positive, got {}", state.scale);
  scale_ = state.scale;
  good_in_a_row_ = state.good_in_a_row;
  steps_ = state.steps;
  skipped_ = state.skipped;
}

std::string LossScaler::str() const {
  return fmt::format("scale {:g}, {} steps, {} skipped", scale_, steps_, skipped_);
}

}  // namespace ebb
