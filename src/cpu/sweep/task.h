#pragma once
#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "cpu/sweep/columns.h"
#include "cpu/sweep/state.h"

namespace ebb::cpu {

// One task's registers and accumulators.
class SweepTask {
 public:
  SweepTask(SweepRun& run, std::int64_t index) : r_(run), s_(run.s), index_(index) {
    const std::size_t slots = s_.slot_bytes * static_cast<std::size_t>(s_.slots);
    const std::size_t row_bytes = (static_cast<std::size_t>(s_.rows_per_tile) * 8 + 127) / 128 * 128;
    const std::size_t rows = row_bytes * static_cast<std::size_t>(s_.row_registers);
    std::size_t scratch = 0;
    for (std::size_t b : s_.scratch_bytes) scratch += (b * static_cast<std::size_t>(s_.columns) + 127) / 128 * 128;
    const std::size_t accumulators =
        s_.reduces.size() * static_cast<std::size_t>(s_.rows_per_tile) * 2 * sizeof(Accumulator);
    std::byte* at = memory(slots + rows + scratch + accumulators + 256);
    pointers_.resize(s_.registers.size());
    std::byte* slot_base = at;
    std::byte* row_base = slot_base + slots;
    std::byte* scratch_base = row_base + rows;
    for (std::size_t b : s_.scratch_bytes) {
      scratch_.push_back(scratch_base);
      scratch_base += (b * static_cast<std::size_t>(s_.columns) + 127) / 128 * 128;
    }
    accumulators_ = reinterpret_cast<Accumulator*>(scratch_base);
    for (std::size_t i = 0; i < s_.registers.size(); ++i) {
      const Register& reg = s_.registers[i];
      switch (reg.kind) {
        case Register::Kind::slot:
          pointers_[i] = slot_base + s_.slot_bytes * static_cast<std::size_t>(reg.index);
          break;
        case Register::Kind::row:
          pointers_[i] = row_base + row_bytes * static_cast<std::size_t>(reg.index);
          break;
        case Register::Kind::scalar:
          pointers_[i] = r_.scalars[reg.index].data();
          break;
        default:
          moving_.push_back(static_cast<std::int32_t>(i));
          break;
      }
    }
    for (const Total& t : s_.totals) totals_.push_back(identity(t.op, t.type));
    for (const ColumnReduce& c : s_.column_reduces) columns_.emplace_back(c, s_.columns, r_.k);
  }

  void run() {
    const std::int64_t begin = index_ * s_.tiles_per_task, end = std::min(s_.tiles, begin + s_.tiles_per_task);
    for (std::int64_t t = begin; t < end; ++t) {
      if (s_.flat) {
        first_ = t * s_.tile;
        count_ = std::min(s_.tile, s_.elements - first_);
        run_flat();
      } else if (s_.long_rows) {
        run_long_row(t);
      } else {
        row_ = t * s_.rows_per_tile;
        rows_ = std::min(s_.rows_per_tile, s_.rows - row_);
        first_ = row_ * s_.columns;
        count_ = rows_ * s_.columns;
        column_ = 0;
        width_ = s_.columns;
        run_short_rows(t == begin);
      }
    }
    for (std::size_t t = 0; t < s_.totals.size(); ++t) {
      if (!s_.flat) r_.totals[t][index_] = totals_[t];
    }
    for (std::size_t c = 0; c < columns_.size(); ++c) r_.columns[c][index_] = columns_[c].finish();
  }

 private:
  // Kept from task to task: fresh memory for every task would be fresh pages.
  static std::byte* memory(std::size_t bytes) {
    struct Block {
      BufferPtr buffer;
    };
    thread_local Block block;
    if (block.buffer.bytes() < bytes) {
      block.buffer = BufferPtr();
      block.buffer = BufferPtr::allocate(bytes + bytes / 4, "the tiles of a sweep");
    }
    return block.buffer.data();
  }

