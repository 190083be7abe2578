// SPDX-License-Identifier: MIT
// A machine whose NVIDIA driver cannot be used has no GPU, and reports why. Various first uses of a GPU.
#include "cuda/runtime/driver.h"
#include "cuda/emulated_device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "cuda/backend.h"
#include "ebb/device.h"
#include "ebb/memory.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "emulated_device.h"
#include "expect_error.h"
#include "run_program.h"

namespace ebb::testing {
namespace {

// In a process of its own, which finds that driver first, if one is named.
void run_apart(const std::string& test, const std::string& folder = "") {
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  const std::string before = path ? path : "";
  const std::string all = "LD_LIBRARY_PATH=" + folder + (folder.empty() || before.empty() ? "" : ":") + before;
  const ProgramResult r = run_program({"/usr/bin/env", "-u", "EBB_TEST_DEVICE", "-u", "GTEST_TOTAL_SHARDS", "-u",
                                       "GTEST_SHARD_INDEX", all, std::filesystem::read_symlink("/proc/self/exe"),
                                       "--gtest_also_run_disabled_tests", "--gtest_filter=" + test});
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("1 test from"), std::string::npos) << r.out;
}

TEST(UselessDriver, ThatDoesNotStartIsNoGpu) { run_apart("*.DISABLED_OneThatDoesNotStart", EBB_REFUSING_DRIVER); }
TEST(UselessDriver, ThatIsTooOldIsNoGpu) { run_apart("*.DISABLED_OneThatIsTooOld", EBB_OLD_DRIVER); }
TEST(FirstUse, MayAskForMemory) { run_apart("*.DISABLED_OfMemory"); }

void expect_no_gpu(const std::string& reason) {
  for (int k = 0; k < 2; ++k) {  // asked again, it says the same
    EXPECT_FALSE(is_available(kGpu));
    EXPECT_EQ(cuda::count(), 0);
    EXPECT_NE(cuda::why_unavailable(0).find(reason), std::string::npos) << cuda::why_unavailable(0);
    EXPECT_THROW_MESSAGE(ones({2}).to(kGpu).eval(), reason);
    EXPECT_THROW_MESSAGE(cuda::driver(), reason);
    EXPECT_THROW_MESSAGE(set_memory_limit(1 << 20, kGpu), reason);
  }
  EXPECT_EQ(sum(ones({2})).item<float>(), 2);
}
TEST(UselessDriver, DISABLED_OneThatDoesNotStart) { expect_no_gpu("the NVIDIA driver does not start: 100"); }
TEST(FirstUse, DISABLED_OfMemory) {
  use_emulated_device_without_gpu();
  EXPECT_EQ(memory_stats(kGpu).live, 0u);
  set_memory_limit(1 << 20, kGpu);
  EXPECT_THROW_MESSAGE(rand({1 << 20}).to(kGpu).eval(), "memory");
}
TEST(UselessDriver, DISABLED_OneThatIsTooOld) { expect_no_gpu("libcuda.so.1 has no function cu"); }

}  // namespace
}  // namespace ebb::testing
