// SPDX-License-Identifier: MIT
#include "core/host_lock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "ebb/ebb.h"
#include "graph/lock.h"

namespace ebb {
namespace {

// A host like an interpreter: one lock, and each thread knows whether it holds it.
// (Not a timed_mutex: thread sanitizers do not know how that is locked.)
std::mutex host_mutex;
std::condition_variable host_is_free;
bool host_taken = false;
thread_local bool holds_host = false;
int times_left = 0;

bool take_host() {
  std::unique_lock lock(host_mutex);
  holds_host = host_is_free.wait_for(lock, std::chrono::seconds(20), [] { return !host_taken; });
  host_taken = host_taken || holds_host;
  return holds_host;
}
void give_host() {
  holds_host = false;
  {
    std::lock_guard lock(host_mutex);
    host_taken = false;
  }
  host_is_free.notify_one();
}

class HostLockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    times_left = 0;
    set_host_lock({[]() -> void* {
                     if (!holds_host) return nullptr;
                     ++times_left;
                     give_host();
                     return &host_mutex;
                   },
                   [](void*) { take_host(); }});
  }
  void TearDown() override { set_host_lock({nullptr, nullptr}); }
};

TEST_F(HostLockTest, ComputingHappensOutsideIt) {
  const Tensor x = tensor({1.0, 2.0});  // on another device, copying it there is computing
  ASSERT_TRUE(take_host());
  const Tensor y = x + 1;
  EXPECT_EQ(times_left, 0) << "building a graph needs nobody to let go";
  EXPECT_EQ(y.to_vector(), (std::vector<double>{2, 3}));
  EXPECT_EQ(times_left, 1);
  EXPECT_TRUE(holds_host);
  give_host();
}

TEST_F(HostLockTest, AThreadThatWaitsForTheGraphLetsGoOfIt) {
  ASSERT_TRUE(take_host());
  std::promise<void> has_graph;
  bool got_host = false;
  const Tensor x = tensor({1.0, 2.0});
  std::thread other([&] {
    GraphLock lock(x.node());
    has_graph.set_value();
    got_host = take_host();  // as a gradient rule written in the host's language does
    if (got_host) give_host();
  });
  has_graph.get_future().wait();
  { GraphLock lock(x.node()); }
  other.join();
  EXPECT_TRUE(got_host) << "both threads waited for each other";
  EXPECT_TRUE(holds_host);
  give_host();
}

TEST_F(HostLockTest, AThreadWithoutItComputesAsEver) {
  EXPECT_EQ((tensor(2.0) * 3).item(), 6);
  EXPECT_EQ(times_left, 0);
}

}  // namespace
}  // namespace ebb
