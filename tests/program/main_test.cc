#include <gtest/gtest.h>

#include <algorithm>

#include "run_program.h"

TEST(Program, TellsItsVersion) {
  const ProgramResult r = run_ebb({"--version"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "ebb " EBB_VERSION "\n");
}

TEST(Program, WrongUsageIsOneLineAndExitCodeTwo) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"--no-such-option"}, {"no-such-command"}}) {
    const ProgramResult r = run_ebb(words);
    EXPECT_EQ(r.code, 2);
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(r.err.find("ebb: "), 0u) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }
}
