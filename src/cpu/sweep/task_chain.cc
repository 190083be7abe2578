// SPDX-License-Identifier: MIT
#include <cstring>
#include <limits>

#include "cpu/model/cpu_model.h"
#include "cpu/sweep/task.h"

// Chains: loops of machine code over the blocks of a tile, and their steps where a loop does not apply.
namespace ebb::cpu {
namespace {

constexpr std::int64_t kBlocksAtOnce = CpuModel::sweep_blocks_at_once;

// Several blocks at a time: each is a chain of dependent additions.
template <int kBlocks, class T>
void add_lanes_of(const std::byte* state, std::size_t stride, double* sums) {
  std::array<double, kBlocks> sum{};
  for (std::size_t k = 0; k < kLoopGroup; ++k) {
    for (std::size_t b = 0; b < kBlocks; ++b)
      sum[b] += static_cast<double>(reinterpret_cast<const T*>(state + b * stride)[k]);
  }
  std::copy(sum.begin(), sum.end(), sums);
}
template <class T>
void add_lanes(const std::byte* state, std::size_t stride, std::int64_t blocks, double* sums) {
  std::int64_t b = 0;
  for (; b + 4 <= blocks; b += 4, state += 4 * stride) add_lanes_of<4, T>(state, stride, sums + b);
  for (; b + 2 <= blocks; b += 2, state += 2 * stride) add_lanes_of<2, T>(state, stride, sums + b);
  if (b < blocks) add_lanes_of<1, T>(state, stride, sums + b);
}

// Memory that a loop accesses, block by block, and piece by piece where a row consists of pieces.
class Cursors {
 public:
  // For a register that consists of pieces: from `column` of a row of `columns`.
  void add(void* at, std::int32_t stride, const Register& reg, std::int64_t column, std::int64_t columns) {
    at_[count_] = static_cast<std::byte*>(at);
    strides_[count_] = stride;
    if (reg.piece > 0) {
      const std::int64_t bytes = reg.piece * stride, ahead = std::max<std::int64_t>(1, kAhead / bytes);
      pieces_[in_pieces_] = {count_,
                             reg.piece,
                             reg.piece - column % reg.piece,
                             (reg.step - reg.piece) * stride,
                             ahead * reg.step * stride,
                             std::min(bytes, kAhead),
                             (columns - column - 1) / reg.piece - ahead};
      together_ = std::min(together_, pieces_[in_pieces_++].left);
    }
    ++count_;
  }
  void* const* pointers() const { return reinterpret_cast<void* const*>(at_.data()); }
  std::int64_t together() const { return together_; }  // elements that are contiguous everywhere
  void move(std::int64_t elements) {
    for (std::size_t p = 0; p < count_; ++p) at_[p] += elements * strides_[p];
    if (in_pieces_ > 0) together_ = kAll;
    for (std::size_t k = 0; k < in_pieces_; ++k) {
      Piece& piece = pieces_[k];
      piece.left -= elements;
      if (piece.left == 0) {
        piece.left = piece.length;
        at_[piece.pointer] += piece.jump;
        if (--piece.more >= 0) fetch(at_[piece.pointer] + piece.ahead, piece.fetched);
      }
      together_ = std::min(together_, piece.left);
    }
  }

