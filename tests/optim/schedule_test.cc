// SPDX-License-Identifier: MIT
#include "ebb/optim/schedule.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "golden_numbers.h"

// Learning rates step by step, as in torch.optim.lr_scheduler.
namespace ebb {
namespace {

void follow(const char* name, const Schedule& schedule) {
  const std::vector<double> expected = testing::golden("optim/golden/schedules.txt").at(name).at(0);
  ASSERT_GE(expected.size(), 12u);
  for (std::size_t t = 0; t < expected.size(); ++t) {
    EXPECT_NEAR(schedule(static_cast<std::int64_t>(t)), expected[t], 1e-12) << name << ", step " << t;
  }
}

TEST(Schedules, FollowTheGoldenRates) {
  follow("step", step_schedule(0.1, {.step_size = 3, .gamma = 0.5}));
  follow("multistep", multistep_schedule(0.1, {7, 2, 7}, 0.3));
  follow("exponential", exponential_schedule(0.1, 0.9));
  follow("linear", linear_schedule(0.1));
  follow("linear_down", linear_schedule(0.1, {.start_factor = 1, .end_factor = 0.1, .steps = 8}));
  follow("cosine", cosine_schedule(0.1, {.steps = 11, .min_lr = 0.01}));
  follow("warm_up", warm_up(cosine_schedule(0.1, {.steps = 10}), 4, 0.25));
  follow("one_cycle", one_cycle_schedule({.max_lr = 0.1, .steps = 20}));
  follow("one_cycle_momentum", one_cycle_momentum({.max_lr = 0.1, .steps = 20}));
  follow("one_cycle_linear3",
         one_cycle_schedule(
             {.max_lr = 0.1, .steps = 21, .anneal = Anneal::linear, .final_div_factor = 100, .three_phase = true}));
}

void follow_plateau(const char* name, ReduceOnPlateau plateau) {
  const auto all = testing::golden("optim/golden/schedules.txt");
  const std::vector<double>&metrics = all.at("plateau_metrics").at(0), &expected = all.at(name).at(0);
  for (std::size_t t = 0; t < metrics.size(); ++t) {
    EXPECT_NEAR(plateau(metrics[t]), expected[t], 1e-12) << name << ", report " << t;
  }
}

TEST(Schedules, APlateauReducesTheRate) {
  follow_plateau("plateau", ReduceOnPlateau(0.1, {.factor = 0.5, .patience = 2}));
  follow_plateau(
      "plateau_cooldown",
      ReduceOnPlateau(0.1,
                      {.patience = 1, .threshold = 0.01, .relative_threshold = false, .cooldown = 2, .min_lr = 0.002}));
  follow_plateau("plateau_max", ReduceOnPlateau(0.1, {.maximize = true, .patience = 3}));
}

TEST(Schedules, StayAtTheirEnd) {
  EXPECT_DOUBLE_EQ(cosine_schedule(0.1, {.steps = 5, .min_lr = 0.02})(50), 0.02);
  EXPECT_DOUBLE_EQ(warm_up(constant_schedule(0.5), 4)(0), 0);
  EXPECT_DOUBLE_EQ(warm_up(constant_schedule(0.5), 0)(0), 0.5);
}

TEST(Schedules, SayWhatIsWrong) {
  EXPECT_THROW_MESSAGE(step_schedule(0.1, {.step_size = 0}), "step_schedule: step_size must be positive, got 0");
  EXPECT_THROW_MESSAGE(one_cycle_schedule({.steps = 1}), "at least 2 steps are needed, got 1");
  EXPECT_THROW_MESSAGE(ReduceOnPlateau(0.1, {.factor = 1.5}), "factor must be between 0 and 1, got 1.5");
}

}  // namespace
}  // namespace ebb