  void move_pointers() {
    for (std::int32_t i : moving_) {
      const Register& reg = s_.registers[i];
      const auto size = static_cast<std::int64_t>(reg.halves ? 2 : size_of(reg.type));
      if (reg.kind == Register::Kind::scratch) {
        pointers_[i] = scratch_[reg.index] + column_ * size;
        continue;
      }
      const bool in = reg.kind == Register::Kind::operand;
      std::byte* data =
          in ? r_.operand_data(reg.index) : static_cast<std::byte*>(r_.args[s_.program.outputs[reg.index].slot].data);
      std::int64_t at = first_;
      if (reg.by_row) {
        const Layout& rows = in ? s_.operand_row_layouts[reg.index] : s_.output_row_layouts[reg.index];
        at = column_;
        walk(rows, row_, 1, [&](std::int64_t address, std::int64_t, std::int64_t, std::int64_t) { at += address; });
      }
      pointers_[i] = data + at * size;
    }
  }

  void run_flat() {
    move_pointers();
    for (const Step& step : s_.stages[0].full_steps) {
      if (step.kind == Step::Kind::total) {
        const Total& t = s_.totals[step.item];
        for (std::int64_t i = 0; i < count_; i += kTile) {
          Accumulator acc = identity(t.op, t.type);
          accumulate(t, step, &acc, i, 1, std::min(kTile, count_ - i));
          r_.totals[step.item][(first_ + i) / kTile] = acc;
        }
      } else {
        full_step(step, true);
      }
    }
  }

  void run_short_rows(bool first_tile) {
    move_pointers();
    for (const StageCode& stage : s_.stages) {
      for (const Step& step : stage.row_steps) row_step(step);
      for (std::int32_t r : stage.reduces) begin_reduce(r);
      for (const Step& step : stage.full_steps) full_step(step, first_tile);
      for (std::int32_t r : stage.reduces) end_reduce(r);
      for (const Step& step : stage.finish_steps) row_step(step);
    }
  }

  void run_long_row(std::int64_t row) {
    row_ = row;
    rows_ = 1;
    for (std::size_t n = 0; n < s_.stages.size(); ++n) {
      const StageCode& stage = s_.stages[n];
      for (const Step& step : stage.row_steps) row_step(step);
      for (std::int32_t r : stage.reduces) begin_reduce(r);
      row_totals_.resize(s_.totals.size());
      for (std::int32_t t : stage.totals) {
        const Accumulator none = identity(s_.totals[t].op, s_.totals[t].type);
        row_totals_[t] = {none, none};
      }
      if (!stage.full_steps.empty()) {
        constexpr std::int64_t kGroup = static_cast<std::int64_t>(kBlocksPerGroup) * kTile;
        const std::int64_t tile = stage.whole_rows ? s_.columns : stage.one_chain ? kGroup : kTile;
        for (column_ = 0; column_ < s_.columns; column_ += tile) {
          width_ = count_ = std::min(tile, s_.columns - column_);
          first_ = row * s_.columns + column_;
          if (column_ > 0 && column_ % kGroup == 0) close_groups(stage);
          move_pointers();
          for (const Step& step : stage.full_steps) full_step(step, column_ == 0);
        }
      }
      for (std::int32_t r : stage.reduces) end_reduce(r);
      for (std::int32_t n : stage.totals) {
        const Total& t = s_.totals[n];
        combine(t.op, t.type, row_totals_[n].second, row_totals_[n].first);
        combine(t.op, t.type, totals_[n], row_totals_[n].second);
      }
      for (const Step& step : stage.finish_steps) row_step(step);
    }
  }

  // Row reductions are sums of groups of blocks; [0] is the open group, [1] the closed ones.
  Accumulator* groups(std::int32_t reduce) {
    return accumulators_ + static_cast<std::int64_t>(reduce) * 2 * s_.rows_per_tile;
  }

  void begin_reduce(std::int32_t r) {
    const RowReduce& reduce = s_.reduces[r];
    Accumulator* open = groups(r);
    std::fill(open, open + 2 * s_.rows_per_tile, identity(reduce.op, reduce.type));
  }
  void close_groups(const StageCode& stage) {
    for (std::int32_t r : stage.reduces) {
      const RowReduce& reduce = s_.reduces[r];
      Accumulator* open = groups(r);
      combine(reduce.op, reduce.type, open[s_.rows_per_tile], open[0]);
      open[0] = identity(reduce.op, reduce.type);
    }
    for (std::int32_t n : stage.totals) {
      const Total& t = s_.totals[n];
      combine(t.op, t.type, row_totals_[n].second, row_totals_[n].first);
      row_totals_[n].first = identity(t.op, t.type);
    }
  }
  void end_reduce(std::int32_t r) {
    const RowReduce& reduce = s_.reduces[r];
    Accumulator* open = groups(r);
    auto* dst = static_cast<std::byte*>(pointers_[reduce.dst]);
    for (std::int64_t i = 0; i < rows_; ++i) {
      combine(reduce.op, reduce.type, open[s_.rows_per_tile + i], open[i]);
      write(reduce.type, dst + i * static_cast<std::int64_t>(size_of(reduce.type)), open[s_.rows_per_tile + i]);
    }
  }

