#pragma once

namespace ebb::program {

// While it lives, the first SIGINT or SIGTERM is only noted, so that the work can finish a step and save; a second one
// ends the program at once.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  bool interrupted() const;
};

}  // namespace ebb::program
