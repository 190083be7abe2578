// SPDX-License-Identifier: MIT
// Random numbers.
#pragma once
#include "cuda/kernels/parts/arithmetic.cuh"

namespace ebb::cuda {

// Philox 4x32-10: word `at` % 4 of block `at` / 4. The key is the seed, the counter the block and the operation.
EBB u32 random_word(u64 seed, u64 operation, u64 at) {
  u32 c0 = (u32)(at >> 2), c1 = (u32)(at >> 34), c2 = (u32)operation, c3 = (u32)(operation >> 32);
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
    c1 = (u32)p1;
    c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c3 = (u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const u32 which = (u32)at & 3;
  return which == 0 ? c0 : which == 1 ? c1 : which == 2 ? c2 : c3;
}
EBB f32 uniform_f32(u64 seed, u64 operation, u64 at) {
  return (f32)(random_word(seed, operation, at) >> 8) * 5.9604644775390625e-8f;
}
EBB f64 uniform_f64(u64 seed, u64 operation, u64 at) {
  return random_word(seed, operation, at) * 2.3283064365386962890625e-10;
}

}  // namespace ebb::cuda
