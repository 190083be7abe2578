// SPDX-License-Identifier: MIT
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
//
// Products with factors of eight bits: ebb/ops/fp8.h, LinearOptions::fp8 and Llama::set_fp8.
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

// Whether a step was taken. On a GPU this is decided there: the host waits only if somebody asks.
class Stepped {
 public:
  explicit Stepped(bool taken) : taken_(taken) {}
  explicit Stepped(Tensor there) : there_(std::move(there)) {}
  operator bool() const { return there_.defined() ? there_.item<bool>() : taken_; }
  const Tensor& there() const { return there_; }  // a bool on the device; undefined where the host knows

 private:
  bool taken_ = false;
  Tensor there_;
};

class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {});

  Tensor scale(const Tensor& loss) const;  // in f32
  // The gradients of the loss itself, in f32; for clipping between backward and step.
  Gradients unscale(const Gradients& gradients) const;

  // Unscales, then steps if every gradient of the model is finite, and returns whether it did. A skipped step changes
  // neither the model nor the optimiser's state. On a GPU all of this is decided there, after the optimiser's first
  // step: the factor and the counts below are read from it when they are asked for.
  template <class AnyOptimizer, class Model>
  Stepped step(AnyOptimizer& optimizer, Model& model, const Gradients& scaled) {
    return step_unscaled(optimizer, model, unscale(scaled));
  }
  template <class AnyOptimizer, class Model>
  Stepped step_unscaled(AnyOptimizer& optimizer, Model& model, const Gradients& gradients) {
    const Parameters all = parameters(model);
    const Tensor good = finite(all, gradients);
    if (good.device() != Device{} && optimizer.has_stepped(all, gradients)) {
      report(good);
      optimizer.step_where(good, model, gradients, {good, there_.scale, there_.in_a_row, there_.steps, there_.skipped});
      return Stepped(good);
    }
    const bool known = good.item<bool>();
    if (known) optimizer.step(model, gradients);
    report(known);
    return Stepped(known);
  }

  double scale() const { return state().scale; }
  std::int64_t steps() const { return state().steps; }      // steps taken
  std::int64_t skipped() const { return state().skipped; }  // steps skipped because of infinities or NaN
  std::string str() const;                                  // "scale 32768, 1999 steps, 1 skipped"

  // For saving and resuming.
  struct State {
    double scale = 0;
    std::int64_t good_in_a_row = 0, steps = 0, skipped = 0;
  };
  State state() const;
  void load_state(const State& state);

 private:
  static Tensor finite(const Parameters& parameters, const Gradients& gradients);
  void report(bool good);
  void report(const Tensor& good);

  LossScalerOptions o_;
  State here_;
  struct OnDevice {
    Tensor scale, in_a_row, steps, skipped;  // f64, i64
  };
  OnDevice there_;  // what counts, where it is defined
};

}  // namespace ebb
