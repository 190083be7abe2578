// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

// A schedule is a function from the step number (from 0) to the learning rate, so it has no state to save: to resume at
// step t, call it with t. The formulas are those of torch.optim.lr_scheduler.
//
//   Schedule schedule = warm_up(cosine_schedule(3e-4, {.steps = 9000}), 1000);
//   optimizer.set_lr(schedule(t));
namespace ebb {
inline namespace optim {

using Schedule = std::function<double(std::int64_t step)>;

Schedule constant_schedule(double lr);

struct StepScheduleOptions {
  std::int64_t step_size = 1;
  double gamma = 0.1;
};
Schedule step_schedule(double lr, const StepScheduleOptions& options);  // lr·gamma^⌊t / step_size⌋

// lr times gamma for every milestone reached.
Schedule multistep_schedule(double lr, std::vector<std::int64_t> milestones, double gamma = 0.1);

Schedule exponential_schedule(double lr, double gamma);  // lr·gamma^t

struct LinearScheduleOptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t steps = 5;
};
Schedule linear_schedule(double lr, const LinearScheduleOptions& options = {});  // between two factors, then the last

struct CosineScheduleOptions {
  std::int64_t steps = 1;  // afterwards: min_lr (torch.optim's rises again)
  double min_lr = 0;
};
// min_lr + (lr − min_lr)·(1 + cos(π·t / steps)) / 2
Schedule cosine_schedule(double lr, const CosineScheduleOptions& options);

// `steps` steps of linear warm-up from start_factor times the first rate of `after` to that rate, then `after`.
Schedule warm_up(Schedule after, std::int64_t steps, double start_factor = 0);

enum class Anneal { cosine, linear };
// Smith's 1cycle: from max_lr/div_factor up to max_lr in pct_start of the steps, then down to
// max_lr/(div_factor·final_div_factor); with three_phase first down as long as up, and only then to the final rate.
struct OneCycleOptions {
  double max_lr = 0.1;
  std::int64_t steps = 2;
  double pct_start = 0.3;
  Anneal anneal = Anneal::cosine;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
};
Schedule one_cycle_schedule(const OneCycleOptions& options);
Schedule one_cycle_momentum(const OneCycleOptions& options);  // falls while the rate rises; for Sgd::set_momentum

// Multiplies the rate by `factor` when a metric has not improved for more than `patience` reports.
struct PlateauOptions {
  bool maximize = false;  // larger is better
  double factor = 0.1;
  int patience = 10;
  double threshold = 1e-4;
  bool relative_threshold = true;  // an improvement is by threshold·|best|, otherwise by threshold itself
  int cooldown = 0;                // reports after a reduction that do not count
  double min_lr = 0;
  double eps = 1e-8;  // smaller changes of the rate are skipped
};
class ReduceOnPlateau {
 public:
  explicit ReduceOnPlateau(double lr, const PlateauOptions& options = {});
  double operator()(double metric);  // the rate from now on
  double lr() const { return lr_; }

 private:
  bool better(double metric) const;
  PlateauOptions o_;
  double lr_, best_;
  int bad_ = 0, cooling_ = 0;
};

}  // namespace optim
}  // namespace ebb
