// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include "cuda/backend.h"
#include "cuda/runtime/gpu.h"
#include "emulated_device.h"

namespace ebb::testing {

// Heads of language models by Hopper's product that leaves no logits (false), and row by row as on other GPUs
// (true).
class BothHeads : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    int major = 0;
    cuda::check(cuda::driver().device_attribute(&major, cuda::kCapabilityMajor, 0), "cuDeviceGetAttribute");
    if (!GetParam() && (device_is_emulated() || major != 9))
      GTEST_SKIP() << "no GPU with products of warpgroups (sm_90)";
    before_ = cuda::gpu(0).model();
    cuda::GpuModel model = before_;
    model.each_row_anew = GetParam();
    cuda::gpu(0).set_model(model);
    is_set_ = true;
  }
  void TearDown() override {
    if (is_set_) cuda::gpu(0).set_model(before_);
  }

 private:
  bool is_set_ = false;
  cuda::GpuModel before_;
};

}  // namespace ebb::testing
