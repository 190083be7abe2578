// SPDX-License-Identifier: MIT
#pragma once

namespace ebb {

// Tells the processor that this thread is only waiting for another one to change memory.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // a few dozen cycles; `yield` does nothing on most cores
#endif
}

}  // namespace ebb
