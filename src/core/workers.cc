// SPDX-License-Identifier: MIT
#include "core/workers.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <system_error>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include "core/spin.h"

namespace ebb {
namespace {

using Clock = std::chrono::steady_clock;

// Spinning costs a core; sleeping costs 50 µs or more when a loop begins. Between loops of a step there are a few
// microseconds, between steps some tens; after kPolite another thread that wants the core gets it.
constexpr auto kPolite = std::chrono::microseconds(20), kPatience = std::chrono::microseconds(200);

// Waits a little longer each time.
class Watch {
 public:
  explicit Watch(bool crowded) : crowded_(crowded) {}
  void wait() {
    if (!crowded_ && ++turns_ % 16 != 0) return pause_briefly();
    if (crowded_ || elapsed() > kPolite) {
      std::this_thread::yield();
    } else {
      pause_briefly();
    }
  }
  bool is_over() { return (crowded_ || turns_ % 16 == 0) && elapsed() > kPatience; }

 private:
  Clock::duration elapsed() {
    if (!begun_) begin_ = Clock::now(), begun_ = true;
    return Clock::now() - begin_;
  }
  const bool crowded_;  // more threads than processors: never keep another thread from one
  bool begun_ = false;
  unsigned turns_ = 0;
  Clock::time_point begin_;
};

std::atomic<Workers*> current_workers{nullptr};

}  // namespace

int available_processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Never destroyed: computations may run in the destructors of static objects. A process that was forked has none of its
// parent's threads and starts its own.
Workers& Workers::instance() {
  static const bool first = [] {
    current_workers.store(new Workers, std::memory_order_release);
#if defined(__unix__) || defined(__APPLE__)
    pthread_atfork(nullptr, nullptr, [] { current_workers.store(new Workers, std::memory_order_release); });
#endif
    return true;
  }();
  static_cast<void>(first);
  return *current_workers.load(std::memory_order_acquire);
}

void Workers::run(std::int64_t n, int threads, Task task, void* context) {
  threads = static_cast<int>(std::min<std::int64_t>(n, std::min(threads, kMostThreads)));
  start(threads - 1);
  for (int p = 0; p < kPlaces; ++p) {
    Place& place = places_[p];
    if (place.taken.load(std::memory_order_relaxed) || place.taken.exchange(true, std::memory_order_acquire)) continue;
    run_shared(place, p, n, threads, task, context);
    place.taken.store(false, std::memory_order_release);
    return;
  }
  for (std::int64_t i = 0; i < n && task(i, context); ++i) {
  }
}

void Workers::run_shared(Place& place, int index, std::int64_t n, int threads, Task task, void* context) {
  const Loop loop{place, ++place.number, n, static_cast<int>(std::min<std::int64_t>(n, threads)), task, context};
  place.n.store(loop.n, std::memory_order_release);
  place.threads.store(loop.threads, std::memory_order_release);
  place.task.store(loop.task, std::memory_order_release);
  place.context.store(loop.context, std::memory_order_release);
  announced_[index].store(2 * loop.number + 1, std::memory_order_seq_cst);
  wake_some(loop.threads);
  const std::int64_t mine = work(loop, 0);
  Watch watch(threads > processors_);
  while (mine + static_cast<std::int64_t>(done_by_others(loop)) < n) watch.wait();
  announced_[index].store(2 * loop.number + 2, std::memory_order_release);
}

// Returns how many tasks it did: of its own share first, then of those that follow.
std::int64_t Workers::work(const Loop& loop, int thread) {
  std::int64_t done = 0;
  for (int k = 0; k < loop.threads; ++k) {
    const int of = (thread + k) % loop.threads;
    const std::int64_t first = loop.n * of / loop.threads, size = loop.n * (of + 1) / loop.threads - first;
    std::atomic<std::uint64_t>& share = loop.place.shares[of].value;
    std::uint64_t now = share.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t number = now >> kCountBits;
      const std::int64_t taken = number == loop.number ? static_cast<std::int64_t>(now & kCount) : 0;
      if (number > loop.number || taken >= size) break;
      const std::uint64_t next = loop.number << kCountBits | static_cast<std::uint64_t>(taken + 1);
      if (!share.compare_exchange_weak(now, next, std::memory_order_relaxed)) continue;
      const bool go_on = loop.task(first + taken, loop.context);
      ++done;
      now = share.load(std::memory_order_relaxed);
      if (go_on) continue;
      // The rest of the share counts as done. The loop cannot end before this thread has reported its own.
      while (!share.compare_exchange_weak(now, loop.number << kCountBits | static_cast<std::uint64_t>(size),
                                          std::memory_order_relaxed)) {
      }
      done += size - static_cast<std::int64_t>(now & kCount);
      break;
    }
  }
  return done;
}

