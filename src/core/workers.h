// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace ebb {

// Processors that this process may use.
int available_processors();

// The threads that share loops with the threads that call them.
//
// A loop over small tensors takes tens of microseconds, and a training step consists of many: what counts is how soon
// the others begin and how soon the caller knows that they are done. So an idle worker spins for a while before it
// sleeps, tasks are taken without a lock, and the loop never blocks on a worker that has not woken: the others do its
// share.
//
// Loop number e of a place divides its tasks into one share per thread, so that the same thread gets the same tasks,
// and their memory, in the next loop. A thread that has finished its own share takes from the others'. A share is one
// word, the number of the loop and how many of its tasks are taken: one that names an earlier loop is untouched. A loop
// is over when every task is done, and then all of its shares are used up; so a worker that comes too late finds
// nothing to take, whatever has become of the loop meanwhile.
class Workers {
 public:
  static constexpr int kMostThreads = 256;
  static constexpr std::int64_t kMostTasks = (std::int64_t{1} << 20) - 1;

  using Task = bool (*)(std::int64_t i, void* context);  // returns whether to go on; must not throw

  static Workers& instance();

  // Calls task(i, context) once for every i in [0, n), n <= kMostTasks, on this thread and at most threads - 1 others.
  // Returns when all are done or, once a task says not to go on, when those already begun are. Several threads may call
  // this at a time; a task must not.
  void run(std::int64_t n, int threads, Task task, void* context);

 private:
  // At most this many concurrent callers share their loops; any others stay on their own threads.
  static constexpr int kPlaces = 8;
  static constexpr int kCountBits = 20;  // of a word that also has the number of a loop
  static constexpr std::uint64_t kCount = (std::uint64_t{1} << kCountBits) - 1;
  static_assert(kMostTasks <= static_cast<std::int64_t>(kCount));

  struct alignas(64) Word {
    std::atomic<std::uint64_t> value{0};
  };
  struct alignas(64) Place {
    std::atomic<bool> taken{false};
    std::uint64_t number = 0;  // of its last loop
    // A worker that comes too late may read these while the next loop writes them; it then checks `announced_`.
    std::atomic<std::int64_t> n{0};
    std::atomic<int> threads{0};
    std::atomic<Task> task{nullptr};
    std::atomic<void*> context{nullptr};
    Word shares[kMostThreads];
    Word done[kMostThreads];  // by each thread: the number of the loop and how many tasks
  };
  struct Loop {
    Place& place;
    std::uint64_t number;
    std::int64_t n;
    int threads;
    Task task;
    void* context;
  };
  struct alignas(64) Sleeper {
    std::mutex mutex;
    std::condition_variable condition;
    bool woken = false;
  };

  void run_shared(Place& place, int index, std::int64_t n, int threads, Task task, void* context);
  static std::int64_t work(const Loop& loop, int thread);
  static std::uint64_t done_by_others(const Loop& loop);

  void start(int workers);
  void serve(int thread);
  bool find_work(int thread, std::uint64_t (&seen)[kPlaces], bool was_asleep);
  bool is_anything_new(const std::uint64_t (&seen)[kPlaces]) const;
  void sleep(int thread, const std::uint64_t (&seen)[kPlaces]);
  void wake_some(int threads);

  // For each place: 2 · number + 1 while its loop can be joined, an even number otherwise; all in one cache line, which
  // is what idle workers poll.
  alignas(64) std::atomic<std::uint64_t> announced_[kPlaces] = {};
  alignas(64) std::atomic<std::uint64_t> asleep_[kMostThreads / 64] = {};  // one bit each
  Place places_[kPlaces];
  Sleeper sleepers_[kMostThreads];
  std::atomic<int> started_{0};
  std::mutex starting_;
  const int processors_ = available_processors();
};

}  // namespace ebb
