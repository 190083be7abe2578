// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <atomic>
#include <utility>

#include "core/buffer.h"
#include "cpu/gemm/matrices.h"

namespace ebb::cpu {

// A product of few rows and a large B whose columns are dense: all threads pack A, then each takes a few columns at a
// time from those that are left, and while it multiplies by them, its tiles pack the next ones it has taken, which
// otherwise are waited for. On two cores of Emerald Rapids [128, 784]·[784, 1024] takes 838 µs like this and 937
// without, [128, 1024]·[1024, 1024] 1,159 and 1,220; on two of Cascade Lake the first takes 7 % less time, on one 3 to
// 6 %.
template <class T, class P>
class ProductInTurns {
 public:
  // Of more rows packing B matters less, and A does not stay in the second cache while all columns pass by: 512³ takes
  // 3 % more time on two cores of either machine. Nor do shorter sums gain, or a small B: 384³ loses 8 %.
  static bool suits(const Call<T>& call, const GemmTiles<T, P>& tiles) {
    constexpr std::int64_t kLeastRows = 64, kLeastDepth = 384, kLeastPanels = 4, kLeastBytes = 1 << 20;
    // With shorter vectors it has not been measured, nor in f64.
    constexpr std::int64_t kSize = sizeof(P), kLongest = 64;
    const GemmSource b = call.b_source(0, 0);
    const std::int64_t threads = call.shared ? num_threads() : 1, depth = gemm_depth(call.k, tiles.most_depth);
    return tiles.rows_stay && tiles.group == 1 && kSize == 4 && kSize * tiles.packed_cols(1) == kLongest &&
           b.dtype == dtype_of_type<P>::value && b.wide_stride == 1 && call.m >= kLeastRows &&
           call.m <= tiles.task_rows && depth >= kLeastDepth && call.n >= tiles.cols * kLeastPanels * threads &&
           call.k * call.n * kSize >= kLeastBytes;
  }

  ProductInTurns(const Call<T>& call, const GemmTiles<T, P>& tiles) : call_(call), tiles_(tiles) {}

  void run() {
    const std::int64_t space_a = round_ * of_block_, space_b = call_.shared ? 0 : 2 * of_turn_;
    const BufferPtr memory = BufferPtr::allocate(static_cast<std::size_t>(space_a + space_b) * sizeof(P), "matmul");
    P* const rows = reinterpret_cast<P*>(memory.data());
    for (std::int64_t p = 0; p < call_.k; p += round_ * depth_) {
      const Part part{p, pieces_of(std::min(round_ * depth_, call_.k - p), depth_), rows};
      pack_rows(part);
      std::atomic<std::int64_t> taken{0};
      call_.for_each(threads_, [&](std::int64_t) { multiply(part, taken, rows + space_a); });
    }
  }

 private:
  struct Part {
    std::int64_t p, blocks;  // of k
    P* rows;                 // A's, packed
  };

  std::int64_t depth_of(std::int64_t p) const { return std::min(depth_, call_.k - p); }

  void pack_rows(const Part& part) const {
    const std::int64_t tasks = fa_.tasks(call_.m, depth_);  // of a block; of the last one, which is shorter, no more
    call_.for_each(part.blocks * tasks, [&](std::int64_t task) {
      const std::int64_t q = task / tasks, p = part.p + q * depth_, depth = depth_of(p);
      if (task % tasks < fa_.tasks(call_.m, depth))
        fa_.run(task % tasks, call_.a_source(0, p), call_.m, depth, part.rows + q * of_block_);
    });
  }

  // The columns of a turn: whole vectors, nearly as many in each, and as many turns for every thread.
  std::int64_t first_col(std::int64_t turn) const {
    return std::min(call_.n, (turn * (vectors_ / turns_) + std::min(turn, vectors_ % turns_)) * lanes_);
  }
  std::int64_t cols_of(std::int64_t turn) const { return first_col(turn + 1) - first_col(turn); }

  // Turns until none is left. Which thread takes which changes no bit.
  void multiply(const Part& part, std::atomic<std::int64_t>& taken, P* own) const {
    const auto take = [&] { return taken.fetch_add(1, std::memory_order_relaxed); };
    std::int64_t turn = take();
    if (turn >= turns_) return;
    BufferPtr memory;
    P* here = own;
    if (call_.shared) {
      memory = BufferPtr::allocate(static_cast<std::size_t>(2 * of_turn_) * sizeof(P), "matmul");
      here = reinterpret_cast<P*>(memory.data());
    }
    P* there = here + of_turn_;
    const auto pack = [&](std::int64_t of, std::int64_t p, P* to) {
      fb_.pack(call_.b_source(p, first_col(of)), cols_of(of), depth_of(p), to);
    };
    pack(turn, part.p, here);
    while (turn < turns_) {
      const std::int64_t after = take();
      for (std::int64_t q = 0; q < part.blocks; ++q, std::swap(here, there)) {
        const bool last = q + 1 == part.blocks;
        const std::int64_t p = part.p + q * depth_, depth = depth_of(p), j = first_col(turn);
        const std::int64_t next_p = last ? part.p : p + depth_, next = last ? after : turn;
        const GemmPanels<P> a = fa_.packed_panels(call_.m, depth, part.rows + q * of_block_);
        GemmPanels<P> b = fb_.packed_panels(cols_of(turn), depth, here);
        if (next < turns_ && fb_.packed(cols_of(next)) == cols_of(next)) {
          const GemmSource source = call_.b_source(next_p, first_col(next));
          b.next = {static_cast<const P*>(source.data), source.depth_stride, cols_of(next), depth_of(next_p), there};
        }
        const GemmResult<T> result{call_.c, call_.c_stride, call_.add || p > 0};
        tiles_.multiply(call_.m, cols_of(turn), depth, call_.alpha, a, b, result.from(0, j));
        if (next < turns_ && !b.next.from) pack(next, next_p, there);
      }
      turn = after;
    }
  }

  static constexpr std::int64_t kMostRound = 8;  // blocks of A that are packed at a time
  const Call<T>& call_;
  const GemmTiles<T, P>& tiles_;
  const std::int64_t depth_ = gemm_depth(call_.k, tiles_.most_depth);
  const std::int64_t round_ = std::min(kMostRound, pieces_of(call_.k, depth_));
  const std::int64_t threads_ = call_.shared ? num_threads() : 1;
  const std::int64_t lanes_ = tiles_.packed_cols(1), vectors_ = pieces_of(call_.n, lanes_);
  const std::int64_t turns_ = pieces_of(pieces_of(call_.n, tiles_.cols), threads_) * threads_;
  const Factor<T, P> fa_{tiles_, call_.shared, true, call_.a_source(0, 0), call_.m, depth_, turns_, false};
  const Factor<T, P> fb_{tiles_, call_.shared, false, call_.b_source(0, 0), call_.n, depth_, call_.m, false};
  const std::int64_t of_block_ = fa_.space(call_.m, depth_);  // of A, and the columns of a turn:
  const std::int64_t of_turn_ = fb_.space(pieces_of(vectors_, turns_) * lanes_, depth_);
};

}  // namespace ebb::cpu
