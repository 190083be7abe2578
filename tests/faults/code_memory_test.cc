// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <fstream>

#include "cpu/jit/loop.h"
#include "ebb/ebb.h"

// Memory with machine code is written first and executable afterwards, never both.
namespace ebb {
namespace {

TEST(CodeMemory, IsNeverWritableAndExecutable) {
  cpu::set_native_loops(cpu::NativeLoops::always);
  const Tensor x = randn({30'000}).eval();
  for (int k = 1; k < 20; ++k) {
    sum(exp(-square(x * k + 1))).eval();
    std::ifstream maps("/proc/self/maps");
    int executable = 0;
    for (std::string line; std::getline(maps, line);) {
      const std::string rights = line.substr(line.find(' ') + 1, 4);
      EXPECT_FALSE(rights[1] == 'w' && rights[2] == 'x') << line;
      executable += rights[2] == 'x';
    }
    EXPECT_GT(executable, 0);
  }
  cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
}

}  // namespace
}  // namespace ebb
