// SPDX-License-Identifier: MIT
// argmax, argmin and argsort compare keys: unsigned integers in the order of the elements, so that NaN, -0 and the half
// formats need no special comparisons.
#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "calls/order.h"
#include "core/buffer.h"
#include "core/format_error.h"
#include "core/parallel.h"
#include "cpu/library/lines.h"
#include "cpu/library/ops.h"
#include "cpu/library/order_keys.h"
#include "cpu/tile/elements.h"
#include "ebb/memory.h"

namespace ebb::cpu {
namespace {

// Where the first element of a dense line is that equals `best`, NaN if that is what it is; one of them does.
template <class T>
std::int64_t first_like(const T* x, std::int64_t n, T best) {
  using K = Key<T>;
  constexpr std::int64_t kTogether = 64;  // compared without a branch
  const auto find = [&](auto is_like) {
    std::int64_t at = 0;
    for (; at + kTogether <= n; at += kTogether) {
      bool any = false;
      for (std::int64_t k = 0; k < kTogether; ++k) any |= is_like(std::bit_cast<K>(x[at + k]));
      if (any) break;
    }
    while (at < n - 1 && !is_like(std::bit_cast<K>(x[at]))) ++at;
    return at;
  };
  const K wanted = std::bit_cast<K>(best);
  if constexpr (is_float_type<T>) {
    constexpr K kMagnitude = static_cast<K>(static_cast<K>(~K(0)) >> 1), kInfinity = infinity_bits<T>();
    const K size = static_cast<K>(wanted & kMagnitude);
    if (size > kInfinity) return find([](K x) { return static_cast<K>(x & kMagnitude) > kInfinity; });
    if (size == 0) return find([](K x) { return static_cast<K>(x & kMagnitude) == 0; });  // of either sign
  }
  return find([wanted](K x) { return x == wanted; });
}

constexpr std::int64_t kFewElements = 16;  // finding their extreme by a loop of reductions would take longer

// The first winner of a dense line of a few elements.
template <bool kLargest, class T>
std::int64_t first_winner_of_few(const T* x, std::int64_t n) {
  Key<T> best = winning_key<kLargest>(x[0]);
  std::int64_t at = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    const Key<T> key = winning_key<kLargest>(x[i]);
    at = key > best ? i : at;
    best = std::max(best, key);
  }
  return at;
}

template <class T>
using WideNumber = std::conditional_t<is_float_type<T>, double, std::int64_t>;  // holds every T

// By the loops of reductions, which do not read single bytes: compilers have instructions for those.
template <bool kLargest, class T>
WideNumber<T> extreme_of(const T* x, std::int64_t n) {
  if constexpr (sizeof(T) == 1) {
    T most = x[0];
    for (std::int64_t i = 1; i < n; ++i) most = kLargest ? std::max(most, x[i]) : std::min(most, x[i]);
    return most;
  } else {
    using Limits = std::numeric_limits<WideNumber<T>>;
    constexpr DType kType = dtype_of_type<T>::value;
    static const ReduceFn extreme = tile_kernels().reduce(kLargest ? Op::max : Op::min, reg_type(kType), kType);
    constexpr auto kHighest = Limits::has_infinity ? Limits::infinity() : Limits::max();
    constexpr auto kLowest = Limits::has_infinity ? -Limits::infinity() : Limits::min();
    WideNumber<T> most = kLargest ? kLowest : kHighest;
    extreme(&most, x, 1, static_cast<std::size_t>(n));
    return most;
  }
}

// The same for longer lines: extremes of blocks, then a search in the best block.
template <bool kLargest, class T>
std::int64_t first_winner(const T* x, std::int64_t n) {
  constexpr std::int64_t kBlock = 4096;
  using Wide = WideNumber<T>;
  const auto beats = [](Wide a, Wide b) { return (kLargest ? a > b : a < b) || (a != a && b == b); };
  Wide best = 0;
  std::int64_t block = -1;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const Wide most = extreme_of<kLargest>(x + begin, std::min(kBlock, n - begin));
    if (block >= 0 && !beats(most, best)) continue;
    best = most;
    block = begin;
  }
  T value;
  if constexpr (std::is_same_v<T, Half>) {
    value = half_from(static_cast<float>(best));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    value = bfloat16_from(static_cast<float>(best));
  } else {
    value = static_cast<T>(best);
  }
  return block + first_like(x + block, std::min(kBlock, n - block), value);
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
        const bool few = lines.length() <= kFewElements;
        for (std::int64_t l = 0; few && l < block.count; ++l)
          out[block.offset[0][l]] = first_winner_of_few<kLargest>(data + block.offset[1][l], lines.length());
        for (std::int64_t l = 0; !few && l < block.count; ++l)
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

// Radix sort from the key's lowest digit. Every pass keeps the order of equal digits, so equal keys stay in the order
// of their positions, and there is no comparison to mispredict.
template <int kBits, class R>
void sort_by_digits(R* records, R* other, std::int64_t n, std::size_t key_bytes) {
  constexpr std::size_t kKeyBits = std::is_same_v<R, WideRecord> ? 64 : 32, kDigits = (kKeyBits + kBits - 1) / kBits,
                        kValues = std::size_t{1} << kBits;
  const std::size_t digits = (8 * key_bytes + kBits - 1) / kBits;
  std::uint32_t counts[kDigits][kValues] = {};
  const auto digit = [](const R& r, std::size_t k) { return key_of(r) >> (kBits * k) & (kValues - 1); };
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < digits; ++k) ++counts[k][digit(records[i], k)];
  }
  R *from = records, *to = other;
  for (std::size_t k = 0; k < digits; ++k) {
    if (counts[k][digit(from[0], k)] == n) continue;  // all the same
    std::uint32_t at = 0;
    for (std::uint32_t& count : counts[k]) at += std::exchange(count, at);
    for (std::int64_t i = 0; i < n; ++i) to[counts[k][digit(from[i], k)]++] = from[i];
    std::swap(from, to);
  }
  if (from != records) std::copy(from, from + n, records);
}

