// SPDX-License-Identifier: MIT
#pragma once

namespace ebb::cuda {

// Held while NVRTC is used. NVRTC has static objects, many of them constructed during its first compilations, and
// exit() destroys them: a compilation still in progress then crashes. So exit() waits for those in progress before it
// destroys anything, and no new one begins after that.
class CompilerUse {
 public:
  CompilerUse();  // throws an Error once the process is ending
  ~CompilerUse();
  CompilerUse(const CompilerUse&) = delete;
};

// For a thread whose compilations run on other threads. If it calls exit(), that waits, too.
void wait_if_this_thread_exits();

}  // namespace ebb::cuda