std::uint64_t Workers::done_by_others(const Loop& loop) {
  std::uint64_t sum = 0;
  for (int t = 1; t < loop.threads; ++t) {
    const std::uint64_t done = loop.place.done[t].value.load(std::memory_order_acquire);
    if (done >> kCountBits == loop.number) sum += done & kCount;
  }
  return sum;
}

void Workers::start(int workers) {
  if (started_.load(std::memory_order_acquire) >= workers) return;
  std::lock_guard lock(starting_);
  for (int t = started_.load(std::memory_order_relaxed) + 1; t <= workers; ++t) {
    try {
      std::thread([this, t] { serve(t); }).detach();
    } catch (const std::system_error&) {
      // The system has no more threads: the existing ones do the work.
    }
    started_.store(t, std::memory_order_release);
  }
}

void Workers::serve(int thread) {
  std::uint64_t seen[kPlaces] = {};
  bool was_asleep = false;
  for (;;) {
    Watch watch(started_.load(std::memory_order_relaxed) >= processors_);
    bool found = false;
    while (!(found = find_work(thread, seen, was_asleep)) && !watch.is_over()) watch.wait();
    if (!found) sleep(thread, seen);
    was_asleep = !found;
  }
}

// Joins a loop that this thread has not seen yet, if there is one.
bool Workers::find_work(int thread, std::uint64_t (&seen)[kPlaces], bool was_asleep) {
  for (int p = 0; p < kPlaces; ++p) {
    const std::uint64_t announced = announced_[p].load(std::memory_order_acquire);
    if (announced % 2 == 0 || announced == seen[p]) continue;
    seen[p] = announced;
    Place& place = places_[p];
    const Loop loop{place,
                    announced / 2,
                    place.n.load(std::memory_order_acquire),
                    place.threads.load(std::memory_order_acquire),
                    place.task.load(std::memory_order_acquire),
                    place.context.load(std::memory_order_acquire)};
    if (announced_[p].load(std::memory_order_acquire) != announced || thread >= loop.threads) continue;
    if (was_asleep) wake_some(loop.threads);
    const std::int64_t done = work(loop, thread);
    if (done > 0)
      place.done[thread].value.store(loop.number << kCountBits | static_cast<std::uint64_t>(done),
                                     std::memory_order_release);
    return true;
  }
  return false;
}

bool Workers::is_anything_new(const std::uint64_t (&seen)[kPlaces]) const {
  for (int p = 0; p < kPlaces; ++p) {
    const std::uint64_t announced = announced_[p].load(std::memory_order_seq_cst);
    if (announced % 2 == 1 && announced != seen[p]) return true;
  }
  return false;
}

// A caller announces first and then looks which workers are asleep; a worker first declares itself asleep and then
// looks for news. So at least one of them sees the other.
void Workers::sleep(int thread, const std::uint64_t (&seen)[kPlaces]) {
  const std::uint64_t bit = std::uint64_t{1} << thread % 64;
  asleep_[thread / 64].fetch_or(bit, std::memory_order_seq_cst);
  if (is_anything_new(seen)) {
    asleep_[thread / 64].fetch_and(~bit, std::memory_order_relaxed);
    return;  // a caller may be about to wake this thread; then it will not sleep the next time
  }
  Sleeper& self = sleepers_[thread];
  std::unique_lock lock(self.mutex);
  self.condition.wait(lock, [&] { return self.woken; });
  self.woken = false;
  asleep_[thread / 64].fetch_and(~bit, std::memory_order_relaxed);
}

// Wakes two of the first `threads`; each of them does the same when it finds work.
void Workers::wake_some(int threads) {
  int left = 2;
  for (int base = 0; base < threads && left > 0; base += 64) {
    const std::uint64_t wanted = threads - base >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << (threads - base)) - 1;
    std::atomic<std::uint64_t>& word = asleep_[base / 64];
    std::uint64_t sleeping = word.load(std::memory_order_seq_cst) & wanted;
    while (sleeping != 0 && left > 0) {
      const std::uint64_t bit = sleeping & -sleeping;
      sleeping &= ~bit;
      if (!(word.fetch_and(~bit, std::memory_order_relaxed) & bit)) continue;
      Sleeper& sleeper = sleepers_[base + std::countr_zero(bit)];
      {
        std::lock_guard lock(sleeper.mutex);
        sleeper.woken = true;
      }
      sleeper.condition.notify_one();
      --left;
    }
  }
}

}  // namespace ebb