  void row_step(const Step& step) {
    const auto n = static_cast<std::size_t>(rows_);
    switch (step.kind) {
      case Step::Kind::compute:
        step.fn(pointers_[step.dst], at(step.a), at(step.b), at(step.c), n);
        break;
      case Step::Kind::check:
        check(step, 0, rows_, row_, s_.program.dims.size() - static_cast<std::size_t>(s_.program.row_dims));
        break;
      case Step::Kind::repeat:
        r_.k.fill(s_.registers[step.dst].type, pointers_[step.dst], pointers_[step.a], n);
        break;
      case Step::Kind::load_row:
        r_.load(step.item, s_.registers[step.dst].type, pointers_[step.dst], s_.operand_row_layouts[step.item], row_,
                rows_);
        break;
      case Step::Kind::store_row:
        store(step.item, pointers_[step.a], s_.registers[step.a].type, s_.output_row_layouts[step.item], row_, rows_);
        break;
      case Step::Kind::total_row: {
        const Total& t = s_.totals[step.item];
        const auto* from = static_cast<const std::byte*>(pointers_[step.a]);
        const bool one = s_.registers[step.a].kind == Register::Kind::scalar;
        for (std::int64_t i = 0; i < rows_; ++i)
          combine(t.op, t.type, totals_[step.item],
                  read(t.type, from + (one ? 0 : i * static_cast<std::int64_t>(size_of(t.type)))));
        break;
      }
      default:
        break;
    }
  }

  const void* at(std::int32_t reg) const { return reg >= 0 ? pointers_[reg] : nullptr; }
  // Element `from` of the tile; numbers stay where they are.
  void* at(std::int32_t reg, std::int64_t from) const {
    if (reg < 0) return nullptr;
    const Register& r = s_.registers[reg];
    if (r.kind == Register::Kind::scalar || r.kind == Register::Kind::row) return pointers_[reg];
    if (r.kind == Register::Kind::slot && s_.slots_hold_a_block) from %= kTile;
    return static_cast<std::byte*>(pointers_[reg]) + from * static_cast<std::int64_t>(size_of(r.type));
  }

  void full_step(const Step& step, bool first_tile) {
    const auto n = static_cast<std::size_t>(count_);
    switch (step.kind) {
      case Step::Kind::compute:
        step.fn(pointers_[step.dst], at(step.a), at(step.b), at(step.c), n);
        break;
      case Step::Kind::check:
        check(step, 0, count_, first_, s_.program.dims.size());
        break;
      case Step::Kind::chain:
        chain(s_.chains[step.item]);
        break;
      case Step::Kind::load:
        if (step.invariant && !first_tile) break;
        r_.load(step.item, s_.registers[step.dst].type, pointers_[step.dst], s_.operand_layouts[step.item], first_,
                count_);
        break;
      case Step::Kind::repeat:
        r_.k.fill(s_.registers[step.dst].type, pointers_[step.dst], pointers_[step.a], n);
        break;
      case Step::Kind::spread: {
        const RegType type = s_.registers[step.dst].type;
        const auto size = static_cast<std::int64_t>(size_of(type));
        auto* dst = static_cast<std::byte*>(pointers_[step.dst]);
        const auto* from = static_cast<const std::byte*>(pointers_[step.a]);
        for (std::int64_t i = 0; i < rows_; ++i)
          r_.k.fill(type, dst + i * width_ * size, from + i * size, static_cast<std::size_t>(width_));
        break;
      }
      case Step::Kind::reduce:
        accumulate(s_.reduces[step.item], step, groups(step.item), 0, rows_, width_);
        break;
      case Step::Kind::pick:
        pick(step);
        break;
      case Step::Kind::place:
        place(step);
        break;
      case Step::Kind::store:
        store(step.item, pointers_[step.a], s_.registers[step.a].type, s_.output_layouts[step.item], first_, count_);
        break;
      case Step::Kind::total: {
        const Total& t = s_.totals[step.item];
        if (s_.long_rows) {
          accumulate(t, step, &row_totals_[step.item].first, 0, 1, count_);
          break;
        }
        for (std::int64_t i = 0; i < rows_; ++i) {
          Accumulator acc = identity(t.op, t.type);
          accumulate(t, step, &acc, i * width_, 1, width_);
          combine(t.op, t.type, totals_[step.item], acc);
        }
        break;
      }
      case Step::Kind::columns:
        columns_[step.item].add(pointers_[step.a], rows_, column_, width_);
        break;
      default:
        break;
    }
  }

