// SPDX-License-Identifier: MIT
#pragma once
#include <stdexcept>

namespace ebb::program {

// Exit codes, as in a shell: 128 + SIGINT for an interrupted program.
inline constexpr int kOk = 0, kFailed = 1, kWrongUsage = 2, kInterrupted = 130;

// The user stopped the program; the text says what was kept and how to continue.
class Interrupted : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// All ranks of a run fail for the same reason, which one of them reports.
class AllRanksFail : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace ebb::program
