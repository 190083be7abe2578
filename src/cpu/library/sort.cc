// argmax, argmin and argsort compare keys: unsigned integers in the order of the elements, so that NaN, -0 and the half
// formats need no comparison of their own.
#include <algorithm>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "core/format_error.h"
#include "core/parallel.h"
#include "cpu/library/lines.h"
#include "cpu/library/ops.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {
namespace {

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

// Rising with the element; -0 and +0 equal; every NaN the same and above all numbers, as PyTorch sorts.
template <class T>
Key<T> rising_key(T x) {
  using K = Key<T>;
  const K bits = std::bit_cast<K>(x);
  if constexpr (is_float_type<T>) {
    constexpr K kSign = static_cast<K>(K(1) << (8 * sizeof(K) - 1));
    const K magnitude = static_cast<K>(bits & static_cast<K>(~kSign));
    const K negative = static_cast<K>(magnitude ? K(0) - static_cast<K>(bits >> (8 * sizeof(K) - 1)) : K(0));
    const K key = static_cast<K>((magnitude | kSign) ^ negative);  // above 0: sign bit set; below: all bits turned
    return magnitude > infinity_bits<T>() ? static_cast<K>(~K(0)) : key;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<K>(bits ^ static_cast<K>(K(1) << (8 * sizeof(K) - 1)));
  } else {
    return bits;
  }
}

// The key whose first maximum is the answer: of the largest, or of the smallest element. NaN wins both.
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

// The first winner of a dense line: maxima of blocks (which vectorise), then a search in a block that beats the last.
template <bool kLargest, class T>
std::int64_t first_winner(const T* x, std::int64_t n) {
  constexpr std::int64_t kBlock = 1024;
  Key<T> best = 0;
  std::int64_t at = -1;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock);
    Key<T> most = 0;
    for (std::int64_t i = begin; i < end; ++i) most = std::max(most, winning_key<kLargest>(x[i]));
    if (at >= 0 && most <= best) continue;
    best = most;
    at = begin;
    while (winning_key<kLargest>(x[at]) != best) ++at;
  }
  return at;
}

template <bool kLargest>
void run_arg(const LibraryCall& call) {
  View x = call.inputs[0];
  if (x.shape.rank() == 0) x.shape = Shape{1};
  const int axis = static_cast<int>(call.attrs.i[0]);
  const Shape reduced = x.shape.with(axis, 1);
  const Lines<2> lines(x.shape, axis, {contiguous_strides(reduced), x.strides});
  require(lines.length() > 0 || lines.lines() == 0, "{}: axis {} of {} is empty and has no such element",
          label_of(call), axis, x.shape);
  const std::int64_t step = x.strides[axis];
  auto* out = static_cast<std::int64_t*>(call.outputs[0].data);
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using L = Lines<2>;
    const T* data = static_cast<const T*>(x.data);
    lines.for_each_block([&](const L::Block& block) {
      if (step == 1) {
        for (std::int64_t l = 0; l < block.count; ++l)
          out[block.offset[0][l]] = first_winner<kLargest>(data + block.offset[1][l], lines.length());
        return;
      }
      Key<T> best[L::kMostLines];
      std::int64_t at[L::kMostLines] = {};
      for (std::int64_t l = 0; l < block.count; ++l) best[l] = winning_key<kLargest>(data[block.offset[1][l]]);
      for (std::int64_t i = 1; i < lines.length(); ++i) {
        for (std::int64_t l = 0; l < block.count; ++l) {
          const Key<T> key = winning_key<kLargest>(data[block.offset[1][l] + i * step]);
          at[l] = key > best[l] ? i : at[l];
          best[l] = std::max(best[l], key);
        }
      }
      for (std::int64_t l = 0; l < block.count; ++l) out[block.offset[0][l]] = at[l];
    });
  });
}