  // A sum, or a sum of products, of `rows` rows of n elements from element `first` of the tile.
  template <class Reduction>
  void accumulate(const Reduction& r, const Step& step, Accumulator* acc, std::int64_t first, std::int64_t rows,
                  std::int64_t n) {
    const std::int64_t skip = first * static_cast<std::int64_t>(size_of(r.type));
    const auto* a = static_cast<const std::byte*>(pointers_[step.a]) + skip;
    if (step.b < 0) {
      r.fn(acc, a, static_cast<std::size_t>(rows), static_cast<std::size_t>(n));
    } else {
      r.dot(acc, a, static_cast<const std::byte*>(pointers_[step.b]) + skip, static_cast<std::size_t>(rows),
            static_cast<std::size_t>(n));
    }
  }

  void store(int output, const void* from, RegType type, const Layout& layout, std::int64_t first, std::int64_t n) {
    const Output& o = s_.program.outputs[output];
    auto* data = static_cast<std::byte*>(r_.args[o.slot].data);
    const auto* source = static_cast<const std::byte*>(from);
    const auto bytes = static_cast<std::int64_t>(size_of(o.dtype)), size = static_cast<std::int64_t>(size_of(type));
    const StoreFn fn = s_.output_stores[output];
    walk(layout, first, n, [&](std::int64_t address, std::int64_t stride, std::int64_t count, std::int64_t done) {
      fn(data + address * bytes, stride, source + done * size, static_cast<std::size_t>(count));
    });
  }

  bool index_ok(const Step& step, std::int64_t i, std::int64_t index) {
    if (index >= 0 && index < s_.columns) return true;
    const Instr& instr = s_.program.instrs[step.instr];
    const std::size_t row_dims = s_.program.dims.size() - static_cast<std::size_t>(s_.program.row_dims);
    r_.complaint.add(row_ + i, step.instr,
                     fmt::format("{}{} = {} is outside [0, {})", instr.label ? instr.label : "gather: index",
                                 position_text(s_.program.dims, row_dims, row_ + i), index, s_.columns),
                     Error::Kind::index);
    return false;
  }

  std::int64_t index_of(std::int32_t reg, std::int64_t i) const {
    const auto* p = static_cast<const std::int64_t*>(pointers_[reg]);
    return s_.registers[reg].kind == Register::Kind::scalar ? *p : p[i];
  }

  void pick(const Step& step) {
    const auto size = size_of(s_.registers[step.a].type);
    const auto* from = static_cast<const std::byte*>(pointers_[step.a]);
    auto* dst = static_cast<std::byte*>(pointers_[step.dst]);
    for (std::int64_t i = 0; i < rows_; ++i) {
      const std::int64_t index = index_of(step.b, i);
      if (!index_ok(step, i, index)) {
        std::memset(dst + i * static_cast<std::int64_t>(size), 0, size);
        continue;
      }
      if (index < column_ || index >= column_ + width_) continue;
      std::memcpy(dst + i * static_cast<std::int64_t>(size),
                  from + (i * width_ + index - column_) * static_cast<std::int64_t>(size), size);
    }
  }

