#include "cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/tile_generate.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "core/random.h"
#include "cpu/tile_parts-inl.h"

// Tiles made from nothing: a repeated number, an index ramp, random numbers.
HWY_BEFORE_NAMESPACE();
namespace ebb::cpu::HWY_NAMESPACE {
namespace {

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

HWY_INLINE void set_uniform(float* dst, std::uint32_t word) { *dst = static_cast<float>(word >> 8) * 0x1p-24f; }
HWY_INLINE void set_uniform(double* dst, std::uint32_t word) { *dst = static_cast<double>(word) * 0x1p-32; }

template <class T>
void uniform(void* dst, std::uint64_t seed, std::uint64_t operation, std::int64_t first, std::size_t n) {
  T* d = static_cast<T*>(dst);
  const std::uint64_t start = static_cast<std::uint64_t>(first);
  std::uint32_t words[4];
  for (std::size_t i = 0; i < n;) {
    const std::uint64_t e = start + i;
    philox_block(seed, operation, e / 4, words);
    for (std::uint64_t w = e % 4; w < 4 && i < n; ++w, ++i) set_uniform(d + i, words[w]);
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
