// SPDX-License-Identifier: MIT
#pragma once
#include <signal.h>

#include <array>

namespace ebb::program {

// During its lifetime, the first SIGINT, SIGTERM or SIGHUP is only noted, so that the work can finish a step and save;
// a second one ends the program at once. Signals that the program was started to ignore (nohup) stay ignored.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  bool interrupted() const;

 private:
  std::array<struct sigaction, 3> before_;
};

}  // namespace ebb::program
