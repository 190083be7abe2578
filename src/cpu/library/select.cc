// SPDX-License-Identifier: MIT
// A range of argsort without the rest of it. Records of keys and positions are all different, so the record at a place
// of the sorted order does not depend on how it is found, nor on how a long line is divided among threads.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "core/parallel.h"
#include "cpu/library/lines.h"
#include "cpu/library/order_keys.h"

namespace ebb::cpu {
namespace {

// The places [first, first + count) of the sorted order, and how a line is divided.
struct Range {
  std::int64_t first, count;
};
constexpr std::int64_t kSelectPiece = 65536;

// Keeps the sorted records of the range, out of candidates of which `before` precede the first.
template <class R>
void cut_out(std::vector<R>& records, const Range& range, std::int64_t before) {
  const auto begin = records.begin() + (range.first - before), end = begin + range.count;
  if (begin != records.begin()) std::nth_element(records.begin(), begin, records.end());
  if (end != records.end()) std::nth_element(begin, end - 1, records.end());
  std::sort(begin, end);
  records.erase(end, records.end());
  records.erase(records.begin(), begin);
}

// The `count` least records of the elements [begin, end), unordered. Blocks without an element below the largest of
// those kept so far, which is most of them, are only scanned for their minimum.
template <class K, class R>
void keep_least(const K* keys, std::int64_t begin, std::int64_t end, std::int64_t count, std::vector<R>& kept) {
  constexpr std::int64_t kBlock = 128;
  const auto wanted = static_cast<std::size_t>(count), room = std::max<std::size_t>(2 * wanted, 512);
  kept.resize(room + kBlock);
  std::size_t size = 0;
  bool limited = false;
  K limit = 0;
  const auto cut = [&] {
    std::nth_element(kept.begin(), kept.begin() + count - 1, kept.begin() + static_cast<std::ptrdiff_t>(size));
    size = wanted;
    limit = static_cast<K>(key_of(kept[wanted - 1]));
    limited = true;
  };
  for (std::int64_t first = begin; first < end; first += kBlock) {
    const std::int64_t last = std::min(end, first + kBlock);
    if (limited) {
      K least = std::numeric_limits<K>::max();
      for (std::int64_t i = first; i < last; ++i) least = std::min(least, keys[i]);
      if (least >= limit) continue;  // of equal keys the earlier one is kept
    }
    for (std::int64_t i = first; i < last; ++i) {
      kept[size] = make_record<R>(keys[i], i);
      size += !limited || keys[i] < limit;
    }
    if (size >= room) cut();
  }
  if (size > wanted) cut();
  kept.resize(size);
}

// Bins by the keys' highest bits. Those that the range falls into hold few elements, unless many are alike.
template <class K>
struct Bins {
  static constexpr int kBits = std::min<int>(12, 8 * sizeof(K)), kShift = 8 * sizeof(K) - kBits;
  static constexpr std::size_t kCount = std::size_t{1} << kBits;
  std::vector<std::uint32_t> counts = std::vector<std::uint32_t>(kCount);
  static std::size_t of(K key) { return static_cast<std::size_t>(key >> kShift); }
  void add(const K* keys, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) ++counts[of(keys[i])];
  }
};

// All records of the bins that the range falls into; returns the number of elements before them.
template <class K, class R>
std::int64_t collect(const K* keys, std::int64_t n, const Range& range, std::vector<R>& found) {
  const std::int64_t pieces = (n + kSelectPiece - 1) / kSelectPiece;
  const auto length = [&](std::int64_t p) { return std::min(kSelectPiece, n - p * kSelectPiece); };
  std::vector<Bins<K>> bins(static_cast<std::size_t>(pieces));
  parallel_for(pieces,
               [&](std::int64_t p) { bins[static_cast<std::size_t>(p)].add(keys + p * kSelectPiece, length(p)); });
  std::size_t low = 0, high = 0;
  std::int64_t before = 0, seen = 0;
  for (std::size_t bin = 0;; ++bin) {
    std::int64_t here = 0;
    for (const Bins<K>& b : bins) here += b.counts[bin];
    if (seen <= range.first) low = bin, before = seen;
    high = bin;
    seen += here;
    if (seen >= range.first + range.count) break;
  }
  std::vector<std::size_t> start(static_cast<std::size_t>(pieces) + 1);
  for (std::size_t p = 0; p < bins.size(); ++p)
    start[p + 1] = std::accumulate(bins[p].counts.begin() + static_cast<std::ptrdiff_t>(low),
                                   bins[p].counts.begin() + static_cast<std::ptrdiff_t>(high) + 1, start[p]);
  found.resize(start.back());
  parallel_for(pieces, [&](std::int64_t p) {
    R* to = found.data() + start[static_cast<std::size_t>(p)];
    const std::int64_t begin = p * kSelectPiece, end = begin + length(p);
    for (std::int64_t i = begin; i < end; ++i) {
      if (Bins<K>::of(keys[i]) - low <= high - low) *to++ = make_record<R>(keys[i], i);
    }
  });
  return before;
}

// The range of a line, sorted.
template <class K, class R>
void select_range(const K* keys, std::int64_t n, const Range& range, std::vector<R>& found) {
  constexpr std::int64_t kShort = 512;  // not worth bins
  const std::int64_t pieces = (n + kSelectPiece - 1) / kSelectPiece;
  if (range.first == 0 && range.count * pieces * 8 <= n && n > kShort) {
    if (pieces == 1) {
      keep_least(keys, 0, n, range.count, found);
    } else {
      std::vector<std::vector<R>> parts(static_cast<std::size_t>(pieces));
      parallel_for(pieces, [&](std::int64_t p) {
        keep_least(keys, p * kSelectPiece, std::min(n, (p + 1) * kSelectPiece), range.count,
                   parts[static_cast<std::size_t>(p)]);
      });
      found.clear();
      for (const std::vector<R>& part : parts) found.insert(found.end(), part.begin(), part.end());
    }
    return cut_out(found, range, 0);
  }
  if (n > kShort) return cut_out(found, range, collect(keys, n, range, found));
  found.resize(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) found[static_cast<std::size_t>(i)] = make_record<R>(keys[i], i);
  cut_out(found, range, 0);
}

template <class T, class R>
void select_lines(const View& x, int axis, bool descending, const Range& range, std::int64_t* out) {
  const Strides out_strides = contiguous_strides(x.shape.with(axis, range.count));
  const Lines<2> lines(x.shape, axis, {out_strides, x.strides});
  const std::int64_t n = lines.length(), step = x.strides[axis], out_step = out_strides[axis];
  const T* data = static_cast<const T*>(x.data);
  const std::int64_t at_once = lines.axis_is_innermost() ? 1 : kLinesAtOnce;
  lines.for_each_block([&](const Lines<2>::Block& block) {
    if (n <= kFewRecords) {
      R few[kFewRecords];
      for (std::int64_t l = 0; l < block.count; ++l) {
        read_few(data + block.offset[1][l], n, step, descending, few);
        sort_few(few, n);
        std::int64_t* to = out + block.offset[0][l];
        for (std::int64_t i = 0; i < range.count; ++i) to[i * out_step] = position_of(few[range.first + i]);
      }
      return;
    }
    std::vector<Key<T>> keys(static_cast<std::size_t>(at_once * n));
    std::vector<R> found;
    for (std::int64_t l = 0; l < block.count; l += at_once) {
      const std::int64_t count = std::min(at_once, block.count - l);
      read_keys(data, block.offset[1] + l, count, n, step, descending, keys.data());
      for (std::int64_t k = 0; k < count; ++k) {
        select_range(keys.data() + k * n, n, range, found);
        std::int64_t* to = out + block.offset[0][l + k];
        for (std::int64_t i = 0; i < range.count; ++i)
          to[i * out_step] = position_of(found[static_cast<std::size_t>(i)]);
      }
    }
  });
}

}  // namespace

void argsort_range(const View& x, int axis, bool descending, std::int64_t first, std::int64_t count,
                   std::int64_t* out) {
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_record_type<T>(x.shape[axis], [&](auto record) {
      select_lines<T, typename decltype(record)::type>(x, axis, descending, {first, count}, out);
    });
  });
}

}  // namespace ebb::cpu
