// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

// The same results made by hand: what a formula is held against.
namespace bench {

// mean of −α·(1 − p_t)²·log p_t with p_t = sigmoid(±x), and its gradient (left out where grad is null); all threads.
float focal_by_hand(const float* x, const float* y, std::int64_t n, float alpha, float* grad);

// OpenBLAS with its own threads: c[n, n] = a·b.
void gemm_by_blas(const float* a, const float* b, float* c, std::int64_t n, int threads);

// Seconds of copies that read bytes/2 and write bytes/2 with plain memcpy, one for each sample.
std::vector<double> time_copies(std::size_t bytes, int samples, int threads);
// Multiplications and additions in registers, as many in all for any number of threads.
std::vector<double> time_arithmetic(int samples, int threads);

struct Floors {
  double copy_bytes_per_second;  // bytes read and bytes written
  double gemm_flops_per_second;  // f32, 1024³
};
Floors measure_floors(int threads);

}  // namespace bench