  void place(const Step& step) {
    const auto size = size_of(s_.registers[step.dst].type);
    auto* dst = static_cast<std::byte*>(pointers_[step.dst]);
    const auto* from = static_cast<const std::byte*>(pointers_[step.a]);
    const bool one = s_.registers[step.a].kind == Register::Kind::scalar;
    std::memset(dst, 0, static_cast<std::size_t>(count_) * size);
    for (std::int64_t i = 0; i < rows_; ++i) {
      const std::int64_t index = index_of(step.b, i);
      if (!index_ok(step, i, index) || index < column_ || index >= column_ + width_) continue;
      std::memcpy(dst + (i * width_ + index - column_) * static_cast<std::int64_t>(size),
                  from + (one ? 0 : i) * static_cast<std::int64_t>(size), size);
    }
  }

  // Elements [from, from + n) of the tile; `first` is the position of the first of them.
  void check(const Step& step, std::int64_t from, std::int64_t n, std::int64_t first, std::size_t dims) {
    const RegType type = s_.registers[step.dst].type;
    const std::size_t mask_size = size_of(s_.registers[step.b].type);
    const auto* mask = static_cast<const std::byte*>(at(step.b, from));
    const bool one = s_.registers[step.b].kind == Register::Kind::scalar;
    // Masks are all ones or zero: mostly one look at all of them together is enough.
    std::uint32_t good = ~0u;
    const auto* words = reinterpret_cast<const std::uint32_t*>(mask);
    const std::size_t count = static_cast<std::size_t>(one ? 1 : n) * mask_size / sizeof(std::uint32_t);
    for (std::size_t i = 0; i < count; ++i) good &= words[i];
    for (std::int64_t i = 0; good != ~0u && i < (one ? 1 : n); ++i) {
      if (mask[static_cast<std::size_t>(i) * mask_size] != std::byte{0}) continue;
      r_.complaint.add(
          first + i, step.instr,
          fmt::format("{}, but the element at {} is {}", s_.program.instrs[step.instr].label,
                      position_text(s_.program.dims, dims, first + i), number_text(type, at(step.a, from + i))));
      break;
    }
    step.fn(at(step.dst, from), at(step.a, from), at(step.b, from), nullptr, static_cast<std::size_t>(n));
  }

  // A chain: the loop for whole turns, its steps for the few elements left and for blocks where a guard does not hold.
  void chain(const Chain& c) {
    const auto turn = static_cast<std::int64_t>(c.loop->group());
    std::array<void*, kMaxLoopPointers> pointers;
    for (std::size_t p = 0; p < c.registers.size(); ++p) pointers[p] = at(c.registers[p], 0);
    for (std::int64_t first = 0; first < count_;) {
      // All whole blocks in one call, then what is left.
      const std::int64_t n = std::min(kTile, count_ - first);
      const std::int64_t blocks = n < kTile ? 1 : std::min(kBlocksAtOnce, (count_ - first) / kTile);
      alignas(kGuardBytes) std::byte state[kBlocksAtOnce * kMaxLoopState];
      const auto state_bytes = static_cast<std::int64_t>(c.loop->state_bytes());
      const int in_vain = r_.in_vain.load(std::memory_order_relaxed);
      if (c.loop->guards() > 0 && in_vain >= kTooOften) {  // extremes all over: the steps alone, for a while
        std::memset(state, 0, static_cast<std::size_t>(blocks * state_bytes));
        r_.in_vain.store(in_vain + 1 < kGiveItAnotherTry ? in_vain + 1 : 0, std::memory_order_relaxed);
      } else {
        c.loop->run(pointers.data(), static_cast<std::size_t>(n / turn), state, static_cast<std::size_t>(blocks));
      }
      if (c.loop->guards() > 0 || n % turn != 0) {
        bool held = true;
        for (std::int64_t b = 0; b < blocks; ++b)
          held = repair(c, state + b * state_bytes, first + b * kTile, n, n / turn * turn) && held;
        if (c.loop->guards() > 0 && in_vain < kTooOften)
          r_.in_vain.store(held ? 0 : in_vain + 1, std::memory_order_relaxed);
      }
      add_sums(c, state, first, blocks);
      first += blocks * kTile;
      for (std::size_t p = 0; p < c.registers.size(); ++p)
        pointers[p] = static_cast<std::byte*>(pointers[p]) + blocks * kTile * c.strides[p];
    }
  }
  static constexpr std::int64_t kBlocksAtOnce = 16;
  static constexpr int kTooOften = 4, kGiveItAnotherTry = 64;  // calls of loops whose guards did not hold

