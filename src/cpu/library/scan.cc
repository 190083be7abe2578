// SPDX-License-Identifier: MIT
// cumsum, cumprod, linear_recurrence, and the places of cummax and cummin. f32 and the halves are accumulated in f64
// and every result is rounded once; integers wrap.
#include <algorithm>
#include <bit>
#include <memory>

#include "core/parallel.h"
#include "cpu/library/lines.h"
#include "cpu/library/ops.h"
#include "cpu/library/order_keys.h"
#include "cpu/library/wide_numbers.h"
#include "cpu/tile/elements.h"
#include "ebb/memory.h"

namespace ebb::cpu {
namespace {

template <class T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T> || is_half_type<T>, double, T>;

template <class T>
Accumulator<T> widen(T x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
  } else if constexpr (is_half_type<T>) {
    return to_float(x);
  } else {
    return x;
  }
}

// Rounding f64 to f32 and then to a half could round twice; a value rounded to odd in between rounds as if once.
inline float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x || nearest - nearest != 0.0f) return nearest;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (bits & 1u) return nearest;
  const bool above = (nearest > x) == (x > 0);  // the magnitude was rounded up: the odd neighbour is below
  return std::bit_cast<float>(above ? bits - 1 : bits + 1);
}

template <class T>
T narrow(Accumulator<T> x) {
  if constexpr (std::is_same_v<T, Half>) {
    return half_from(round_to_odd(x));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return bfloat16_from(round_to_odd(x));
  } else {
    return static_cast<T>(x);
  }
}

constexpr std::int64_t kWidePart = 256;  // numbers of a line that are widened at a time
constexpr std::int64_t kShortLine = 16;  // a call for each would take longer than the line

struct Add {
  static constexpr bool kSplits = true;  // the order of sums is free where digits are to spare
  template <class A>
  static A start() {
    return A(0);
  }
  template <class A>
  static A apply(A a, A b) {
    return wrapping_add(a, b);
  }
};
struct Multiply {
  // Partial products may overflow where the product in order does not: lines are not split.
  static constexpr bool kSplits = false;
  template <class A>
  static A start() {
    return A(1);
  }
  template <class A>
  static A apply(A a, A b) {
    return wrapping_mul(a, b);
  }
};

// Numbers that are accumulated in f64 but have fewer digits.
template <class T>
inline constexpr bool is_widened = std::is_same_v<Accumulator<T>, double> && !std::is_same_v<T, double>;

// A scan in place, where `value` is before it and after it. Each operation waits for the one before; sums of f64 that
// came from fewer digits are therefore made four at a time, and only the last of four waits for `value`.
template <class F, int kLines>
void scan_wide(double (*numbers)[kWidePart], std::int64_t n, double* value) {
  std::int64_t i = 0;
  if constexpr (F::kSplits) {
    for (; i + 4 <= n; i += 4) {
      for (int l = 0; l < kLines; ++l) {
        double* at = numbers[l] + i;
        const double a = at[0], b = F::apply(a, at[1]), c = F::apply(b, at[2]), d = F::apply(c, at[3]);
        const double before = value[l];
        at[0] = F::apply(before, a), at[1] = F::apply(before, b), at[2] = F::apply(before, c);
        at[3] = value[l] = F::apply(before, d);
      }
    }
  }
  for (; i < n; ++i) {
    for (int l = 0; l < kLines; ++l) numbers[l][i] = value[l] = F::apply(value[l], numbers[l][i]);
  }
}

// kLines lines side by side: each is a chain of dependent operations. `value`: of each line so far. Numbers are widened
// and rounded block by block. `before` is added to every result: the sum of the pieces before these lines.
template <class T, class F, int kLines>
void scan_lines(const T* const* x, std::int64_t x_step, T* const* out, std::int64_t out_step, std::int64_t n,
                Accumulator<T>* value, Accumulator<T> before = Accumulator<T>(0)) {
  using A = Accumulator<T>;
  if constexpr (is_widened<T>) {
    double numbers[kLines][kWidePart];
    for (std::int64_t first = 0; first < n && n > kShortLine; first += kWidePart) {
      const std::int64_t count = std::min(kWidePart, n - first);
      for (int l = 0; l < kLines; ++l) read_wide(x[l] + first * x_step, x_step, numbers[l], count);
      scan_wide<F, kLines>(numbers, count, value);
      for (int l = 0; out != nullptr && l < kLines; ++l) {
        if (before != A(0)) {
          for (std::int64_t i = 0; i < count; ++i) numbers[l][i] = F::apply(before, numbers[l][i]);
        }
        write_wide(numbers[l], out[l] + first * out_step, out_step, count);
      }
    }
    if (n > kShortLine) return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (int l = 0; l < kLines; ++l) {
      value[l] = F::template apply<A>(value[l], widen(x[l][i * x_step]));
      if (out != nullptr)
        out[l][i * out_step] = narrow<T>(F::kSplits ? F::template apply<A>(before, value[l]) : value[l]);
    }
  }
}

