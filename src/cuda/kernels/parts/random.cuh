// SPDX-License-Identifier: MIT
// Random numbers.
#pragma once
#include "cuda/kernels/parts/arithmetic.cuh"

namespace ebb::cuda {

// Philox 4x32-10. The key is the seed, the counter the block and the operation.
struct RandomBlock {
  u32 w[4];
};
EBB RandomBlock random_block(u64 seed, u64 operation, u64 block) {
  u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = (u32)operation, c3 = (u32)(operation >> 32);
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
    c1 = (u32)p1;
    c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c3 = (u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
// Number `at` is word `at` % 4 of block `at` / 4.
EBB u32 random_word(u64 seed, u64 operation, u64 at) {
  const RandomBlock b = random_block(seed, operation, at >> 2);
  const u32 which = (u32)at & 3;
  return which == 0 ? b.w[0] : which == 1 ? b.w[1] : which == 2 ? b.w[2] : b.w[3];
}

template <class A>
EBB A uniform_of(u32 word) {
  return sizeof(A) == 8 ? (A)(word * 2.3283064365386962890625e-10) : (A)((f32)(word >> 8) * 5.9604644775390625e-8f);
}
EBB f32 uniform_f32(u64 seed, u64 operation, u64 at) { return uniform_of<f32>(random_word(seed, operation, at)); }
EBB f64 uniform_f64(u64 seed, u64 operation, u64 at) { return uniform_of<f64>(random_word(seed, operation, at)); }

// Neighbours: each block is made once, and one more only where they do not begin with one.
template <int kWidth>
struct RandomPack {
  u32 w[kWidth];
  template <class A>
  __device__ __forceinline__ A at(int j) const {
    return uniform_of<A>(w[j]);
  }
};
template <int kWidth>
EBB RandomPack<kWidth> random_pack(u64 seed, u64 operation, u64 first) {
  constexpr int kBlocks = (kWidth + 3) / 4;
  const int shift = (int)first & 3;
  u32 words[4 * kBlocks + 4];
#pragma unroll
  for (int b = 0; b <= kBlocks; ++b) {
    RandomBlock block = {{0, 0, 0, 0}};
    if (b < kBlocks || shift != 0) block = random_block(seed, operation, (first >> 2) + b);
#pragma unroll
    for (int k = 0; k < 4; ++k) words[4 * b + k] = block.w[k];
  }
  RandomPack<kWidth> pack;
#pragma unroll
  for (int j = 0; j < kWidth; ++j)
    pack.w[j] = shift == 0 ? words[j] : shift == 1 ? words[j + 1] : shift == 2 ? words[j + 2] : words[j + 3];
  return pack;
}

}  // namespace ebb::cuda
