// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "ebb/ebb.h"

// Shared by llama.cc, resnet50.cc and vit.cc: options, a clock, and the training loop for pictures.
namespace training_program {

using namespace ebb;

// --NAME VALUE, and flags without a value. Sizes have one default for a GPU and one for a test on the CPU.
class Options {
 public:
  Options(int count, char** arguments) {
    for (int k = 1; k < count; ++k) {
      const bool has_value = k + 1 < count && std::string(arguments[k + 1]).rfind("--", 0) != 0;
      given_[arguments[k]] = has_value ? arguments[k + 1] : "";
      k += has_value ? 1 : 0;
    }
    if (has("--device")) set_default_device(device_from_name(text("--device")));
  }
  bool has(const std::string& name) const { return given_.contains(name); }
  std::string text(const std::string& name) const { return given_.at(name); }
  std::int64_t number(const std::string& name, std::int64_t on_gpu, std::int64_t on_cpu) const {
    if (has(name)) return std::strtoll(text(name).c_str(), nullptr, 10);
    return default_device() == Device{} ? on_cpu : on_gpu;
  }

 private:
  std::map<std::string, std::string> given_;
};

// Times the steps after the first ones, during which schedules are made and kernels are compiled.
class StepClock {
 public:
  explicit StepClock(std::int64_t steps) : steps_(steps), warm_up_(std::min<std::int64_t>(steps / 2, 12)) {}
  void before(std::int64_t step) {
    if (step == warm_up_) start_ = now();
  }
  double seconds_per_step() const {  // after the last step
    return std::chrono::duration<double>(now() - start_).count() /
           static_cast<double>(std::max<std::int64_t>(1, steps_ - warm_up_));
  }

 private:
  static std::chrono::steady_clock::time_point now() {
    synchronize(default_device());
    return std::chrono::steady_clock::now();
  }

  std::int64_t steps_, warm_up_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

inline double peak_gigabytes() { return 1e-9 * static_cast<double>(memory_stats(default_device()).peak); }

// Trains on one batch of random pictures, whose classes the network learns by heart. Returns 0 if the loss has fallen.
template <class Net, class Optimizer>
int train_pictures(Net& net, Optimizer& optimizer, const Options& options, std::int64_t side, std::int64_t classes,
                   std::int64_t batch, std::int64_t steps) {
  const DType dtype = options.has("--bf16") ? DType::bf16 : DType::f32;
  const Tensor pictures = randn({batch, 3, side, side}).eval(), labels = randint(0, classes, {batch}).eval();
  std::printf("%lld parameters, %lld pictures per step in %s\n", static_cast<long long>(parameter_count(net)),
              static_cast<long long>(batch), std::string(name(dtype)).c_str());
  double first = 0, last = 0;
  StepClock clock(steps);
  for (std::int64_t step = 0; step < steps; ++step) {
    clock.before(step);
    Net half = cast_parameters(net, dtype);  // f32 weights are updated
    const Tensor loss = cross_entropy(cast(half(cast(pictures, dtype)), DType::f32), labels);
    take_buffers(net, half);              // running statistics
    optimizer.step(net, backward(loss));  // evaluates the loss, too
    if (step == 0) first = loss.item();
    if (step + 1 == steps) last = loss.item();
  }
  const double seconds = clock.seconds_per_step();
  std::printf("loss %.4f, then %.4f\n", first, last);
  if (default_device() != Device{} || options.has("--time"))
    std::printf("%.1f ms per step, %.0f images per second, %.2f GB at most\n", 1e3 * seconds,
                static_cast<double>(batch) / seconds, peak_gigabytes());
  return last < first ? 0 : 1;
}

}  // namespace training_program