// Sorts n records, given in the order of their positions; `other` is room for as many.
template <class R>
void sort_records(R* records, R* other, std::int64_t n, std::size_t key_bytes) {
  // Fewer than these are compared: counting has a fixed cost, which grows with the number of digits.
  const std::int64_t few = key_bytes <= 4 ? 160 : 1024, many = 8192, most = std::int64_t{1} << 32;
  if (n <= kFewRecords) return sort_few(records, n);
  if (n < few || n >= most) return std::sort(records, records + n);
  if (n < many || key_bytes <= 2) return sort_by_digits<8>(records, other, n, key_bytes);
  sort_by_digits<11>(records, other, n, key_bytes);
}

constexpr std::int64_t kLongLine = 65536;

// Sorts runs separately, then merges them two by two.
template <class R>
void sort_long(R*& records, R*& other, std::int64_t n, std::size_t key_bytes) {
  std::int64_t run = std::max<std::int64_t>(kLongLine / 2, (n + 63) / 64);
  parallel_for((n + run - 1) / run, [&](std::int64_t i) {
    const std::int64_t begin = i * run;
    sort_records(records + begin, other + begin, std::min(run, n - begin), key_bytes);
  });
  for (; run < n; run *= 2) {
    parallel_for((n + 2 * run - 1) / (2 * run), [&](std::int64_t i) {
      const R* from = records;
      const std::int64_t begin = i * 2 * run, middle = std::min(n, begin + run), end = std::min(n, begin + 2 * run);
      std::merge(from + begin, from + middle, from + middle, from + end, other + begin);
    });
    std::swap(records, other);
  }
}

