// SPDX-License-Identifier: MIT
// Tensors shared between threads: built, evaluated, differentiated, copied and dropped concurrently. Under the thread
// and the address sanitizer these tests check who owns a node and who may change it. EBB_THREAD_ROUNDS sets the number
// of repetitions.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <latch>
#include <mutex>
#include <random>
#include <thread>

#include "ebb/ebb.h"
#include "expect_error.h"

namespace ebb {
namespace {

int rounds(int usual) {
  const char* given = std::getenv("EBB_THREAD_ROUNDS");
  return given ? std::atoi(given) : usual;
}

// Runs body(0), ..., body(n - 1) on threads of their own that start together.
template <class Body>
void in_threads(int n, const Body& body) {
  std::latch start(n);
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      body(i);
    });
  }
}

Tensor sum_of_squares(const Tensor& a) { return sum(a * a); }

class Threads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Count, Threads, testing::Values(1, 2, 8),
                         [](const auto& i) { return std::to_string(i.param); });

// The gradient dies while another thread evaluates the value, whose list of companions names it.
TEST_P(Threads, AGradientMayDieWhileItsLossIsRead) {
  const int each = rounds(1600) / GetParam();
  in_threads(GetParam(), [&](int) {
    for (int i = 0; i < each; ++i) {
      auto [v, g] = value_and_grad(Function(sum_of_squares))(ones({3}));
      std::jthread reader([q = v] { EXPECT_EQ(q.item(), 3.0); });
      g = Tensor();
    }
  });
}

TEST_P(Threads, OneGraphIsEvaluatedOnceForAllWhoAsk) {
  for (int i = 0; i < rounds(200); ++i) {
    const Tensor x = linspace(-1, 1, 1000);
    auto [v, g] = value_and_grad(Function([](const Tensor& a) { return sum(exp(a) * a); }))(x);
    const Tensor y = g * 2 + v;
    std::vector<double> values(static_cast<std::size_t>(GetParam()));
    in_threads(GetParam(), [&](int k) { values[static_cast<std::size_t>(k)] = k % 2 ? v.item() : sum(y).item(); });
    for (int k = 0; k < GetParam(); ++k)
      EXPECT_EQ(values[static_cast<std::size_t>(k)], values[static_cast<std::size_t>(k % 2)]);
  }
}

// All threads take tensors from one table, compute new ones and put those back.
TEST_P(Threads, ShareATableOfTensors) {
  std::mutex mutex;
  std::vector<Tensor> table;
  for (int k = 0; k < 16; ++k) table.push_back(linspace(0.1 + k, 1 + k, 24));
  const auto swap = [&](std::size_t at, Tensor t) {  // the old one dies outside the mutex
    std::lock_guard guard(mutex);
    std::swap(table[at], t);
    return t;
  };
  const auto take = [&](std::size_t at) {
    std::lock_guard guard(mutex);
    return table[at];
  };
  in_threads(GetParam(), [&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    const auto any = [&] { return static_cast<std::size_t>(random() % table.size()); };
    for (int i = 0; i < rounds(600); ++i) {
      const Tensor a = take(any()), b = take(any());
      switch (random() % 8) {
        case 0:
          swap(any(), tanh(a) + b);
          break;
        case 1:
          swap(any(), grad(Function([&](const Tensor& x) { return sum(sin(x) * b); }))(a));
          break;
        case 2:
          EXPECT_TRUE(std::isfinite(sum(a).item()));
          break;
        case 3: {
          const Tensor w = variable(a);
          const Tensor loss = sum(w * b);
          const Gradients gradients = backward(loss);
          swap(any(), gradients[w]);
          break;
        }
        case 4:
          swap(any(), a[random() % 24] + tanh(b));
          break;
        case 5:
          swap(any(), checkpoint(Function([](const Tensor& x) { return cos(x); }), a));
          break;
        case 6:
          eval({a, b});
          break;
        default:
          swap(any(), tanh(reshape(t(reshape(a, {4, 6})), {24})));
          (void)t(reshape(b, {4, 6})).to_vector<float>();
      }
    }
  });
  for (const Tensor& t : table) EXPECT_TRUE(std::isfinite(sum(t).item()));
}