  // The steps for what the loop did not do of the n elements from `block`: those after `done`, or all if a guard did
  // not hold (then the result is false).
  bool repair(const Chain& c, std::byte* state, std::int64_t block, std::int64_t n, std::int64_t done) {
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
      std::memset(state, 0, sums);
    }
    const std::int64_t first = block + done, left = n - done;
    if (left == 0) return held;
    std::size_t sum = 0;
    for (const Step& step : c.steps) {
      if (step.kind == Step::Kind::compute) {
        step.fn(at(step.dst, first), at(step.a, first), at(step.b, first), at(step.c, first),
                static_cast<std::size_t>(left));
      } else if (step.kind == Step::Kind::check) {
        check(step, first, left, first_ + first, s_.program.dims.size());
      } else if (step.kind == Step::Kind::load) {
        r_.load(step.item, s_.registers[step.dst].type, at(step.dst, first), s_.operand_layouts[step.item],
                first_ + first, left);
      } else if (step.kind == Step::Kind::store) {
        store(step.item, at(step.a, first), s_.registers[step.a].type, s_.output_layouts[step.item], first_ + first,
              left);
      } else {  // a sum, here: what it adds may be overwritten by a later step
        std::byte* to = state + sum++ * lanes;
        c.wide ? add_rest<double>(step, to, first, left) : add_rest<float>(step, to, first, left);
      }
    }
    return held;
  }

  void add_sums(const Chain& c, const std::byte* state, std::int64_t first, std::int64_t blocks) {
    std::array<double, kBlocksAtOnce> sums;
    for (std::size_t k = 0; k < c.sums.size(); ++k) {
      const std::byte* from = state + k * kLoopGroup * (c.wide ? 8 : 4);
      c.wide ? add_lanes<double>(from, c.loop->state_bytes(), blocks, sums.data())
             : add_lanes<float>(from, c.loop->state_bytes(), blocks, sums.data());
      const Step& step = c.sums[k];
      for (std::int64_t b = 0; b < blocks; ++b) {
        if (step.kind == Step::Kind::reduce) {
          groups(step.item)[0].real += sums[b];
        } else if (s_.flat) {
          r_.totals[step.item][(first_ + first) / kTile + b].real = sums[b];
        } else {
          row_totals_[step.item].first.real += sums[b];
        }
      }
    }
  }

  // The tree of every sum: elements go to the lanes whose turn it is, then the lanes are added in order.
  template <class T>
  void add_rest(const Step& step, std::byte* state, std::int64_t from, std::int64_t left) {
    T* lanes = reinterpret_cast<T*>(state);
    const T *a = static_cast<const T*>(at(step.a, from)), *b = static_cast<const T*>(at(step.b, from));
    for (std::int64_t i = 0; i < left; ++i) lanes[i % static_cast<std::int64_t>(kLoopGroup)] += b ? a[i] * b[i] : a[i];
  }
  // Of several blocks at a time: each is a chain of additions that wait for each other.
  template <class T>
  static void add_lanes(const std::byte* state, std::size_t stride, std::int64_t blocks, double* sums) {
    for (std::int64_t b = 0; b < blocks; ++b) sums[b] = 0;
    for (std::int64_t b = 0; b < blocks; b += 4) {
      const std::int64_t end = std::min(b + 4, blocks);
      for (std::size_t k = 0; k < kLoopGroup; ++k) {
        for (std::int64_t n = b; n < end; ++n)
          sums[n] += static_cast<double>(reinterpret_cast<const T*>(state + static_cast<std::size_t>(n) * stride)[k]);
      }
    }
  }

  SweepRun& r_;
  const CompiledSweep& s_;
  std::int64_t index_;
  std::vector<void*> pointers_;
  std::vector<std::int32_t> moving_;
  std::vector<std::byte*> scratch_;
  Accumulator* accumulators_ = nullptr;
  std::vector<Accumulator> totals_;
  std::vector<std::pair<Accumulator, Accumulator>> row_totals_;
  std::vector<ColumnSums> columns_;
  // The tile: elements [first_, first_ + count_) of the space; rows_ rows from row_, columns [column_, column_ +
  // width_).
  std::int64_t first_ = 0, count_ = 0, row_ = 0, rows_ = 1, column_ = 0, width_ = 0;
};

}  // namespace ebb::cpu