 private:
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kAhead = CpuModel::sweep_fetched_ahead;
  struct Piece {
    std::size_t pointer;
    std::int64_t length, left, jump;  // jump: bytes to the next one
    // The piece prefetched while this one is processed: address, size, and number. The hardware prefetches, but not
    // from one page to the next.
    std::int64_t ahead, fetched, more;
  };
  static void fetch(const std::byte* from, std::int64_t bytes) {
    constexpr std::int64_t kLine = 64;
    for (std::int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(from + i);
  }
  std::size_t count_ = 0, in_pieces_ = 0;
  std::int64_t together_ = kAll;
  std::array<std::byte*, kMaxLoopPointers> at_;
  std::array<std::int64_t, kMaxLoopPointers> strides_;
  std::array<Piece, kMaxLoopPointers> pieces_;
};

}  // namespace

// A chain: the loop for whole turns, its steps for the few elements left and for blocks where a guard does not hold.
void SweepTask::chain(const Chain& c, std::int64_t count) {
  Cursors cursors;
  for (std::size_t p = 0; p < c.registers.size(); ++p) {
    cursors.add(at(c.registers[p], 0), c.strides[p], s_.registers[c.registers[p]], column_, s_.columns);
  }
  const auto state_bytes = static_cast<std::int64_t>(c.loop->state_bytes());
  alignas(kGuardBytes) std::byte states[kBlocksAtOnce * kMaxLoopState];
  for (std::int64_t first = 0; first < count;) {
    const std::int64_t all =
        std::min(kBlocksAtOnce, (count - first + kTile - 1) / kTile);  // whose sums are added together
    std::memset(states, 0, static_cast<std::size_t>(all * state_bytes));
    for (std::int64_t at = 0; at < all;) {
      // All contiguous whole blocks in one call, or a block part by part; then the rest.
      std::byte* const state = states + at * state_bytes;
      const std::int64_t begin = first + at * kTile, n = std::min(kTile, count - begin);
      const std::int64_t blocks =
          std::clamp<std::int64_t>(std::min(cursors.together(), count - begin) / kTile, 1, all - at);
      for (std::int64_t done = 0; done < n;) {
        const std::int64_t part = std::min(n - done, cursors.together());
        run_loop(c, cursors.pointers(), state, begin + done, part, blocks);
        done += part;
        cursors.move(blocks * part);
      }
      at += blocks;
    }
    add_sums(c, states, first, all, all);
    first += all * kTile;
  }
}

// The same for each row of the tile: calls of the loop, and nothing else, for as many rows as there are states of
// blocks.
void SweepTask::chain_by_row(const Chain& c) {
  const std::int64_t blocks = (width_ + kTile - 1) / kTile, whole = width_ / kTile, left = width_ % kTile;
  const bool guarded = c.loop->guards() > 0;
  const int in_vain = guarded ? r_.in_vain.load(std::memory_order_relaxed) : 0;
  if (blocks > kBlocksAtOnce || in_vain >= cpu_model().sweep_failed_guards) {
    for (shown_row_ = 0; shown_row_ < rows_; ++shown_row_) chain(c, width_);
    shown_row_ = 0;
    return;
  }
  const auto turn = static_cast<std::int64_t>(c.loop->group());
  const std::int64_t rest = c.loop->takes_rest() ? left % turn : 0, done = left / turn * turn + rest;
  const auto state_bytes = static_cast<std::int64_t>(c.loop->state_bytes());
  const std::size_t pointers = c.registers.size();
  std::array<std::byte*, kMaxLoopPointers> row, at_left;
  std::array<std::int64_t, kMaxLoopPointers> to_next;
  for (std::size_t p = 0; p < pointers; ++p) {
    const Register& reg = s_.registers[c.registers[p]];
    row[p] = static_cast<std::byte*>(at(c.registers[p], 0));
    to_next[p] = reg.each_row ? 0 : reg.kind == Register::Kind::row ? bytes_of(reg) : width_ * c.strides[p];
  }
  alignas(kGuardBytes) std::byte states[kBlocksAtOnce * kMaxLoopState];
  const std::array<std::byte, kMaxLoopState> none{};  // sums before
  const auto turns = [turn](std::int64_t n) { return static_cast<std::size_t>(n / turn); };
  bool held = true;
  for (std::int64_t first = 0; first < rows_;) {
    const std::int64_t rows = std::min(rows_ - first, kBlocksAtOnce / blocks);
    std::memset(states, 0, static_cast<std::size_t>(rows * blocks * state_bytes));
    std::byte* state = states;
    for (shown_row_ = first; shown_row_ < first + rows; ++shown_row_) {
      const auto call = [&](const auto& from) { return reinterpret_cast<void* const*>(from.data()); };
      if (whole > 0) c.loop->run(call(row), turns(kTile), state, static_cast<std::size_t>(whole));
      if (done > 0) {
        for (std::size_t p = 0; p < pointers; ++p) at_left[p] = row[p] + whole * kTile * c.strides[p];
        c.loop->run(call(at_left), turns(left), state + whole * state_bytes, 1, static_cast<std::size_t>(rest));
      }
      for (std::int64_t b = guarded ? 0 : whole; b < blocks && (guarded || done < left); ++b) {
        const std::int64_t n = b < whole ? kTile : left;
        held = repair(c, state + b * state_bytes, none.data(), b * kTile, n, b < whole ? n : done) && held;
      }
      for (std::size_t p = 0; p < pointers; ++p) row[p] += to_next[p];
      state += blocks * state_bytes;
    }
    shown_row_ = first;
    add_sums(c, states, 0, rows * blocks, blocks);
    shown_row_ = 0;
    first += rows;
  }
  if (guarded) r_.in_vain.store(held ? 0 : in_vain + 1, std::memory_order_relaxed);
}

// n elements from `first` of the tile, and of each of the blocks after it if there are more.
void SweepTask::run_loop(const Chain& c, void* const* pointers, std::byte* state, std::int64_t first, std::int64_t n,
                         std::int64_t blocks) {
  const auto turn = static_cast<std::int64_t>(c.loop->group());
  const std::int64_t rest = c.loop->takes_rest() ? n % turn : 0;
  const auto state_bytes = static_cast<std::int64_t>(c.loop->state_bytes());
  const bool guarded = c.loop->guards() > 0;
  const int in_vain = guarded ? r_.in_vain.load(std::memory_order_relaxed) : 0;
  std::array<std::byte, kMaxLoopState> before;  // sums so far
  if (guarded) std::memcpy(before.data(), state, static_cast<std::size_t>(state_bytes));
  if (guarded && in_vain >= cpu_model().sweep_failed_guards) {  // failures all over: only the steps, for a while
    std::memset(state, 0, static_cast<std::size_t>(blocks * state_bytes));
    r_.in_vain.store(in_vain + 1 < cpu_model().sweep_calls_between_tries ? in_vain + 1 : 0, std::memory_order_relaxed);
  } else {
    c.loop->run(pointers, static_cast<std::size_t>(n / turn), state, static_cast<std::size_t>(blocks),
                static_cast<std::size_t>(rest));
  }
  const std::int64_t done = n / turn * turn + rest;
  if (!guarded && done == n) return;
  bool held = true;
  for (std::int64_t b = 0; b < blocks; ++b)
    held = repair(c, state + b * state_bytes, before.data(), first + b * kTile, n, done) && held;
  if (guarded && in_vain < cpu_model().sweep_failed_guards)
    r_.in_vain.store(held ? 0 : in_vain + 1, std::memory_order_relaxed);
}

// Runs the steps for those of the n elements from `block` that the loop did not do: those after `done`, or all if a
// guard failed (then the result is false, and sums continue from `before`).
bool SweepTask::repair(const Chain& c, std::byte* state, const std::byte* before, std::int64_t block, std::int64_t n,
                       std::int64_t done) {
  const std::size_t lanes = kLoopGroup * (c.wide ? 8 : 4), sums = c.sums.size() * lanes;
  const std::byte* guards = state + sums;
  bool held = true;
  for (int g = 0; g < c.loop->guards(); ++g, guards += kGuardBytes) {
    std::array<std::uint64_t, kGuardBytes / 8> words;
    std::memcpy(words.data(), guards, kGuardBytes);
    held = held && (words[0] & words[1] & words[2] & words[3]) == ~std::uint64_t{0};
  }
  if (!held) {
    done = 0;
    std::memcpy(state, before, sums);
  }
  const std::int64_t first = block + done, left = n - done;
  if (left == 0) return held;
  std::size_t sum = 0;
  for (const Step& step : c.steps) {
    if (step.kind == Step::Kind::compute) {
      step.fn(at(step.dst, first), at(step.a, first), at(step.b, first), at(step.c, first),
              static_cast<std::size_t>(left));
    } else if (step.kind == Step::Kind::check) {
      check(step, first, left, false);
    } else if (step.kind == Step::Kind::load && s_.upright()) {
      s_.operand_loads[step.item](at(step.dst, first), at(step.a, first), 1, static_cast<std::size_t>(left));
    } else if (step.kind == Step::Kind::store && s_.upright()) {
      s_.output_stores[step.item](at(step.b, first), 1, at(step.a, first), static_cast<std::size_t>(left));
    } else if (step.kind == Step::Kind::load) {
      r_.load(step.item, s_.registers[step.dst].type, at(step.dst, first), s_.operand_layouts[step.item],
              position_of(first), left);
    } else if (step.kind == Step::Kind::store) {
      store(step.item, at(step.a, first), s_.registers[step.a].type, s_.output_layouts[step.item], position_of(first),
            left);
    } else {  // a sum, computed here: its input may be overwritten by a later step
      std::byte* to = state + sum++ * lanes;
      c.wide ? add_rest<double>(step, to, first, left) : add_rest<float>(step, to, first, left);
    }
  }
  return held;
}

// The sums of `blocks` blocks from element `first`; of several rows, `of_row` blocks each.
void SweepTask::add_sums(const Chain& c, const std::byte* state, std::int64_t first, std::int64_t blocks,
                         std::int64_t of_row) {
  std::array<double, kBlocksAtOnce> sums;
  for (std::size_t k = 0; k < c.sums.size(); ++k) {
    const std::byte* from = state + k * kLoopGroup * (c.wide ? 8 : 4);
    c.wide ? add_lanes<double>(from, c.loop->state_bytes(), blocks, sums.data())
           : add_lanes<float>(from, c.loop->state_bytes(), blocks, sums.data());
    const Step& step = c.sums[k];
    if (s_.flat) {
      for (std::int64_t b = 0; b < blocks; ++b) r_.totals[step.item][(first_ + first) / kTile + b].real = sums[b];
      continue;
    }
    Accumulator* row = groups(step.kind == Step::Kind::reduce ? step.item : sum_of_total(step.item)) + shown_row_;
    for (std::int64_t b = 0; b < blocks; row += b % of_row == 0) row->real += sums[b++];
  }
}

// The tree of every sum: elements are added to their lanes in turn, then the lanes are added in order.
template <class T>
void SweepTask::add_rest(const Step& step, std::byte* state, std::int64_t from, std::int64_t left) {
  T* lanes = reinterpret_cast<T*>(state);
  const T *a = static_cast<const T*>(at(step.a, from)), *b = static_cast<const T*>(at(step.b, from));
  for (std::int64_t i = 0; i < left; ++i) lanes[i % static_cast<std::int64_t>(kLoopGroup)] += b ? a[i] * b[i] : a[i];
}

}  // namespace ebb::cpu
