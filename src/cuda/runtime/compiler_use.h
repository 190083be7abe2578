// SPDX-License-Identifier: MIT
#pragma once

namespace ebb::cuda {

// Held while NVRTC is used. NVRTC has static objects, many of them made during its first compilations, and exit()
// destroys them: a compilation that is still running then crashes. So exit() waits for those that run, before it
// destroys anything, and none begins after that.
class CompilerUse {
 public:
  CompilerUse();  // an Error once the process is ending
  ~CompilerUse();
  CompilerUse(const CompilerUse&) = delete;
};

// For a thread that has compilations made by other threads. Should it call exit(), that waits, too.
void wait_if_this_thread_exits();

}  // namespace ebb::cuda
