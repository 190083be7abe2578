// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile/generate.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <cstring>

#include "core/random.h"
#include "cpu/tile/parts-inl.h"

// Tiles generated without memory: a repeated number, an index ramp, random numbers.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void fill(void* dst, const void* value, std::size_t n) {
  T* d = static_cast<T*>(dst);
  const T v = *static_cast<const T*>(value);
  for (std::size_t i = 0; i < n; ++i) d[i] = v;
}

// Wraps like every integer operation; floats round the exact integer once.
template <class T>
void iota(void* dst, std::int64_t start, std::int64_t step, std::int64_t first, std::size_t n) {
  T* d = static_cast<T*>(dst);
  const std::uint64_t base =
      static_cast<std::uint64_t>(start) + static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(first);
  for (std::size_t i = 0; i < n; ++i)
    d[i] = static_cast<T>(static_cast<std::int64_t>(base + static_cast<std::uint64_t>(step) * i));
}

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011) on blocks first, first + 1, ...: the same as philox_block of
// core/random.h. A 64-bit lane holds one word of a block; only its lower half counts until the end.
constexpr std::size_t kBatch = 32;
void philox_batch(std::uint64_t* HWY_RESTRICT pairs, std::uint64_t seed, std::uint64_t operation, std::uint64_t first) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t b = 0; b < kBatch; ++b) {
    std::uint32_t words[4];
    philox_block(seed, operation, first + b, words);
    pairs[2 * b] = words[0] | std::uint64_t{words[1]} << 32;
    pairs[2 * b + 1] = words[2] | std::uint64_t{words[3]} << 32;
  }
#else
  const hn::ScalableTag<std::uint64_t> d;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  using V = hn::Vec<decltype(d)>;
  constexpr std::size_t kVectors = 4;
  const std::size_t lanes = hn::Lanes(d);
  static_assert(kBatch % (kVectors * hn::MaxLanes(d)) == 0);
  const auto factor0 = hn::Set(d32, 0xD2511F53u), factor1 = hn::Set(d32, 0xCD9E8D57u);
  const V low_half = hn::Set(d, 0xffffffffu);
  for (std::size_t b = 0; b < kBatch; b += kVectors * lanes) {
    V c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
    for (std::size_t k = 0; k < kVectors; ++k) {
      c0[k] = hn::Iota(d, first + b + k * lanes);
      c1[k] = hn::ShiftRight<32>(c0[k]);
      c2[k] = hn::Set(d, operation);
      c3[k] = hn::Set(d, operation >> 32);
    }
    std::uint32_t key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) {
      const V k0 = hn::Set(d, key0), k1 = hn::Set(d, key1);
      for (std::size_t k = 0; k < kVectors; ++k) {
        const V p0 = hn::MulEven(hn::BitCast(d32, c0[k]), factor0), p1 = hn::MulEven(hn::BitCast(d32, c2[k]), factor1);
        c0[k] = hn::Xor(hn::ShiftRight<32>(p1), hn::Xor(c1[k], k0));
        c2[k] = hn::Xor(hn::ShiftRight<32>(p0), hn::Xor(c3[k], k1));
        c1[k] = p1;
        c3[k] = p0;
      }
    }
    for (std::size_t k = 0; k < kVectors; ++k) {
      const V first_pair = hn::Or(hn::And(c0[k], low_half), hn::ShiftLeft<32>(c1[k]));
      const V second_pair = hn::Or(hn::And(c2[k], low_half), hn::ShiftLeft<32>(c3[k]));
      hn::StoreInterleaved2(first_pair, second_pair, d, pairs + 2 * (b + k * lanes));
    }
  }
#endif
}

HWY_INLINE void set_uniform(float* dst, std::uint32_t word) {
  *dst = static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
}
HWY_INLINE void set_uniform(double* dst, std::uint32_t word) { *dst = static_cast<double>(word) * 0x1p-32; }

template <class T>
void uniform(void* dst, std::uint64_t seed, std::uint64_t operation, std::int64_t first, std::size_t n) {
  T* d = static_cast<T*>(dst);
  std::uint32_t words[4 * kBatch];
  std::uint64_t pairs[2 * kBatch];
  std::uint64_t block = static_cast<std::uint64_t>(first) / 4;
  std::size_t skip = static_cast<std::uint64_t>(first) % 4;
  for (std::size_t i = 0; i < n; block += kBatch, skip = 0) {
    const std::size_t m = n - i < 4 * kBatch - skip ? n - i : 4 * kBatch - skip;
    if (m <= 16) {  // a short end: whole batches would be wasteful
      for (std::size_t b = 0; 4 * b < skip + m; ++b) philox_block(seed, operation, block + b, words + 4 * b);
    } else {
      philox_batch(pairs, seed, operation, block);
      std::memcpy(words, pairs, sizeof(words));  // a pair's lower half is its first word
    }
    for (std::size_t k = 0; k < m; ++k) set_uniform(d + i + k, words[skip + k]);
    i += m;
  }
}

}  // namespace

void fill_tile(RegType type, void* dst, const void* value, std::size_t n) {
  if (size_of(type) == 4) {
    fill<std::uint32_t>(dst, value, n);
  } else {
    fill<std::uint64_t>(dst, value, n);
  }
}

void iota_tile(RegType type, void* dst, std::int64_t start, std::int64_t step, std::int64_t first, std::size_t n) {
  switch (type) {
    case RegType::f32:
      return iota<float>(dst, start, step, first, n);
    case RegType::f64:
      return iota<double>(dst, start, step, first, n);
    case RegType::i32:
      return iota<std::int32_t>(dst, start, step, first, n);
    default:
      return iota<std::int64_t>(dst, start, step, first, n);
  }
}

void uniform_tile(RegType type, void* dst, std::uint64_t seed, std::uint64_t operation, std::int64_t first,
                  std::size_t n) {
  if (type == RegType::f32) {
    uniform<float>(dst, seed, operation, first, n);
  } else {
    uniform<double>(dst, seed, operation, first, n);
  }
}

}  // namespace ebb::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
