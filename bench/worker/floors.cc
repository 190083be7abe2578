// SPDX-License-Identifier: MIT
#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "worker/by_hand.h"

namespace bench {
namespace {

template <class Body>
double seconds_of(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Threads that are awake already: how long one takes to start is no limit of the machine.
class Team {
 public:
  explicit Team(int threads) : threads_(threads) {
    for (int t = 1; t < threads; ++t) others_.emplace_back([this, t] { serve(t); });
  }
  ~Team() {
    run(nullptr);
    for (std::thread& t : others_) t.join();
  }
  // body(t) by every thread t at the same time, so many times. The first time does not count: it touches fresh pages.
  std::vector<double> seconds(int samples, const std::function<void(int)>& body) {
    std::vector<double> taken;
    for (int s = 0; s <= samples; ++s) taken.push_back(seconds_of([&] { run(&body); }));
    taken.erase(taken.begin());
    return taken;
  }

 private:
  void run(const std::function<void(int)>* body) {
    body_ = body;
    done_ = 1;
    ++turn_;
    if (body) (*body)(0);
    while (done_ < threads_) std::this_thread::yield();
  }
  void serve(int t) {
    for (int turn = 1;; ++turn) {
      while (turn_ < turn) std::this_thread::yield();
      const auto* body = body_;
      if (body) (*body)(t);
      ++done_;
      if (!body) return;
    }
  }

  const int threads_;
  const std::function<void(int)>* body_ = nullptr;
  std::atomic<int> turn_{0}, done_{0};
  std::vector<std::thread> others_;
};

// As many sums as the widest vectors need to be busy, and registers hold.
template <int kSums>
[[gnu::always_inline]] inline void multiply_and_add_to(std::int64_t steps) {
  float x[kSums];
  for (float& v : x) v = 0.5f;
  for (std::int64_t i = 0; i < steps; ++i) {
    for (float& v : x) v = v * 0.999f + 0.001f;
  }
  volatile float result = 0;
  for (float v : x) result = result + v;
}
#if defined(__x86_64__)
[[gnu::target("avx512f")]] void multiply_and_add_by_512_bits(std::int64_t steps) { multiply_and_add_to<256>(steps); }
#endif
void multiply_and_add(std::int64_t steps) {
#if defined(__x86_64__)
  // At this width processors may slow down where many cores are busy.
  if (__builtin_cpu_supports("avx512f")) return multiply_and_add_by_512_bits(steps);
#endif
  multiply_and_add_to<32>(steps);
}

}  // namespace

void gemm_by_blas(const float* a, const float* b, float* c, std::int64_t n, int threads) {
  const int size = static_cast<int>(n);
  openblas_set_num_threads(threads);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1.0f, a, size, b, size, 0.0f, c, size);
  openblas_set_num_threads(1);
}

std::vector<double> time_copies(std::size_t bytes, int samples, int threads) {
  const std::size_t part = std::max<std::size_t>(bytes / 2 / static_cast<std::size_t>(threads), 1);
  std::vector<char> from(part * static_cast<std::size_t>(threads), 1), to(from.size());
  return Team(threads).seconds(samples, [&](int t) {
    const std::size_t start = part * static_cast<std::size_t>(t);
    std::memcpy(&to[start], &from[start], part);
  });
}

std::vector<double> time_arithmetic(int samples, int threads) {
  return Team(threads).seconds(samples, [&](int) { multiply_and_add(1'000'000 / threads); });
}

Floors measure_floors(int threads) {
  const std::size_t bytes = std::size_t{192} << 20;
  const std::int64_t n = 1024;
  std::vector<float> a(static_cast<std::size_t>(n * n), 1.0f), b = a, c = a;
  std::vector<double> products;
  for (int k = 0; k < 7; ++k)
    products.push_back(seconds_of([&] { gemm_by_blas(a.data(), b.data(), c.data(), n, threads); }));
  return {static_cast<double>(bytes) / median(time_copies(bytes, 9, threads)),
          2.0 * static_cast<double>(n * n * n) / median(products)};
}

}  // namespace bench
