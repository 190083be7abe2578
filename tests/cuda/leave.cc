// SPDX-License-Identifier: MIT
// leave HOW [MICROSECONDS]: starts more compilations than there are cores and ends in the middle of them. HOW:
//   main, exit            the main thread returns or calls exit
//   throw, SIGINT, SIGTERM    without any destructors
//   thread, started       a thread that started compilations calls exit; the main thread returns while it runs
//   stranger              a thread that started none calls exit, after an earlier compilation
//   destructor            a static object, destroyed by exit, asks for another compilation
// With NVRTC, which does not report progress, it ends after that many microseconds.
#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cuda/exiting_compiler.h"
#include "cuda/runtime/compile_ahead.h"
#include "cuda/runtime/driver.h"
#include "cuda/runtime/kernel_cache.h"

namespace {

std::string kernel(int k) {
  return "extern \"C\" __global__ void __launch_bounds__(256) kernel(float* a) {\n"
         "  for (int i = threadIdx.x; i < 1000; i += 256) a[i] = expf(a[i] * " +
         std::to_string(k) + ".5f);\n}\n";
}

std::vector<std::shared_future<void>> start() {
  std::vector<std::shared_future<void>> started;
  const int count = 2 * static_cast<int>(std::max(2u, std::thread::hardware_concurrency()));
  for (int k = 0; k < count; ++k) started.push_back(ebb::cuda::start_compiling(kernel(k), "sm_90"));
  return started;
}

// Null with NVRTC.
ebb::testing::CompilerState* compiler_state() {
  ebb::cuda::compiler();  // loaded
  void* const library = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_NOLOAD);
  return static_cast<ebb::testing::CompilerState*>(library ? dlsym(library, "ebb_compiler_state") : nullptr);
}

// Returns in the middle of a compilation; this thread may end the process from there.
void reach_the_middle(int microseconds) {
  ebb::testing::CompilerState* const known = compiler_state();
  if (!known) return std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  while (known->begun == 0) std::this_thread::yield();
  known->leaving = static_cast<int>(::syscall(SYS_gettid));
}

bool asks_at_the_end = false;
struct AsksAtTheEnd {
  ~AsksAtTheEnd() {
    if (!asks_at_the_end) return;
    try {
      ebb::cuda::machine_code(kernel(-2), "sm_90");
    } catch (const std::exception& e) {
      std::puts(e.what());
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  static AsksAtTheEnd asks;
  const std::string how = argc > 1 ? argv[1] : "main";
  const int microseconds = argc > 2 ? std::atoi(argv[2]) : 0;
  if (how == "thread") {
    std::thread([&] {
      const auto started = start();
      reach_the_middle(microseconds);
      std::exit(0);
    }).join();
  }
  if (how == "stranger") {
    if (auto* const known = compiler_state()) known->quick = 1;
    ebb::cuda::machine_code(kernel(-1), "sm_90");
  }
  std::vector<std::shared_future<void>> started;
  if (how == "started")
    std::thread([&] { started = start(); }).join();
  else
    started = start();
  if (how == "stranger") {
    std::thread([&] {
      reach_the_middle(microseconds);
      std::exit(0);
    }).join();
  }
  reach_the_middle(microseconds);
  asks_at_the_end = how == "destructor";
  if (how == "exit") std::exit(0);
  if (how == "throw") throw std::runtime_error("in the middle of compilations");
  if (how == "SIGINT") ::raise(SIGINT);
  if (how == "SIGTERM") ::raise(SIGTERM);
  return 0;
}
