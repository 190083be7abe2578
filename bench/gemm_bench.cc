// SPDX-License-Identifier: MIT
// Ebb's products beside OpenBLAS with the same number of threads, in one process and turn by turn; then products of
// bf16 by the processor's instructions for them beside the way through f32. Prints the best times' rates and their
// ratio. With one thread (the default) its processor time counts, so that a busy machine does not.
//   bench_gemm [threads]
#include <cblas.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "cpu/gemm/bf16.h"
#include "core/blas.h"
#include "cpu/library.h"
#include "ebb/memory.h"

namespace {

double now(int threads) {
  std::timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Case {
  const char* what;
  std::int64_t m, n, k;
  bool a_transposed, b_transposed;
};

std::vector<float> random_floats(std::int64_t n) {
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> numbers(-1, 1);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = numbers(rng);
  return v;
}

template <class T>
ebb::View view(std::vector<T>& data, std::int64_t rows, std::int64_t cols, bool transposed) {
  ebb::Strides strides;
  strides[0] = transposed ? 1 : cols;
  strides[1] = transposed ? rows : 1;
  return {data.data(), ebb::dtype_of_type<T>::value, {rows, cols}, strides};
}

double flops_of(const Case& c) { return 2.0 * static_cast<double>(c.m * c.n) * static_cast<double>(c.k); }
int repeats_of(const Case& c) { return std::clamp(static_cast<int>(4e10 / flops_of(c)), 5, 2000); }

void compare(const Case& c, int threads) {
  std::vector<float> a = random_floats(c.m * c.k), b = random_floats(c.k * c.n);
  std::vector<float> out(static_cast<std::size_t>(c.m * c.n));
  const ebb::View inputs[] = {view(a, c.m, c.k, c.a_transposed), view(b, c.k, c.n, c.b_transposed)};
  const ebb::View output = view(out, c.m, c.n, false);
  const auto plain = [&] {
    cblas_sgemm(CblasRowMajor, c.a_transposed ? CblasTrans : CblasNoTrans, c.b_transposed ? CblasTrans : CblasNoTrans,
                static_cast<int>(c.m), static_cast<int>(c.n), static_cast<int>(c.k), 1.0f, a.data(),
                static_cast<int>(c.a_transposed ? c.m : c.k), b.data(), static_cast<int>(c.b_transposed ? c.k : c.n),
                0.0f, out.data(), static_cast<int>(c.n));
  };
  const auto ours = [&] { ebb::cpu::run_library({ebb::Op::matmul, {}, nullptr, inputs, {&output, 1}}); };
  const double flops = flops_of(c);
  const int repeats = repeats_of(c);
  double best_plain = 1e30, best_ours = 1e30;
  for (int i = 0; i < repeats; ++i) {
    openblas_set_num_threads(threads);
    double start = now(threads);
    plain();
    best_plain = std::min(best_plain, now(threads) - start);
    openblas_set_num_threads(1);
    start = now(threads);
    ours();
    best_ours = std::min(best_ours, now(threads) - start);
  }
  std::printf("%-34s OpenBLAS %8.1f GFLOP/s   Ebb %8.1f GFLOP/s   ratio %.3f\n", c.what, flops / best_plain / 1e9,
              flops / best_ours / 1e9, best_plain / best_ours);
}

// bf16 factors and a bf16 result.
void compare_bf16(const Case& c, int threads) {
  const auto halves = [](std::int64_t n) {
    std::vector<ebb::BFloat16> v;
    for (float x : random_floats(n)) v.push_back(ebb::bfloat16_from(x));
    return v;
  };
  std::vector<ebb::BFloat16> a = halves(c.m * c.k), b = halves(c.k * c.n), out(static_cast<std::size_t>(c.m * c.n));
  const ebb::View inputs[] = {view(a, c.m, c.k, c.a_transposed), view(b, c.k, c.n, c.b_transposed)};
  const ebb::View output = view(out, c.m, c.n, false);
  double best[2] = {1e30, 1e30};
  for (int i = 0; i < repeats_of(c); ++i) {
    for (const bool instructions : {false, true}) {
      ebb::cpu::allow_gemm_bf16_tiles(instructions);
      const double start = now(threads);
      ebb::cpu::run_library({ebb::Op::matmul, {}, nullptr, inputs, {&output, 1}});
      best[instructions] = std::min(best[instructions], now(threads) - start);
    }
  }
  std::printf("%-34s bf16: in f32 %8.1f GFLOP/s   by instructions %8.1f GFLOP/s   ratio %.3f\n", c.what,
              flops_of(c) / best[0] / 1e9, flops_of(c) / best[1] / 1e9, best[0] / best[1]);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  ebb::set_num_threads(threads);
  ebb::keep_blas_serial();
  std::printf("%d threads\n", threads);
  const Case cases[] = {
      {"[1024,1024]x[1024,1024]", 1024, 1024, 1024, false, false},
      {"[1024,1024]x[1024,1024]^T", 1024, 1024, 1024, false, true},
      {"[1024,1024]^Tx[1024,1024]", 1024, 1024, 1024, true, false},
      {"[512,512]x[512,512]", 512, 512, 512, false, false},
      {"[256,256]x[256,256]", 256, 256, 256, false, false},
      {"[128,128]x[128,128]", 128, 128, 128, false, false},
      {"[64,64]x[64,64]", 64, 64, 64, false, false},
      {"[16,16]x[16,16]", 16, 16, 16, false, false},
      {"[128,784]x[784,1024]", 128, 1024, 784, false, false},
      {"[128,784]x[1024,784]^T", 128, 1024, 784, false, true},
      {"[1024,128]x[128,1024]", 1024, 1024, 128, false, false},
      {"[128,1024]^Tx[128,1024]", 1024, 1024, 128, true, false},
      {"[128,784]^Tx[128,1024]", 784, 1024, 128, true, false},
      {"[128,1024]x[1024,10]", 128, 10, 1024, false, false},
      {"[10,60000]x[60000,16]", 10, 16, 60000, false, false},
      {"[1,4096]x[4096,4096]", 1, 4096, 4096, false, false},
      {"[1,4096]x[4096,4096]^T", 1, 4096, 4096, false, true},
      {"[4096,4096]x[4096,1]", 4096, 1, 4096, false, false},
      {"[8,1024]x[1024,1024]", 8, 1024, 1024, false, false},
      {"[8,1024]x[1024,1024]^T", 8, 1024, 1024, false, true},
      {"[1,1000000]x[1000000,1]", 1, 1, 1000000, false, false},
      {"[1,70000]x[70000,3]", 1, 3, 70000, false, false},
      {"[256,64]x[256,64]^T", 256, 256, 64, false, true},
      {"[256,256]x[256,64]", 256, 64, 256, false, false},
      {"[1024,256]x[256,32000]", 1024, 32000, 256, false, false},
      {"[2048,512]x[512,32000]", 2048, 32000, 512, false, false},
      {"[2048,512]x[32000,512]^T", 2048, 32000, 512, false, true},
  };
  for (const Case& c : cases) compare(c, threads);
  if (!ebb::cpu::gemm_bf16_tiles()) return 0;
  for (const Case& c : cases) compare_bf16(c, threads);
}
