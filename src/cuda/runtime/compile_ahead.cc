// SPDX-License-Identifier: MIT
#include "cuda/runtime/compile_ahead.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/runtime/compiler_use.h"
#include "cuda/runtime/kernel_cache.h"

namespace ebb::cuda {
namespace {

class Compilations {
 public:
  // Never destroyed: its threads may outlive the static objects.
  static Compilations& get() {
    static auto* const all = new Compilations;
    return *all;
  }

  std::shared_future<void> start(const std::string& text, const std::string& architecture, int spill_blocks) {
    wait_if_this_thread_exits();
    std::packaged_task<void()> task([=, this] { compile(text, architecture, spill_blocks); });
    std::shared_future<void> done = task.get_future().share();
    std::lock_guard guard(mutex_);
    std::erase_if(threads_, [](Thread& t) {
      const bool finished = t.done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      if (finished) t.thread.join();
      return finished;
    });
    threads_.push_back({std::thread(std::move(task)), done});
    return done;
  }

 private:
  struct Thread {
    std::thread thread;
    std::shared_future<void> done;
  };

  Compilations() {
    join_at_the_end([] { get().join(); });
  }

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

  // A thread that holds the mutex at this moment starts one that will be refused a compilation.
  void join() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    for (Thread& t : threads_) {
      if (t.thread.get_id() == std::this_thread::get_id())
        t.thread.detach();
      else
        t.thread.join();
    }
    threads_.clear();
  }

  std::counting_semaphore<> places_{std::max(1u, std::thread::hardware_concurrency())};
  std::mutex mutex_;
  std::vector<Thread> threads_;
};

}  // namespace

std::shared_future<void> start_compiling(const std::string& text, const std::string& architecture, int spill_blocks) {
  return Compilations::get().start(text, architecture, spill_blocks);
}

}  // namespace ebb::cuda
