// SPDX-License-Identifier: MIT
// Steps of `ebb train` on a GPU or, if there is none, on a device that computes nothing and counts its requests.
#include <gtest/gtest.h>

#include "cuda/counted_driver.h"
#include "cuda/emulated_device.h"
#include "cuda/runtime/gpu.h"
#include "ebb/device.h"
#include "run_config.h"
#include "scratch_folder.h"
#include "trainer.h"

namespace ebb::program {
namespace {

TEST(TrainingOnAGpu, NeverWaitsForAStep) {
  const ScratchFolder folder;
  if (cuda::Gpu::count() == 0) testing::record_kernels(folder / "kernels.txt");
  const OnDevice gpu(device_from_name("cuda:0"));
  testing::count_driver_calls();
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    SCOPED_TRACE(dtype);
    RunConfig config;
    config.model = "mlp";
    config.data = "digits";
    config.hidden = {8};
    config.train_count = 64;
    config.test_count = 16;
    config.batch = 8;
    config.steps = 40;
    config.workers = 0;
    config.threads = 1;
    config.clip = 1;
    config.dtype = dtype;
    resolve(config);
    const Dataset data = load_dataset(config);
    resolve_with(config, data);
    Trainer trainer(config, data);
    // f16 waits for the first step that is taken, and a device that computes nothing may reject some.
    do {
      testing::driver_calls().reset();
      trainer.step();
    } while (testing::driver_calls().waits > 0 && trainer.steps_done() < 20);
    const std::int64_t before = trainer.steps_done();
    testing::driver_calls().reset();
    StepResult last;
    for (int k = 0; k < 6; ++k) last = trainer.step();
    EXPECT_EQ(testing::driver_calls().waits, 0);
    EXPECT_EQ(testing::driver_calls().copies_to_host, 0);
    EXPECT_EQ(last.step, before + 6);
    last.loss();
    EXPECT_EQ(testing::driver_calls().copies_to_host, 1);
  }
}

}  // namespace
}  // namespace ebb::program