// Room for two copies of a line's records, shared by the lines of a block. From the pool: fresh memory would be
// cleared.
class Room {
 public:
  template <class R>
  R* of(int which, std::int64_t n) {
    const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(R);
    if (bytes > bytes_[which]) memory_[which] = BufferPtr::allocate(bytes, "argsort"), bytes_[which] = bytes;
    return reinterpret_cast<R*>(memory_[which].data());
  }

 private:
  BufferPtr memory_[2];
  std::size_t bytes_[2] = {};
};

// A line divided among threads if it is long and there are several: merging takes longer than sorting all of it.
template <class R>
void sort_alone(R*& records, R*& other, std::int64_t n, std::size_t key_bytes, bool alone) {
  if (n > kLongLine && alone && num_threads() > 1) return sort_long(records, other, n, key_bytes);
  sort_records(records, other, n, key_bytes);
}

// The order of n keys, none of which is below `least`. Single lines are divided among threads if they are long.
template <class R, class K>
void sort_line(const K* keys, std::int64_t n, K least, std::size_t key_bytes, bool alone, Room& room,
               std::int64_t* places) {
  R *records = room.of<R>(0, n), *other = room.of<R>(1, n);
  for (std::int64_t i = 0; i < n; ++i) records[i] = make_record<R>(static_cast<K>(keys[i] - least), i);
  sort_alone(records, other, n, key_bytes, alone);
  for (std::int64_t i = 0; i < n; ++i) places[i] = position_of(records[i]);
}

// The order of n keys of more than 32 bits less `least`: by the upper 32, then runs that agree in these by all. Records
// of 8 bytes and three passes over them instead of 16 and six.
template <class K>
void sort_by_upper_bits(const K* keys, std::int64_t n, K least, int bits, bool alone, Room& room,
                        std::int64_t* places) {
  using R = std::uint64_t;
  constexpr std::int64_t kShortRun = 64;
  R *records = room.of<R>(0, n), *other = room.of<R>(1, n);
  for (std::int64_t i = 0; i < n; ++i) records[i] = make_record<R>(static_cast<K>(keys[i] - least) >> (bits - 32), i);
  sort_alone(records, other, n, 4, alone);
  for (std::int64_t i = 0; i < n; ++i) places[i] = position_of(records[i]);
  const auto upper = [&](std::int64_t i) { return key_of(records[i]); };
  for (std::int64_t first = 0, last = 1; first < n; first = last++) {
    while (last < n && upper(last) == upper(first)) ++last;
    const std::int64_t count = last - first;
    if (count == 1) continue;
    if (count <= kShortRun) {
      std::sort(places + first, places + last,
                [&](std::int64_t a, std::int64_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
      continue;
    }
    // Their range has at most 32 bits.
    std::vector<K> some(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) some[static_cast<std::size_t>(i)] = keys[places[first + i]];
    const std::vector<std::int64_t> from(places + first, places + last);
    Room inner;
    sort_line<R>(some.data(), count, *std::min_element(some.begin(), some.end()), 4, false, inner, places + first);
    for (std::int64_t i = first; i < last; ++i) places[i] = from[static_cast<std::size_t>(places[i])];
  }
}

// Keys of 64 bits in a narrow range, such as counts and row numbers, are sorted like 32-bit keys.
template <class R, class K>
void sort_narrow_line(const K* keys, std::int64_t n, std::size_t key_bytes, bool alone, Room& room,
                      std::int64_t* places) {
  if constexpr (sizeof(K) == 8) {
    const auto [low, high] = std::minmax_element(keys, keys + n);
    const int bits = std::bit_width(*high - *low);
    if (bits <= 32 && n <= std::int64_t{1} << 32)
      return sort_line<std::uint64_t>(keys, n, *low, static_cast<std::size_t>(bits + 7) / 8, alone, room, places);
    constexpr std::int64_t kWorthIt = 160;  // records of 8 bytes are sorted by digits from here on
    if (n >= kWorthIt && n <= std::int64_t{1} << 32)
      return sort_by_upper_bits(keys, n, *low, bits, alone, room, places);
  }
  sort_line<R>(keys, n, K(0), key_bytes, alone, room, places);
}

template <class T, class R>
void argsort_lines(const View& x, int axis, bool descending, std::int64_t* out) {
  const Strides out_strides = contiguous_strides(x.shape);
  const Lines<2> lines(x.shape, axis, {out_strides, x.strides});
  const std::int64_t n = lines.length(), step = x.strides[axis], out_step = out_strides[axis];
  const T* data = static_cast<const T*>(x.data);
  const bool alone = lines.lines() < 16 || std::is_same_v<R, WideRecord>;  // many lines keep every thread busy anyway
  const std::int64_t at_once = lines.axis_is_innermost() ? 1 : kLinesAtOnce;
  const auto length = static_cast<std::size_t>(n), together = static_cast<std::size_t>(at_once);
  lines.for_each_block([&](const Lines<2>::Block& block) {
    if (n <= kFewRecords) {
      R few[kFewRecords];
      for (std::int64_t l = 0; l < block.count; ++l) {
        read_few(data + block.offset[1][l], n, step, descending, few);
        sort_few(few, n);
        for (std::int64_t i = 0; i < n; ++i) out[block.offset[0][l] + i * out_step] = position_of(few[i]);
      }
      return;
    }
    const BufferPtr keys_memory = BufferPtr::allocate(together * length * sizeof(Key<T>), "argsort");
    const BufferPtr places_memory = BufferPtr::allocate(together * length * sizeof(std::int64_t), "argsort");
    auto* const keys = reinterpret_cast<Key<T>*>(keys_memory.data());
    auto* const places = reinterpret_cast<std::int64_t*>(places_memory.data());
    Room room;
    for (std::int64_t l = 0; l < block.count; l += at_once) {
      const std::int64_t count = std::min(at_once, block.count - l);
      read_keys(data, block.offset[1] + l, count, n, step, descending, keys);
      if (at_once == 1 && out_step == 1) {
        sort_narrow_line<R>(keys, n, sizeof(T), alone, room, out + block.offset[0][l]);
        continue;
      }
      for (std::int64_t k = 0; k < count; ++k)
        sort_narrow_line<R>(keys + k * n, n, sizeof(T), alone, room, places + k * n);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t k = 0; k < count; ++k) out[block.offset[0][l + k] + i * out_step] = places[k * n + i];
      }
    }
  });
}

