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
double best_of(int repeats, Body body) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

void gemm_by_blas(const float* a, const float* b, float* c, std::int64_t n, int threads) {
  const int size = static_cast<int>(n);
  openblas_set_num_threads(threads);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1.0f, a, size, b, size, 0.0f, c, size);
  openblas_set_num_threads(1);
}

Floors measure_floors(int threads) {
  const std::size_t n = std::size_t{1} << 24;
  std::vector<float> from(n, 1.0f), to(n, 0.0f);
  const double copy = best_of(9, [&] {
    std::vector<std::thread> others;
    const std::size_t part = n / static_cast<std::size_t>(threads);
    for (int t = 1; t < threads; ++t) {
      const std::size_t start = part * static_cast<std::size_t>(t);
      others.emplace_back([&, start] { std::memcpy(&to[start], &from[start], part * sizeof(float)); });
    }
    std::memcpy(to.data(), from.data(), part * sizeof(float));
    for (std::thread& t : others) t.join();
  });
  const double gemm = best_of(5, [&] { gemm_by_blas(from.data(), from.data() + (1 << 20), to.data(), 1024, threads); });
  return {2.0 * static_cast<double>(n * sizeof(float)) / copy, 2.0 * 1024 * 1024 * 1024 / gemm};
}

}  // namespace bench