// Returns what the line adds up to.
template <class T, class F>
Accumulator<T> scan_line(const T* x, std::int64_t x_step, T* out, std::int64_t out_step, std::int64_t n,
                         Accumulator<T> before = Accumulator<T>(0)) {
  Accumulator<T> value = F::template start<Accumulator<T>>();
  scan_lines<T, F, 1>(&x, x_step, out == nullptr ? nullptr : &out, out_step, n, &value, before);
  return value;
}

// A long line in pieces, each the sum of those before it and its own scan. Threads first make the total of each piece;
// one thread knows them when it comes to the next.
constexpr std::int64_t kScanPiece = 65536;
template <class T, class F>
void scan_long_line(const T* x, std::int64_t x_step, T* out, std::int64_t out_step, std::int64_t n) {
  using A = Accumulator<T>;
  const std::int64_t pieces = (n + kScanPiece - 1) / kScanPiece;
  const auto scan_piece = [&](std::int64_t p, T* to, A before) {
    const std::int64_t first = p * kScanPiece, length = std::min(kScanPiece, n - first);
    return scan_line<T, F>(x + first * x_step, x_step, to == nullptr ? nullptr : to + first * out_step, out_step,
                           length, before);
  };
  A before = F::template start<A>();
  if (num_threads() == 1) {
    for (std::int64_t p = 0; p < pieces; ++p) before = F::template apply<A>(before, scan_piece(p, out, before));
    return;
  }
  const auto totals = std::make_unique<A[]>(static_cast<std::size_t>(pieces));
  parallel_for(pieces, [&](std::int64_t p) { totals[static_cast<std::size_t>(p)] = scan_piece(p, nullptr, A(0)); });
  for (std::int64_t p = 0; p < pieces; ++p) {
    A& slot = totals[static_cast<std::size_t>(p)];
    const A total = slot;
    slot = before;
    before = F::template apply<A>(before, total);
  }
  parallel_for(pieces, [&](std::int64_t p) { scan_piece(p, out, totals[static_cast<std::size_t>(p)]); });
}

// One step of lines that are neighbours in memory: vectorised.
template <class T, class F>
void scan_across(const T* x, T* out, std::int64_t lines, Accumulator<T>* value) {
  using A = Accumulator<T>;
  if constexpr (is_half_type<T>) {
    double numbers[Lines<2>::kMostLines];
    read_wide(x, 1, numbers, lines);
    for (std::int64_t l = 0; l < lines; ++l) value[l] = F::template apply<A>(value[l], numbers[l]);
    write_wide(value, out, 1, lines);
  } else {
    for (std::int64_t l = 0; l < lines; ++l) {
      value[l] = F::template apply<A>(value[l], x[l]);
      out[l] = static_cast<T>(value[l]);
    }
  }
}
// Lines of a few elements, one behind the other: widened and rounded together.
template <class T, class F>
void scan_short_lines(const T* x, T* out, std::int64_t n, std::int64_t lines) {
  double numbers[kWidePart];
  const std::int64_t together = kWidePart / n;
  for (std::int64_t first = 0; first < lines; first += together) {
    const std::int64_t count = std::min(together, lines - first);
    read_wide(x + first * n, 1, numbers, count * n);
    for (double* line = numbers; line < numbers + count * n; line += n) {
      double value = F::template start<double>();
      for (std::int64_t i = 0; i < n; ++i) line[i] = value = F::apply(value, line[i]);
    }
    write_wide(numbers, out + first * n, 1, count * n);
  }
}

inline bool are_neighbours(const std::int64_t* offset, std::int64_t count) {
  for (std::int64_t l = 1; l < count; ++l) {
    if (offset[l] != offset[0] + l) return false;
  }
  return true;
}

constexpr int kScansTogether = 4;  // lines scanned side by side