// Copies the elements in the order found.
template <class T>
void take_in_order(const View& x, int axis, const std::int64_t* order, T* out) {
  const Strides strides = contiguous_strides(x.shape);
  const Lines<2> lines(x.shape, axis, {strides, x.strides});
  const std::int64_t n = lines.length(), step = x.strides[axis], out_step = strides[axis];
  const T* data = static_cast<const T*>(x.data);
  lines.for_each_block([&](const Lines<2>::Block& block) {
    const std::int64_t* const to = block.offset[0];
    const std::int64_t* const from = block.offset[1];
    if (lines.axis_is_innermost()) {
      for (std::int64_t l = 0; l < block.count; ++l) {
        for (std::int64_t i = 0; i < n; ++i) out[to[l] + i] = data[from[l] + order[to[l] + i] * step];
      }
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t l = 0; l < block.count; ++l) {
        const std::int64_t at = to[l] + i * out_step;
        out[at] = data[from[l] + order[at] * step];
      }
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
  const auto& o = options_as<ArgsortCall>(call.attrs);
  if (o.count) return argsort_range(x, axis, o.descending, o.first, o.count, out);
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_record_type<T>(x.shape[axis], [&](auto record) {
      argsort_lines<T, typename decltype(record)::type>(x, axis, o.descending, out);
    });
    if (o.values) take_in_order(x, axis, out, static_cast<T*>(call.outputs[1].data));
  });
}

}  // namespace ebb::cpu
