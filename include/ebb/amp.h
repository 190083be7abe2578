#pragma once
#include <cstdint>
#include <string>

#include "ebb/optim/optimizer.h"

// Mixed precision: compute in f16 or bf16, keep the weights and their updates in f32.
//
//   LossScaler scaler;                                        // bf16 has the range of f32 and needs none
//   auto half = cast_parameters(model, DType::f16);           // gradients reach model's own f32 weights
//   Tensor loss = cross_entropy(cast(half(cast(x, DType::f16)), DType::f32), y);
//   scaler.step(optimizer, model, backward(scaler.scale(loss)));
namespace ebb {

// Small gradients vanish in f16, so the loss is multiplied before differentiation and the gradients divided afterwards.
// Dynamic scaling finds the factor: a step whose gradients are not finite is skipped and the factor halved (to
// `backoff`), and after `growth_interval` good steps in a row it is doubled (by `growth`).
struct LossScalerOptions {
  double scale = 65536;
  double growth = 2;
  double backoff = 0.5;
  std::int64_t growth_interval = 2000;
  bool dynamic = true;  // false: the factor is fixed; steps with non-finite gradients are still skipped
};

class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {});

  Tensor scale(const Tensor& loss) const;  // in f32
  // The gradients of the loss itself, in f32; for clipping between backward and step.
  Gradients unscale(const Gradients& gradients) const;

  // Unscales, then steps if every gradient of the model is finite, and returns whether it did. A skipped step changes
  // neither the model nor the optimiser's state.
  template <class AnyOptimizer, class Model>
  bool step(AnyOptimizer& optimizer, Model& model, const Gradients& scaled) {
    return step_unscaled(optimizer, model, unscale(scaled));
  }
  template <class AnyOptimizer, class Model>
  bool step_unscaled(AnyOptimizer& optimizer, Model& model, const Gradients& gradients) {
    const bool good = finite(parameters(model), gradients);
    if (good) optimizer.step(model, gradients);
    report(good);
    return good;
  }

  double scale() const { return scale_; }
  std::int64_t steps() const { return steps_; }      // steps taken
  std::int64_t skipped() const { return skipped_; }  // steps skipped because of infinities or NaN
  std::string str() const;                           // "scale 32768, 1999 steps, 1 skipped"

  // For saving and resuming.
  struct State {
    double scale = 0;
    std::int64_t good_in_a_row = 0, steps = 0, skipped = 0;
  };
  State state() const { return {scale_, good_in_a_row_, steps_, skipped_}; }
  void load_state(const State& state);

 private:
  static bool finite(const Parameters& parameters, const Gradients& gradients);
  void report(bool good);

  LossScalerOptions o_;
  double scale_;
  std::int64_t good_in_a_row_ = 0, steps_ = 0, skipped_ = 0;
};

}  // namespace ebb
