// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

#include "backend/call.h"
#include "cpu/tile/elements.h"

// Elements as unsigned integers in the same order, so that NaN, -0 and the half formats need no special comparisons.
namespace ebb::cpu {

template <class T>
struct KeyType {
  using type = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                                     std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
};
template <class T>
using Key = typename KeyType<T>::type;

template <class T>
inline constexpr bool is_float_type = std::is_floating_point_v<T> || is_half_type<T>;

// The bits of +infinity, beyond which (sign removed) lie the NaNs.
template <class T>
constexpr Key<T> infinity_bits() {
  if constexpr (std::is_same_v<T, double>) return 0x7FF0'0000'0000'0000u;
  if constexpr (std::is_same_v<T, float>) return 0x7F80'0000u;
  if constexpr (std::is_same_v<T, Half>) return 0x7C00u;
  return static_cast<Key<T>>(0x7F80u);
}

// Increases with the element; -0 and +0 are equal; all NaNs are equal and above all numbers, as PyTorch sorts.
template <class T>
Key<T> rising_key(T x) {
  using K = Key<T>;
  const K bits = std::bit_cast<K>(x);
  if constexpr (is_float_type<T>) {
    constexpr K kSign = static_cast<K>(K(1) << (8 * sizeof(K) - 1));
    const K magnitude = static_cast<K>(bits & static_cast<K>(~kSign));
    const K negative = static_cast<K>(magnitude ? K(0) - static_cast<K>(bits >> (8 * sizeof(K) - 1)) : K(0));
    const K key = static_cast<K>((magnitude | kSign) ^ negative);  // above 0: sign bit set; below: all bits inverted
    return magnitude > infinity_bits<T>() ? static_cast<K>(~K(0)) : key;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<K>(bits ^ static_cast<K>(K(1) << (8 * sizeof(K) - 1)));
  } else {
    return bits;
  }
}

// A key whose maximum is the largest, or the smallest, element. NaN wins both.
template <bool kLargest, class T>
Key<T> winning_key(T x) {
  using K = Key<T>;
  const K key = rising_key(x), all = static_cast<K>(~K(0));
  if constexpr (kLargest) {
    return key;
  } else if constexpr (is_float_type<T>) {
    return key == all ? all : static_cast<K>(~key);
  } else {
    return static_cast<K>(~key);
  }
}

// A key and its position. No two are equal, so any sort is stable and every division of the work agrees.
struct WideRecord {
  std::uint64_t key;
  std::int64_t position;
  bool operator<(const WideRecord& o) const { return key != o.key ? key < o.key : position < o.position; }
};
inline std::int64_t position_of(const WideRecord& r) { return r.position; }
inline std::int64_t position_of(std::uint64_t r) { return static_cast<std::int64_t>(r & 0xFFFF'FFFFu); }
inline std::uint64_t key_of(const WideRecord& r) { return r.key; }
inline std::uint64_t key_of(std::uint64_t r) { return r >> 32; }
// Records of a line of n elements of type T.
template <class T, class F>
void with_record_type(std::int64_t n, F&& f) {
  if constexpr (sizeof(T) <= 4) {
    if (n <= std::int64_t{1} << 32) return f(Type<std::uint64_t>{});
  }
  f(Type<WideRecord>{});
}

template <class R>
R make_record(std::uint64_t key, std::int64_t position) {
  if constexpr (std::is_same_v<R, WideRecord>) {
    return {key, position};
  } else {
    return key << 32 | static_cast<std::uint64_t>(position);
  }
}

// A few records are sorted in place: a call of std::sort would take longer.
template <class R>
void sort_few(R* records, std::int64_t n) {
  for (std::int64_t i = 1; i < n; ++i) {
    const R r = records[i];
    std::int64_t k = i;
    for (; k > 0 && r < records[k - 1]; --k) records[k] = records[k - 1];
    records[k] = r;
  }
}
inline constexpr std::int64_t kFewRecords = 16;

// Lines whose neighbours in memory belong to other lines are read this many at a time: a cache line of f32.
inline constexpr std::int64_t kLinesAtOnce = 16;

// The keys of `count` lines of n elements, each dense. Descending: reversed.
template <class T>
void read_keys(const T* data, const std::int64_t* offsets, std::int64_t count, std::int64_t n, std::int64_t step,
               bool descending, Key<T>* keys) {
  const auto turn = static_cast<Key<T>>(descending ? ~Key<T>(0) : Key<T>(0));
  const auto key = [turn](T x) { return static_cast<Key<T>>(rising_key(x) ^ turn); };
  if (step == 1) {
    for (std::int64_t l = 0; l < count; ++l) {
      const T* line = data + offsets[l];
      for (std::int64_t i = 0; i < n; ++i) keys[l * n + i] = key(line[i]);
    }
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t l = 0; l < count; ++l) keys[l * n + i] = key(data[offsets[l] + i * step]);
  }
}

// The records of a short line.
template <class T, class R>
void read_few(const T* line, std::int64_t n, std::int64_t step, bool descending, R* records) {
  const auto turn = static_cast<Key<T>>(descending ? ~Key<T>(0) : Key<T>(0));
  for (std::int64_t i = 0; i < n; ++i)
    records[i] = make_record<R>(static_cast<Key<T>>(rising_key(line[i * step]) ^ turn), i);
}

// Positions [first, first + count) of argsort, in select.cc: all that topk, median and quantile need.
void argsort_range(const View& x, int axis, bool descending, std::int64_t first, std::int64_t count, std::int64_t* out);

}  // namespace ebb::cpu