// A key and its position. No two are equal, so any sort is a stable one and every way of sharing the work agrees.
struct WideRecord {
  std::uint64_t key;
  std::int64_t position;
  bool operator<(const WideRecord& o) const { return key != o.key ? key < o.key : position < o.position; }
};
inline std::int64_t position_of(const WideRecord& r) { return r.position; }
inline std::int64_t position_of(std::uint64_t r) { return static_cast<std::int64_t>(r & 0xFFFF'FFFFu); }

template <class R>
R make_record(std::uint64_t key, std::int64_t position) {
  if constexpr (std::is_same_v<R, WideRecord>) {
    return {key, position};
  } else {
    return key << 32 | static_cast<std::uint64_t>(position);
  }
}

// Sorts n records, which stand in the order of their positions; `other` is room for as many.
void sort_records(WideRecord* records, WideRecord*, std::int64_t n, std::size_t) { std::sort(records, records + n); }

// Byte by byte from the lowest of the key's up. Every pass keeps the order of equal bytes, so equal keys stay in the
// order of their positions, and there is no comparison whose outcome a processor could guess wrong.
void sort_records(std::uint64_t* records, std::uint64_t* other, std::int64_t n, std::size_t key_bytes) {
  constexpr std::int64_t kFew = 160;  // fewer than these are compared: counting has a price of its own
  if (n < kFew) return std::sort(records, records + n);
  std::uint32_t counts[4][256] = {};
  const auto digit = [](std::uint64_t r, std::size_t byte) { return r >> (32 + 8 * byte) & 0xFF; };
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::size_t byte = 0; byte < key_bytes; ++byte) ++counts[byte][digit(records[i], byte)];
  }
  std::uint64_t *from = records, *to = other;
  for (std::size_t byte = 0; byte < key_bytes; ++byte) {
    if (counts[byte][digit(from[0], byte)] == n) continue;  // all the same
    std::uint32_t at = 0;
    for (std::uint32_t& count : counts[byte]) at += std::exchange(count, at);
    for (std::int64_t i = 0; i < n; ++i) to[counts[byte][digit(from[i], byte)]++] = from[i];
    std::swap(from, to);
  }
  if (from != records) std::copy(from, from + n, records);
}

constexpr std::int64_t kLongLine = 65536;

// Runs sorted side by side, then merged two by two.
template <class R>
void sort_long(std::vector<R>& records, std::vector<R>& other, std::size_t key_bytes) {
  const auto n = static_cast<std::int64_t>(records.size());
  std::int64_t run = std::max<std::int64_t>(kLongLine / 2, (n + 63) / 64);
  parallel_for((n + run - 1) / run, [&](std::int64_t i) {
    const std::int64_t begin = i * run;
    sort_records(records.data() + begin, other.data() + begin, std::min(run, n - begin), key_bytes);
  });
  for (; run < n; run *= 2) {
    parallel_for((n + 2 * run - 1) / (2 * run), [&](std::int64_t i) {
      const R* from = records.data();
      const std::int64_t begin = i * 2 * run, middle = std::min(n, begin + run), end = std::min(n, begin + 2 * run);
      std::merge(from + begin, from + middle, from + middle, from + end, other.data() + begin);
    });
    records.swap(other);
  }
}

template <class T, class R>
void argsort_lines(const View& x, int axis, bool descending, std::int64_t* out) {
  const Strides out_strides = contiguous_strides(x.shape);
  const Lines<2> lines(x.shape, axis, {out_strides, x.strides});
  const std::int64_t n = lines.length(), step = x.strides[axis], out_step = out_strides[axis];
  const T* data = static_cast<const T*>(x.data);
  const auto read = [&](std::vector<R>& records, std::int64_t offset) {
    for (std::int64_t i = 0; i < n; ++i) {
      const Key<T> key = rising_key(data[offset + i * step]);
      records[static_cast<std::size_t>(i)] = make_record<R>(descending ? static_cast<Key<T>>(~key) : key, i);
    }
  };
  const auto write = [&](const std::vector<R>& records, std::int64_t offset) {
    for (std::int64_t i = 0; i < n; ++i) out[offset + i * out_step] = position_of(records[static_cast<std::size_t>(i)]);
  };
  const bool few = lines.lines() < 16 || std::is_same_v<R, WideRecord>;  // many keep every thread busy as they are
  lines.for_each_block([&](const Lines<2>::Block& block) {
    std::vector<R> records(static_cast<std::size_t>(n)), other(records.size());
    for (std::int64_t l = 0; l < block.count; ++l) {
      read(records, block.offset[1][l]);
      if (n > kLongLine && few) {
        sort_long(records, other, sizeof(T));
      } else {
        sort_records(records.data(), other.data(), n, sizeof(T));
      }
      write(records, block.offset[0][l]);
    }
  });
}

}  // namespace

void run_argmax(const LibraryCall& call) { run_arg<true>(call); }
void run_argmin(const LibraryCall& call) { run_arg<false>(call); }

void run_argsort(const LibraryCall& call) {
  View x = call.inputs[0];
  if (x.shape.rank() == 0) x.shape = Shape{1};
  if (x.shape.numel() == 0) return;
  const int axis = static_cast<int>(call.attrs.i[0]);
  auto* out = static_cast<std::int64_t*>(call.outputs[0].data);
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (sizeof(T) <= 4) {
      if (x.shape[axis] <= std::int64_t{1} << 32)
        return argsort_lines<T, std::uint64_t>(x, axis, call.attrs.i[1] != 0, out);
    }
    argsort_lines<T, WideRecord>(x, axis, call.attrs.i[1] != 0, out);
  });
}

}  // namespace ebb::cpu
