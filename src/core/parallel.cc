// SPDX-License-Identifier: MIT
#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "core/format_error.h"
#include "core/stop.h"
#include "core/workers.h"
#include "ebb/memory.h"

namespace ebb {
namespace {

// Applies to loops that begin from now on.
std::atomic<int>& threads() {
  static std::atomic<int> count{available_processors()};
  return count;
}

thread_local bool inside = false;  // this thread is running a body of parallel_for

struct Inside {
  bool before = std::exchange(inside, true);
  ~Inside() { inside = before; }
};

// A loop and the first exception that ends it: tasks that begin later do nothing.
struct Loop {
  void (*body)(std::int64_t, void*);
  void* context;
  const std::stop_token* token = current_stop_token();
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> failed{false};
  std::exception_ptr error = nullptr;

  std::int64_t first = 0;  // of the tasks that threads share now

  bool task(std::int64_t i) noexcept {
    if (failed.load(std::memory_order_relaxed)) return false;
    Inside scope;
    try {
      std::this_thread::get_id() == caller ? check_stop() : throw_if_stopped(token);
      body(first + i, context);
      return true;
    } catch (...) {
      // Read by the caller when all tasks are done.
      if (!failed.exchange(true, std::memory_order_relaxed)) error = std::current_exception();
      return false;
    }
  }
};

}  // namespace

void set_num_threads(int n) {
  require(n >= 1, "set_num_threads: the number of threads must be at least 1, got {}", n);
  threads().store(n, std::memory_order_relaxed);
}

int num_threads() { return threads().load(std::memory_order_relaxed); }

void parallel_for(std::int64_t n, void (*body)(std::int64_t i, void* context), void* context) {
  // A nested loop runs on the calling thread: the outer one keeps the cores busy, and no thread blocks while it holds a
  // tile.
  if (n <= 1 || inside || num_threads() == 1) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (!inside) check_stop();
      body(i, context);
    }
    return;
  }
  Loop loop{body, context};
  for (; loop.first < n && !loop.failed; loop.first += Workers::kMostTasks) {
    Workers::instance().run(
        std::min(n - loop.first, Workers::kMostTasks), num_threads(),
        [](std::int64_t i, void* l) { return static_cast<Loop*>(l)->task(i); }, &loop);
  }
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace ebb