template <class F>
void run_scan(const LibraryCall& call) {
  View x = call.inputs[0];
  if (x.shape.rank() == 0) x.shape = Shape{1};
  if (x.shape.numel() == 0) return;
  const int axis = static_cast<int>(call.attrs.i[0]);
  const Strides out_strides = contiguous_strides(x.shape);
  using L = Lines<2>;
  const L lines(x.shape, axis, {out_strides, x.strides});
  const std::int64_t n = lines.length(), step = x.strides[axis], out_step = out_strides[axis];
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Accumulator<T>;
    const T* data = static_cast<const T*>(x.data);
    T* out = static_cast<T*>(call.outputs[0].data);
    if constexpr (is_widened<T>) {
      if (lines.axis_is_innermost() && n <= kShortLine && is_contiguous(x.shape, x.strides)) {
        return lines.for_each_range([&](std::int64_t first, std::int64_t count) {
          scan_short_lines<T, F>(data + first * n, out + first * n, n, count);
        });
      }
    }
    lines.for_each_block([&](const L::Block& block) {
      if (lines.axis_is_innermost()) {
        std::int64_t l = 0;
        for (const bool split = F::kSplits && n >= 4 * kScanPiece; !split && l + kScansTogether <= block.count;
             l += kScansTogether) {
          const T* from[kScansTogether];
          T* to[kScansTogether];
          A value[kScansTogether];
          for (int k = 0; k < kScansTogether; ++k)
            from[k] = data + block.offset[1][l + k], to[k] = out + block.offset[0][l + k];
          std::fill_n(value, kScansTogether, F::template start<A>());
          scan_lines<T, F, kScansTogether>(from, step, to, out_step, n, value);
        }
        for (; l < block.count; ++l) {
          const T* from = data + block.offset[1][l];
          T* to = out + block.offset[0][l];
          if (F::kSplits && n >= 4 * kScanPiece) {
            scan_long_line<T, F>(from, step, to, out_step, n);
          } else {
            scan_line<T, F>(from, step, to, out_step, n);
          }
        }
        return;
      }
      A value[L::kMostLines];
      std::fill_n(value, block.count, F::template start<A>());
      const bool side_by_side =
          are_neighbours(block.offset[0], block.count) && are_neighbours(block.offset[1], block.count);
      for (std::int64_t i = 0; i < n; ++i) {
        if (side_by_side) {
          scan_across<T, F>(data + block.offset[1][0] + i * step, out + block.offset[0][0] + i * out_step, block.count,
                            value);
          continue;
        }
        for (std::int64_t l = 0; l < block.count; ++l) {
          value[l] = F::template apply<A>(value[l], widen(data[block.offset[1][l] + i * step]));
          out[block.offset[0][l] + i * out_step] = narrow<T>(value[l]);
        }
      }
    });
  });
}

constexpr std::int64_t kPlacesTogether = 16;  // places written at once where the best element does not change

// The places of the last of the best elements so far along a line; NaN beats any number. Most groups of elements hold
// none that is as good as the best before them.
template <bool kLargest, class T>
void scan_places(const T* x, std::int64_t x_step, std::int64_t* out, std::int64_t out_step, std::int64_t n) {
  constexpr std::int64_t kPart = 256;
  static_assert(kPart % kPlacesTogether == 0);
  using K = Key<T>;
  K keys[kPart], best = 0;
  std::int64_t place = 0;
  for (std::int64_t first = 0; first < n; first += kPart) {
    const std::int64_t count = std::min(kPart, n - first);
    if (x_step == 1) {
      for (std::int64_t i = 0; i < count; ++i) keys[i] = winning_key<kLargest>(x[first + i]);
    } else {
      for (std::int64_t i = 0; i < count; ++i) keys[i] = winning_key<kLargest>(x[(first + i) * x_step]);
    }
    std::int64_t i = 0;
    const auto one_by_one = [&](std::int64_t end) {
      for (; i < end; ++i) {
        const bool better = keys[i] >= best;
        best = better ? keys[i] : best;
        place = better ? first + i : place;
        out[(first + i) * out_step] = place;
      }
    };
    while (i + kPlacesTogether <= count) {
      K most = 0;
      for (std::int64_t k = 0; k < kPlacesTogether; ++k) most = std::max(most, keys[i + k]);
      if (most >= best) {
        one_by_one(i + kPlacesTogether);
      } else if (out_step == 1) {
        std::fill_n(out + first + i, kPlacesTogether, place);
        i += kPlacesTogether;
      } else {
        for (const std::int64_t end = i + kPlacesTogether; i < end; ++i) out[(first + i) * out_step] = place;
      }
    }
    one_by_one(count);
  }
}

