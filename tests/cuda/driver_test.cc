// A machine whose NVIDIA driver cannot be used has no GPU, and says why.
#include "cuda/runtime/driver.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "cuda/backend.h"
#include "ebb/device.h"
#include "ebb/ops.h"
#include "expect_error.h"
#include "run_program.h"

namespace ebb::testing {
namespace {

constexpr Device kGpu{Device::Kind::cuda, 0};

// In a process of its own, which finds that driver first.
void run_with_driver(const std::string& folder, const std::string& test) {
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  const std::string all = "LD_LIBRARY_PATH=" + folder + (path ? ":" + std::string(path) : "");
  const ProgramResult r = run_program({"/usr/bin/env", "-u", "EBB_TEST_DEVICE", "-u", "GTEST_TOTAL_SHARDS", "-u",
                                       "GTEST_SHARD_INDEX", all, std::filesystem::read_symlink("/proc/self/exe"),
                                       "--gtest_also_run_disabled_tests", "--gtest_filter=" + test});
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("1 test from"), std::string::npos) << r.out;
}

TEST(UselessDriver, ThatDoesNotStartIsNoGpu) { run_with_driver(EBB_REFUSING_DRIVER, "*.DISABLED_OneThatDoesNotStart"); }
TEST(UselessDriver, ThatIsTooOldIsNoGpu) { run_with_driver(EBB_OLD_DRIVER, "*.DISABLED_OneThatIsTooOld"); }

void expect_no_gpu(const std::string& reason) {
  for (int k = 0; k < 2; ++k) {  // asked again, it says the same
    EXPECT_FALSE(is_available(kGpu));
    EXPECT_EQ(cuda::count(), 0);
    EXPECT_NE(cuda::why_unavailable(0).find(reason), std::string::npos) << cuda::why_unavailable(0);
    EXPECT_THROW_MESSAGE(ones({2}).to(kGpu).eval(), reason);
    EXPECT_THROW_MESSAGE(cuda::driver(), reason);
  }
  EXPECT_EQ(sum(ones({2})).item<float>(), 2);
}
TEST(UselessDriver, DISABLED_OneThatDoesNotStart) { expect_no_gpu("the NVIDIA driver does not start: 100"); }
TEST(UselessDriver, DISABLED_OneThatIsTooOld) { expect_no_gpu("libcuda.so.1 has no function cu"); }

}  // namespace
}  // namespace ebb::testing
