// SPDX-License-Identifier: MIT
#pragma once
#include <signal.h>

#include <array>

namespace ebb::program {

// While it lives, the first SIGINT, SIGTERM or SIGHUP is only noted, so that the work can finish a step and save; a
// second one ends the program at once. A signal that the program was started to ignore (nohup) stays ignored.
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
