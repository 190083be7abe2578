// SPDX-License-Identifier: MIT
// A process that ends in the middle of compilations ends as intended: exit() waits for those in progress, and begins no
// others (src/cuda/runtime/compiler_use.h).
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "compile_for_gpu.h"
#include "cuda/exiting_compiler.h"
#include "run_program.h"

namespace ebb::testing {
namespace {

// With the compiler in `folder`, or the installed one if empty.
ProgramResult leave(const std::string& how, const std::string& folder, int microseconds = 0) {
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  const std::string before = path ? path : "";
  const std::string all = "LD_LIBRARY_PATH=" + folder + (folder.empty() || before.empty() ? "" : ":") + before;
  return run_program({"/usr/bin/env", "EBB_CUDA_CACHE_MB=0", all, EBB_LEAVE, how, std::to_string(microseconds)});
}

int meant(const std::string& how) {
  return how == "throw" ? 128 + SIGABRT : how == "SIGINT" ? 128 + SIGINT : how == "SIGTERM" ? 128 + SIGTERM : 0;
}

class Leave : public ::testing::TestWithParam<const char*> {};

TEST_P(Leave, WaitsForCompilationsThatRun) {
  const std::string how = GetParam();
  const ProgramResult r = leave(how, EBB_EXITING_COMPILER);
  EXPECT_NE(r.code, kBroken) << "the compiler's objects were destroyed during a compilation";
  EXPECT_EQ(r.code, meant(how)) << r.out << r.err;
  if (how == "destructor") {
    EXPECT_NE(r.out.find("the process is ending"), std::string::npos) << r.out << r.err;
  }
}

// The same with NVRTC, at an unknown moment. tests/cuda/leave_often.sh does it hundreds of times.
TEST_P(Leave, DoesNotCrashInNvrtc) {
  EBB_SKIP_WITHOUT_NVRTC();
  const std::string how = GetParam();
  for (const int microseconds : {1'000, 30'000}) {
    const ProgramResult r = leave(how, "", microseconds);
    EXPECT_EQ(r.code, meant(how)) << r.out << r.err;
  }
}

INSTANTIATE_TEST_SUITE_P(By, Leave,
                         ::testing::Values("main", "exit", "throw", "SIGINT", "SIGTERM", "thread", "started",
                                           "stranger", "destructor"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace ebb::testing
