// SPDX-License-Identifier: MIT
// A libnvrtc.so.13 whose static object is constructed in the middle of its first compilation, like NVRTC's, and whose
// compilations end the process with kBroken when they find it destroyed. Once a thread is exiting, they continue until
// that thread sleeps, waiting for them. Like NVRTC it tries to handle signals.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/exiting_compiler.h"
#include "cuda/runtime/driver.h"

using namespace ebb::cuda;
using namespace ebb::testing;

namespace {

std::atomic<bool> destroyed{false};
void leave_on_signal(int) { std::exit(0); }
struct Tables {
  Tables() {
    if (std::signal(SIGINT, SIG_IGN) != SIG_IGN) std::signal(SIGINT, leave_on_signal);
    std::signal(SIGTERM, leave_on_signal);
  }
  ~Tables() { destroyed = true; }
};

bool sleeps(int thread) {
  char path[64], text[512] = {};
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  const int file = ::open(path, O_RDONLY);
  if (file < 0) return false;
  const bool read = ::read(file, text, sizeof text - 1) > 0;
  ::close(file);
  const char* const name_end = std::strrchr(text, ')');
  return read && name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

}  // namespace

extern "C" {
CompilerState ebb_compiler_state;

Result nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, kSuccess; }
Result nvrtcCreateProgram(RtcProgram* program, const char*, const char*, int, const char* const*, const char* const*) {
  return *program = nullptr, kSuccess;
}
Result nvrtcDestroyProgram(RtcProgram*) { return kSuccess; }
Result nvrtcCompileProgram(RtcProgram, int, const char* const*) {
  if (destroyed) ::_exit(kBroken);
  static Tables tables;
  if (ebb_compiler_state.quick.fetch_sub(1) > 0) return kSuccess;
  ++ebb_compiler_state.begun;
  for (;;) {
    if (destroyed) ::_exit(kBroken);
    if (const int thread = ebb_compiler_state.leaving; thread != 0 && sleeps(thread)) break;
    ::sched_yield();
  }
  if (destroyed) ::_exit(kBroken);
  return kSuccess;
}
Result nvrtcGetProgramLogSize(RtcProgram, std::size_t* bytes) { return *bytes = 0, kSuccess; }
Result nvrtcGetProgramLog(RtcProgram, char*) { return kSuccess; }
Result nvrtcGetCUBINSize(RtcProgram, std::size_t* bytes) { return *bytes = 4, kSuccess; }
Result nvrtcGetCUBIN(RtcProgram, char* code) { return std::memcpy(code, "code", 4), kSuccess; }
}
