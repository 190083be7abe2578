// SPDX-License-Identifier: MIT
#include "cuda/runtime/compile_ahead.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

#include "cuda/runtime/compiler_use.h"
#include "cuda/runtime/kernel_cache.h"

namespace ebb::cuda {
namespace {

class Compilations {
 public:
  static Compilations& get() {
    static auto* const all = new Compilations;
    return *all;
  }

  std::shared_future<void> start(const std::string& text, const std::string& architecture, int spill_blocks) {
    wait_if_this_thread_exits();
    std::shared_future<void> started =
        std::async(std::launch::async, [=, this] { compile(text, architecture, spill_blocks); });
    std::lock_guard guard(mutex_);
    std::erase_if(started_, [](const std::shared_future<void>& f) {
      const bool done = f.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      if (done) f.wait();  // which joins its thread
      return done;
    });
    started_.push_back(started);
    return started;
  }

 private:
  void compile(const std::string& text, const std::string& architecture, int spill_blocks) {
    places_.acquire();
    try {
      machine_code(text, architecture, spill_blocks);
    } catch (...) {
      places_.release();
      throw;
    }
    places_.release();
  }

  std::counting_semaphore<> places_{std::max(1u, std::thread::hardware_concurrency())};
  std::mutex mutex_;
  std::vector<std::shared_future<void>> started_;  // destroying the last reference to one waits for it
};

}  // namespace

std::shared_future<void> start_compiling(const std::string& text, const std::string& architecture, int spill_blocks) {
  return Compilations::get().start(text, architecture, spill_blocks);
}

}  // namespace ebb::cuda