// Data-parallel training in threads: one set of variables, one batch per thread.
TEST_P(Threads, DifferentiateByTheSameVariables) {
  const auto n = static_cast<std::size_t>(GetParam());
  for (int i = 0; i < rounds(50); ++i) {
    const Tensor w = variable(linspace(-1, 1, 64)), b = variable(full({}, 0.5));
    const auto loss = [&](std::size_t k) {
      return mean(square(tanh(w * linspace(0, 1 + static_cast<double>(k), 64)) + b));
    };
    std::vector<std::vector<double>> found(n);
    in_threads(GetParam(), [&](int k) {
      const Gradients g = backward(loss(static_cast<std::size_t>(k)));
      found[static_cast<std::size_t>(k)] = g[w].to_vector();
    });
    for (std::size_t k = 0; k < n; ++k) EXPECT_EQ(found[k], backward(loss(k))[w].to_vector());
  }
}

// One thread's transform is open while another evaluates what it is about to differentiate.
TEST_P(Threads, EvaluatingAnothersGraphTakesNoHistoryFromIt) {
  for (int i = 0; i < rounds(100); ++i) {
    in_threads(GetParam(), [&](int) {
      const Tensor g = grad(Function([](const Tensor& x) {
        const Tensor y = exp(x) * x;
        std::jthread other([y] { y.eval(); });
        other.join();
        return sum(y * y);
      }))(full({5}, 1.0));
      EXPECT_NEAR(g.to_vector()[0], 2 * M_E * 2 * M_E, 1e-4);
    });
  }
}

TEST_P(Threads, BackwardConsumesWhatAnotherThreadEvaluates) {
  for (int i = 0; i < rounds(200); ++i) {
    const Tensor w = variable(linspace(-1, 1, 300));
    const Tensor loss = sum(exp(tanh(w) * 2));
    std::vector<Tensor> gradient(1);
    std::jthread reader([&] { EXPECT_TRUE(std::isfinite(loss.item())); });
    gradient[0] = backward(loss)[w];
    EXPECT_EQ(gradient[0].to_vector().size(), 300u);
  }
}

TEST_P(Threads, CallOneCompiledFunction) {
  const auto f = compile(value_and_grad(Function([](const Tensor& x) { return sum(exp(x) * x); })));
  in_threads(GetParam(), [&](int k) {
    for (int i = 0; i < rounds(200); ++i) {
      const std::int64_t size = 10 + (k + i) % 3;
      const auto [v, g] = f(ones({size}));
      EXPECT_NEAR(v.item(), M_E * static_cast<double>(size), 1e-4);
      EXPECT_NEAR(g.to_vector()[0], 2 * M_E, 1e-5);
    }
  });
}

// A thread that waits for a failing evaluation gets the error too, and afterwards everything works.
TEST_P(Threads, AnErrorReachesEverybodyWhoAsks) {
  for (int i = 0; i < rounds(50); ++i) {
    const Tensor loss = cross_entropy(ones({3, 4}), from_data(std::vector<std::int64_t>{1, 17, 2}, {3}));
    std::atomic<int> errors{0};
    in_threads(GetParam(), [&](int) {
      try {
        (void)loss.item();
      } catch (const Error& e) {
        errors += std::string(e.what()).find("17") != std::string::npos;
      }
    });
    EXPECT_EQ(errors, GetParam());
    EXPECT_EQ(sum(ones({3})).item(), 3.0);
  }
}

TEST_P(Threads, ManyMoreThanThePartsOfTheGraph) {
  std::vector<Tensor> made(100);
  for (int i = 0; i < 100; ++i) std::jthread([&, i] { made[static_cast<std::size_t>(i)] = ones({4}) * i + 1; });
  Tensor all = made[0];
  for (std::size_t i = 1; i < made.size(); ++i) all = all + made[i];
  in_threads(GetParam(), [&](int) { EXPECT_EQ(sum(all).item(), 4 * (4950 + 100)); });
}

}  // namespace
}  // namespace ebb
