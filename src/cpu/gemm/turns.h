// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <atomic>
#include <utility>

#include "core/buffer.h"
#include "cpu/gemm/matrices.h"

namespace ebb::cpu {

// A product of few rows and a large B whose columns are dense: all threads pack A, then each repeatedly takes a few of
// the remaining columns, and while it multiplies by them, its tiles pack the next ones it has taken, which it would
// otherwise wait for.
template <class T, class P>
class ProductInTurns {
 public:
  ProductInTurns(const Call<T>& call, const GemmTiles<T, P>& tiles, const GemmPlan& plan)
      : call_(call), tiles_(tiles), plan_(plan) {}

  void run() {
    const std::int64_t space_a = plan_.at_a_time * of_block_, space_b = plan_.shared ? 0 : 2 * of_turn_;
    const BufferPtr memory = BufferPtr::allocate(static_cast<std::size_t>(space_a + space_b) * sizeof(P), "matmul");
    P* const rows = reinterpret_cast<P*>(memory.data());
    for (std::int64_t p = 0; p < call_.k; p += plan_.at_a_time * plan_.depth) {
      const Part part{p, ceil_div(std::min(plan_.at_a_time * plan_.depth, call_.k - p), plan_.depth), rows};
      pack_rows(part);
      std::atomic<std::int64_t> taken{0};
      for_each(plan_.shared, plan_.shared ? num_threads() : 1,
               [&](std::int64_t) { multiply(part, taken, rows + space_a); });
    }
  }

 private:
  struct Part {
    std::int64_t p, blocks;  // of k
    P* rows;                 // A's, packed
  };

  std::int64_t depth_of(std::int64_t p) const { return std::min(plan_.depth, call_.k - p); }

  void pack_rows(const Part& part) const {
    const std::int64_t tasks =
        fa_.tasks(call_.m, plan_.depth);  // of a block; the last one, which is shorter, has no more
    for_each(plan_.shared, part.blocks * tasks, [&](std::int64_t task) {
      const std::int64_t q = task / tasks, p = part.p + q * plan_.depth, depth = depth_of(p);
      if (task % tasks < fa_.tasks(call_.m, depth))
        fa_.run(task % tasks, call_.a_source(0, p), call_.m, depth, part.rows + q * of_block_);
    });
  }

  // The columns of a turn: whole vectors, nearly equal in number, and the same number of turns for every thread.
  std::int64_t first_col(std::int64_t turn) const {
    return std::min(call_.n, (turn * (vectors_ / plan_.turns) + std::min(turn, vectors_ % plan_.turns)) * lanes_);
  }
  std::int64_t cols_of(std::int64_t turn) const { return first_col(turn + 1) - first_col(turn); }

  // Takes turns until none is left. Which thread takes which changes no bit.
  void multiply(const Part& part, std::atomic<std::int64_t>& taken, P* own) const {
    const auto take = [&] { return taken.fetch_add(1, std::memory_order_relaxed); };
    std::int64_t turn = take();
    if (turn >= plan_.turns) return;
    BufferPtr memory;
    P* here = own;
    if (plan_.shared) {
      memory = BufferPtr::allocate(static_cast<std::size_t>(2 * of_turn_) * sizeof(P), "matmul");
      here = reinterpret_cast<P*>(memory.data());
    }
    P* there = here + of_turn_;
    const auto pack = [&](std::int64_t of, std::int64_t p, P* to) {
      fb_.pack(call_.b_source(p, first_col(of)), cols_of(of), depth_of(p), to);
    };
    pack(turn, part.p, here);
    while (turn < plan_.turns) {
      const std::int64_t after = take();
      for (std::int64_t q = 0; q < part.blocks; ++q, std::swap(here, there)) {
        const bool last = q + 1 == part.blocks;
        const std::int64_t p = part.p + q * plan_.depth, depth = depth_of(p), j = first_col(turn);
        const std::int64_t next_p = last ? part.p : p + plan_.depth, next = last ? after : turn;
        const GemmPanels<P> a = fa_.packed_panels(call_.m, depth, part.rows + q * of_block_);
        GemmPanels<P> b = fb_.packed_panels(cols_of(turn), depth, here);
        if (next < plan_.turns && fb_.packed(cols_of(next)) == cols_of(next)) {
          const GemmSource source = call_.b_source(next_p, first_col(next));
          b.next = {static_cast<const P*>(source.data), source.depth_stride, cols_of(next), depth_of(next_p), there};
        }
        const GemmResult<T> result{call_.c, call_.c_stride, call_.add || p > 0};
        tiles_.multiply(call_.m, cols_of(turn), depth, call_.alpha, a, b, result.from(0, j));
        if (next < plan_.turns && !b.next.from) pack(next, next_p, there);
      }
      turn = after;
    }
  }

  const Call<T>& call_;
  const GemmTiles<T, P>& tiles_;
  const GemmPlan& plan_;
  const std::int64_t lanes_ = tiles_.shape.lanes, vectors_ = ceil_div(call_.n, lanes_);
  const Factor<T, P> fa_{tiles_, plan_, true}, fb_{tiles_, plan_, false};
  const std::int64_t of_block_ = fa_.space(call_.m, plan_.depth);  // of A, and the columns of a turn:
  const std::int64_t of_turn_ = fb_.space(ceil_div(vectors_, plan_.turns) * lanes_, plan_.depth);
};

}  // namespace ebb::cpu
