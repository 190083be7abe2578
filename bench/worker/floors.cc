#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstring>
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
  std::vector<double> seconds;
  for (int s = 0; s <= samples; ++s) {
    const double taken = seconds_of([&] {
      std::vector<std::thread> others;
      for (int t = 1; t < threads; ++t) {
        const std::size_t start = part * static_cast<std::size_t>(t);
        others.emplace_back([&, start] { std::memcpy(&to[start], &from[start], part); });
      }
      std::memcpy(to.data(), from.data(), part);
      for (std::thread& t : others) t.join();
    });
    if (s > 0) seconds.push_back(taken);  // the first touches fresh pages
  }
  return seconds;
}

std::vector<double> time_arithmetic(int samples, int threads) {
  constexpr std::int64_t kSteps = 4'000'000;
  const auto work = [threads] {
    float x[32];
    for (float& v : x) v = 0.5f;
    for (std::int64_t i = 0; i < kSteps / threads; ++i) {
      for (float& v : x) v = v * 0.999f + 0.001f;
    }
    volatile float result = 0;
    for (float v : x) result = result + v;
  };
  std::vector<double> seconds;
  for (int s = 0; s <= samples; ++s) {
    const double taken = seconds_of([&] {
      std::vector<std::thread> others;
      for (int t = 1; t < threads; ++t) others.emplace_back(work);
      work();
      for (std::thread& t : others) t.join();
    });
    if (s > 0) seconds.push_back(taken);
  }
  return seconds;
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