// One step of lines that are neighbours in memory.
template <bool kLargest, class T>
void scan_places_across(const T* x, std::int64_t* out, std::int64_t lines, std::int64_t i, Key<T>* best,
                        std::int64_t* place) {
  Key<T> keys[Lines<2>::kMostLines];
  for (std::int64_t l = 0; l < lines; ++l) keys[l] = winning_key<kLargest>(x[l]);
  for (std::int64_t l = 0; l < lines; l += kPlacesTogether) {
    const std::int64_t end = std::min(lines, l + kPlacesTogether);
    bool any = false;
    for (std::int64_t k = l; k < end; ++k) any |= keys[k] >= best[k];
    for (std::int64_t k = l; any && k < end; ++k) {
      const bool better = keys[k] >= best[k];
      best[k] = better ? keys[k] : best[k];
      place[k] = better ? i : place[k];
    }
  }
  std::copy_n(place, lines, out);
}

template <bool kLargest>
void run_places(const LibraryCall& call) {
  const View& x = call.inputs[0];
  if (x.shape.numel() == 0) return;
  const int axis = static_cast<int>(call.attrs.i[0]);
  const Strides out_strides = contiguous_strides(x.shape);
  using L = Lines<2>;
  const L lines(x.shape, axis, {out_strides, x.strides});
  const std::int64_t n = lines.length(), step = x.strides[axis], out_step = out_strides[axis];
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const T* data = static_cast<const T*>(x.data);
    std::int64_t* out = static_cast<std::int64_t*>(call.outputs[0].data);
    lines.for_each_block([&](const L::Block& block) {
      const bool side_by_side = !lines.axis_is_innermost() && are_neighbours(block.offset[0], block.count) &&
                                are_neighbours(block.offset[1], block.count);
      if (!side_by_side) {
        for (std::int64_t l = 0; l < block.count; ++l)
          scan_places<kLargest>(data + block.offset[1][l], step, out + block.offset[0][l], out_step, n);
        return;
      }
      Key<T> best[L::kMostLines] = {};
      std::int64_t place[L::kMostLines] = {};
      for (std::int64_t i = 0; i < n; ++i)
        scan_places_across<kLargest>(data + block.offset[1][0] + i * step, out + block.offset[0][0] + i * out_step,
                                     block.count, i, best, place);
    });
  });
}

// s_i = g_i + x_{i+1}·s_{i+1}. `carry`: x·s behind each line, and at its begin.
template <class T>
void recur(const T* g, const T* x, T* out, double& carry) {
  const double s = widen(*g) + carry;
  carry = widen(*x) * s;
  *out = narrow<T>(s);
}

}  // namespace

void run_linear_recurrence(const LibraryCall& call) {
  const View &g = call.inputs[0], &x = call.inputs[1];
  if (g.shape.numel() == 0) return;
  const int axis = static_cast<int>(call.attrs.i[0]);
  const Strides out_strides = contiguous_strides(g.shape);
  using L = Lines<3>;
  const L lines(g.shape, axis, {out_strides, g.strides, x.strides});
  const std::int64_t g_step = g.strides[axis], x_step = x.strides[axis], out_step = out_strides[axis];
  with_type(g.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<Accumulator<T>, double>) {
      const T *from = static_cast<const T*>(g.data), *factors = static_cast<const T*>(x.data);
      T* const out = static_cast<T*>(call.outputs[0].data);
      lines.for_each_block([&](const L::Block& block) {
        // Each line is a chain of dependent operations: several at a time.
        const std::int64_t together = lines.axis_is_innermost() ? kScansTogether : block.count;
        for (std::int64_t first = 0; first < block.count; first += together) {
          const std::int64_t end = std::min(first + together, block.count);
          double carry[L::kMostLines] = {};
          for (std::int64_t i = lines.length(); i-- > 0;) {
            for (std::int64_t l = first; l < end; ++l)
              recur(from + block.offset[1][l] + i * g_step, factors + block.offset[2][l] + i * x_step,
                    out + block.offset[0][l] + i * out_step, carry[l - first]);
          }
        }
      });
    } else {
      throw Error("internal: linear_recurrence of integers");
    }
  });
}

void run_cummax_place(const LibraryCall& call) { run_places<true>(call); }
void run_cummin_place(const LibraryCall& call) { run_places<false>(call); }
void run_cumsum(const LibraryCall& call) { run_scan<Add>(call); }
void run_cumprod(const LibraryCall& call) { run_scan<Multiply>(call); }

}  // namespace ebb::cpu
