#include "core/parallel.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/format_error.h"
#include "core/stop.h"
#include "ebb/memory.h"

namespace ebb {
namespace {

struct Workers {
  explicit Workers(int threads) : arena(threads) {
    // By default TBB starts no more threads than the machine has cores; tests need more.
    using oneapi::tbb::global_control;
    if (threads > oneapi::tbb::info::default_concurrency()) {
      control.emplace(global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
    }
  }
  std::optional<oneapi::tbb::global_control> control;
  oneapi::tbb::task_arena arena;
};

// Never destroyed: computations may run in the destructors of static objects.
struct Pool {
  std::atomic<int> threads{oneapi::tbb::info::default_concurrency()};
  std::mutex mutex;
  std::shared_ptr<Workers> workers;  // guarded by mutex, made at the first use

  std::shared_ptr<Workers> get() {
    std::lock_guard lock(mutex);
    if (!workers) workers = std::make_shared<Workers>(threads.load(std::memory_order_relaxed));
    return workers;
  }
};

Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

thread_local bool inside = false;  // this thread is running a body of parallel_for

struct Inside {
  bool before = std::exchange(inside, true);
  ~Inside() { inside = before; }
};

#if defined(__SANITIZE_THREAD__)

// The thread sanitizer does not see the synchronisation inside the TBB library and would report every loop. Threads of
// the standard library, made for each loop, let it check the bodies exactly.
void run(std::int64_t n, void (*body)(std::int64_t, void*), void* context) {
  const std::stop_token* const token = current_stop_token();
  const auto caller = std::this_thread::get_id();
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  auto work = [&] {
    Inside scope;
    try {
      for (std::int64_t i; (i = next.fetch_add(1)) < n;) {
        std::this_thread::get_id() == caller ? check_stop() : throw_if_stopped(token);
        body(i, context);
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      error = std::current_exception();
      next = n;
    }
  };
  std::vector<std::thread> others;
  for (std::int64_t i = 1; i < std::min<std::int64_t>(n, num_threads()); ++i) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  if (error) std::rethrow_exception(error);
}

#else

void run(std::int64_t n, void (*body)(std::int64_t, void*), void* context) {
  const std::shared_ptr<Workers> workers = pool().get();
  const std::stop_token* const token = current_stop_token();
  const auto caller = std::this_thread::get_id();
  workers->arena.execute([&] {
    // Isolated: while this thread waits it does not take work from another loop, whose bodies it could delay or
    // deadlock.
    oneapi::tbb::this_task_arena::isolate([&] {
      oneapi::tbb::parallel_for(oneapi::tbb::blocked_range<std::int64_t>(0, n), [&](const auto& range) {
        Inside scope;
        const bool is_caller = std::this_thread::get_id() == caller;
        for (std::int64_t i = range.begin(); i != range.end(); ++i) {
          // Another thread failed. TBB looks at this only between ranges, which may be a quarter of the loop.
          if (oneapi::tbb::is_current_task_group_canceling()) return;
          is_caller ? check_stop() : throw_if_stopped(token);
          body(i, context);
        }
      });
    });
  });
}

#endif

}  // namespace

void set_num_threads(int n) {
  require(n >= 1, "set_num_threads: the number of threads must be at least 1, got {}", n);
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  if (n == p.threads.load(std::memory_order_relaxed)) return;
  p.threads.store(n, std::memory_order_relaxed);
  p.workers.reset();  // loops that are running keep theirs
}

int num_threads() { return pool().threads.load(std::memory_order_relaxed); }

void parallel_for(std::int64_t n, void (*body)(std::int64_t i, void* context), void* context) {
  // A nested loop runs on the calling thread: the outer one keeps the cores busy, and no thread waits while it holds a
  // tile.
  if (n <= 1 || inside || num_threads() == 1) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (!inside) check_stop();
      body(i, context);
    }
    return;
  }
  run(n, body, context);
}

}  // namespace ebb
