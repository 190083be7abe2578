// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <thread>

#include "core/parallel.h"
#include "core/stop.h"
#include "ebb/ebb.h"

// Evaluations that are stopped by a token.
namespace ebb {
namespace {

TEST(Stop, AnEvaluationEndsAndCanBeDoneLater) {
  std::stop_source source;
  const Tensor x = arange(1000) * 2, y = cumsum(x, 0), z = sort(y + 1, 0).first;
  source.request_stop();
  {
    const StopScope scope(source.get_token());
    EXPECT_THROW(z.eval(), Stopped);
    EXPECT_FALSE(z.evaluated());
  }
  EXPECT_EQ(z.slice(0, 999, 1000).item<std::int64_t>(), 999 * 1000 + 1);
}

TEST(Stop, ScopesNestAndEndWithThemselves) {
  std::stop_source outer, inner;
  const StopScope scope(outer.get_token());
  inner.request_stop();
  {
    const StopScope nested(inner.get_token());
    EXPECT_THROW(ones({3}).eval(), Stopped);
  }
  EXPECT_NO_THROW(ones({3}).eval());
  outer.request_stop();
  EXPECT_THROW(ones({3}).eval(), Stopped);
  std::thread([] { EXPECT_NO_THROW(ones({3}).eval()); }).join();  // a token belongs to its thread
}

TEST(Stop, ALoopOfManyTasksEndsInTheMiddle) {
  for (const int threads : {1, 4}) {
    const int before = num_threads();
    set_num_threads(threads);
    std::stop_source source;
    std::atomic<int> done{0};
    const StopScope scope(source.get_token());
    EXPECT_THROW(parallel_for(100'000,
                              [&](std::int64_t) {
                                if (++done == 10) source.request_stop();
                              }),
                 Stopped);
    EXPECT_LT(done, 1000);
    set_num_threads(before);
  }
}

TEST(Stop, ACompiledFunctionIsStoppedAndGoesOn) {
  const Function f = compile(Function([](const Tensor& x) { return cumsum(x, 0) + 1; }));
  const Tensor x = arange(10).eval();
  const std::vector<double> expected = f(x).to_vector();
  std::stop_source source;
  source.request_stop();
  {
    const StopScope scope(source.get_token());
    EXPECT_THROW(f(x), Stopped);
  }
  EXPECT_EQ(f(x).to_vector(), expected);
}

// The host (Python) is polled now and then, by the thread that called, and its exception ends the computation.
TEST(Stop, TheHostEndsALoop) {
  static int asked = 0;
  static std::thread::id by;
  for (const int threads : {1, 4}) {
    const int before = num_threads();
    set_num_threads(threads);
    asked = 0;
    set_host_interrupt([] {
      by = std::this_thread::get_id();
      if (++asked == 2) throw Stopped("the host interrupts");
    });
    EXPECT_THROW(parallel_for(std::int64_t{1} << 40, [](std::int64_t) {}), Stopped);
    set_host_interrupt(nullptr);
    EXPECT_EQ(asked, 2);
    EXPECT_EQ(by, std::this_thread::get_id());
    set_num_threads(before);
    EXPECT_EQ(sum(ones({3})).item<float>(), 3);
  }
}

}  // namespace
}  // namespace ebb
