// SPDX-License-Identifier: MIT
#include "core/parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ebb/memory.h"
#include "expect_error.h"

namespace ebb {
namespace {

class Parallel : public testing::Test {
 protected:
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};

TEST_F(Parallel, RunsEveryIndexOnceForAnyNumberOfThreads) {
  for (int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    for (std::int64_t n : {0, 1, 2, 3, 100, 10'000}) {
      std::vector<int> runs(static_cast<std::size_t>(n), 0);
      parallel_for(n, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
      EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), 0), n);
      EXPECT_EQ(std::set<int>(runs.begin(), runs.end()).size(), n == 0 ? 0u : 1u);
    }
  }
}

TEST_F(Parallel, OneTaskOrOneThreadStaysOnTheCallingThread) {
  const std::thread::id caller = std::this_thread::get_id();
  set_num_threads(4);
  parallel_for(1, [&](std::int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  set_num_threads(1);
  parallel_for(100, [&](std::int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  parallel_for(-5, [&](std::int64_t) { ADD_FAILURE() << "a negative count has no tasks"; });
}

TEST_F(Parallel, ExceptionsReachTheCallerAndTheNextLoopWorks) {
  for (int threads : {1, 4}) {
    set_num_threads(threads);
    EXPECT_THROW_MESSAGE(parallel_for(1000,
                                      [](std::int64_t i) {
                                        if (i == 500) throw Error("task 500 failed");
                                      }),
                         "task 500 failed");
    std::atomic<int> count{0};
    parallel_for(1000, [&](std::int64_t) { ++count; });
    EXPECT_EQ(count, 1000);
  }
}

TEST_F(Parallel, AnExceptionEndsTheTasksOfOtherThreadsToo) {
  set_num_threads(4);
  EXPECT_THROW_MESSAGE(parallel_for(std::int64_t{1} << 40,  // weeks
                                    [](std::int64_t i) {
                                      if (i == 0) throw Error("task 0 failed");
                                    }),
                       "task 0 failed");
}

TEST_F(Parallel, ANestedLoopRunsOnTheThreadThatMeetsIt) {
  set_num_threads(4);
  std::atomic<int> count{0};
  parallel_for(8, [&](std::int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    parallel_for(8, [&](std::int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      ++count;
    });
  });
  EXPECT_EQ(count, 64);
}

TEST_F(Parallel, SeveralCallersAndAChangingNumberOfThreadsDoNotDisturbEachOther) {
  auto work = [] {
    for (int round = 0; round < 50; ++round) {
      std::vector<std::int64_t> squares(200);
      parallel_for(200, [&](std::int64_t i) { squares[static_cast<std::size_t>(i)] = i * i; });
      for (std::int64_t i = 0; i < 200; ++i) ASSERT_EQ(squares[static_cast<std::size_t>(i)], i * i);
    }
  };
  std::thread a(work), b(work);
  for (int i = 0; i < 20; ++i) set_num_threads(1 + i % 4);
  work();
  a.join();
  b.join();
}

// Workers spin for a while, then sleep: loops that follow each other at any distance find them.
TEST_F(Parallel, LoopsOfAnyLengthAndDistanceAreComplete) {
  set_num_threads(4);
  for (int round = 0; round < 400; ++round) {
    const std::int64_t n = 2 + round % 37;
    std::vector<std::int64_t> made(static_cast<std::size_t>(n), -1);
    parallel_for(n, [&](std::int64_t i) { made[static_cast<std::size_t>(i)] = i + round; });
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(made[static_cast<std::size_t>(i)], i + round);
    if (round % 40 == 0) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(20 * round);
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    }
  }
}

TEST_F(Parallel, MoreTasksThanALoopIsCountedIn) {
  set_num_threads(3);
  const std::int64_t n = (std::int64_t{1} << 21) + 5;
  std::vector<std::uint8_t> runs(static_cast<std::size_t>(n), 0);
  parallel_for(n, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
  EXPECT_EQ(std::count(runs.begin(), runs.end(), 1), n);
}

// One task waits for the other, and so for a second thread, until it arrives.
TEST_F(Parallel, SeveralThreadsWorkAtATime) {
  set_num_threads(2);
  std::atomic<int> arrived{0};
  parallel_for(2, [&](std::int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST_F(Parallel, MoreCallersThanPlacesForThem) {
  set_num_threads(2);
  std::atomic<int> count{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 12; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 30; ++round) parallel_for(5, [&](std::int64_t) { ++count; });
    });
  for (std::thread& c : callers) c.join();
  EXPECT_EQ(count, 12 * 30 * 5);
}

#if !defined(__SANITIZE_THREAD__)  // it cannot follow a fork of several threads
TEST_F(Parallel, AForkedProcessHasThreadsOfItsOwn) {
  set_num_threads(2);
  parallel_for(8, [](std::int64_t) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> arrived{0};
    parallel_for(2, [&](std::int64_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    _exit(arrived == 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

TEST_F(Parallel, RefusesLessThanOneThread) {
  EXPECT_THROW_MESSAGE(set_num_threads(0), "set_num_threads: the number of threads must be at least 1, got 0");
  EXPECT_THROW(set_num_threads(-3), Error);
  EXPECT_GE(num_threads(), 1);
}

}  // namespace
}  // namespace ebb
