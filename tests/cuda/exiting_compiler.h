// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>

namespace ebb::testing {

// State shared by a program and the compiler in exiting_compiler.cc, by the symbol ebb_compiler_state.
struct CompilerState {
  std::atomic<int> begun{0};    // compilations
  std::atomic<int> quick{0};    // how many more of them take no time
  std::atomic<int> leaving{0};  // the thread that is about to end the process
};

inline constexpr int kBroken = 70;  // exit code: a compilation was running when the compiler's objects were destroyed

}  // namespace ebb::testing
