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

// Called by exit() after the last compilation: joins the threads that compiled ahead. NVRTC leaves objects to each
// thread that used it, which the end of the thread destroys, and those must be gone before NVRTC's own.
void join_at_the_end(void (*join)());

}  // namespace ebb::cuda
