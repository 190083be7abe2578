// SPDX-License-Identifier: MIT
#include "ebb/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/format_error.h"

namespace ebb::optim {
namespace {

double cosine_between(double start, double end, double part) {
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * part));
}

double real(std::int64_t n) { return static_cast<double>(n); }

// Values over time in phases; each ends at a step that may lie between two.
struct Phase {
  double end_step, start, end;
};
Schedule in_phases(std::vector<Phase> phases, Anneal anneal) {
  return [phases = std::move(phases), anneal](std::int64_t t) {
    double begin = 0;
    std::size_t k = 0;
    for (; k + 1 < phases.size() && real(t) > phases[k].end_step; ++k) begin = phases[k].end_step;
    const Phase& p = phases[k];
    const double part = std::min(1.0, (real(t) - begin) / (p.end_step - begin));
    return anneal == Anneal::cosine ? cosine_between(p.start, p.end, part) : p.start + (p.end - p.start) * part;
  };
}

Schedule one_cycle(const OneCycleOptions& o, double low, double high, double last) {
  require(o.steps >= 2, "one_cycle: at least 2 steps are needed, got {}", o.steps);
  require(o.pct_start > 0 && o.pct_start < 1, "one_cycle: pct_start must be between 0 and 1, got {}", o.pct_start);
  const double n = real(o.steps), up = o.pct_start * n - 1;
  if (o.three_phase)
    return in_phases({{up, low, high}, {2 * o.pct_start * n - 2, high, low}, {n - 1, low, last}}, o.anneal);
  return in_phases({{up, low, high}, {n - 1, high, last}}, o.anneal);
}

}  // namespace

Schedule constant_schedule(double lr) {
  return [=](std::int64_t) { return lr; };
}

Schedule step_schedule(double lr, const StepScheduleOptions& o) {
  require(o.step_size > 0, "step_schedule: step_size must be positive, got {}", o.step_size);
  return [=](std::int64_t t) { return lr * std::pow(o.gamma, real(t / o.step_size)); };
}

Schedule multistep_schedule(double lr, std::vector<std::int64_t> milestones, double gamma) {
  std::sort(milestones.begin(), milestones.end());
  return [=](std::int64_t t) {
    const auto reached = std::upper_bound(milestones.begin(), milestones.end(), t) - milestones.begin();
    return lr * std::pow(gamma, real(reached));
  };
}

Schedule exponential_schedule(double lr, double gamma) {
  return [=](std::int64_t t) { return lr * std::pow(gamma, real(t)); };
}

Schedule linear_schedule(double lr, const LinearScheduleOptions& o) {
  require(o.steps > 0, "linear_schedule: steps must be positive, got {}", o.steps);
  return [=](std::int64_t t) {
    const double part = real(std::min(t, o.steps)) / real(o.steps);
    return lr * (o.start_factor + (o.end_factor - o.start_factor) * part);
  };
}

Schedule cosine_schedule(double lr, const CosineScheduleOptions& o) {
  require(o.steps > 0, "cosine_schedule: steps must be positive, got {}", o.steps);
  return [=](std::int64_t t) { return cosine_between(lr, o.min_lr, real(std::min(t, o.steps)) / real(o.steps)); };
}

Schedule warm_up(Schedule after, std::int64_t steps, double start_factor) {
  require(steps >= 0, "warm_up: steps must not be negative, got {}", steps);
  require(static_cast<bool>(after), "warm_up: the schedule that follows is missing");
  return [=, after = std::move(after)](std::int64_t t) {
    if (t >= steps) return after(t - steps);
    return after(0) * (start_factor + (1 - start_factor) * real(t) / real(steps));
  };
}

Schedule one_cycle_schedule(const OneCycleOptions& o) {
  const double first = o.max_lr / o.div_factor;
  return one_cycle(o, first, o.max_lr, first / o.final_div_factor);
}

Schedule one_cycle_momentum(const OneCycleOptions& o) {
  return one_cycle(o, o.max_momentum, o.base_momentum, o.max_momentum);
}

ReduceOnPlateau::ReduceOnPlateau(double lr, const PlateauOptions& o)
    : o_(o),
      lr_(lr),
      best_(o.maximize ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity()) {
  require(o.factor > 0 && o.factor < 1, "ReduceOnPlateau: factor must be between 0 and 1, got {}", o.factor);
}

bool ReduceOnPlateau::better(double metric) const {
  if (o_.maximize) return metric > (o_.relative_threshold ? best_ * (1 + o_.threshold) : best_ + o_.threshold);
  return metric < (o_.relative_threshold ? best_ * (1 - o_.threshold) : best_ - o_.threshold);
}

double ReduceOnPlateau::operator()(double metric) {
  if (better(metric)) {
    best_ = metric;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ > o_.patience) {
    const double next = std::max(lr_ * o_.factor, o_.min_lr);
    if (lr_ - next > o_.eps) lr_ = next;
    cooling_ = o_.cooldown;
    bad_ = 0;
  }
  return lr_;
}

}  // namespace ebb::optim
