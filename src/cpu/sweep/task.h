// SPDX-License-Identifier: MIT
#pragma once
#include <utility>
#include <vector>

#include "cpu/sweep/columns.h"
#include "cpu/sweep/state.h"

namespace ebb::cpu {

// One task: its registers and accumulators, and its tiles one after the other.
class SweepTask {
 public:
  SweepTask(SweepRun& run, std::int64_t index);
  void run();

 private:
  // Tiles, rows and stages (task.cc).
  void move_pointers();
  void run_flat();
  void run_short_rows(bool first_tile);
  void run_long_row(std::int64_t row);
  void begin_reduce(std::int32_t r);
  void close_groups(const StageCode& stage);
  void end_reduce(std::int32_t r);

  // Steps (task_steps.cc). check: elements [from, from + n) of the tile; `first` is the position of the first of them.
  void row_step(const Step& step);
  void full_step(const Step& step, bool first_tile);
  template <class Reduction>
  void accumulate(const Reduction& r, const Step& step, Accumulator* acc, std::int64_t first, std::int64_t rows,
                  std::int64_t n);
  void total(const Total& t, const Step& step);
  void store(int output, const void* from, RegType type, const Layout& layout, std::int64_t first, std::int64_t n,
             std::int64_t shift = 0);
  std::int64_t place_of(std::int64_t row, std::int64_t column) const;
  template <class Run>
  void each_column(const Layout& columns, Run&& run);
  bool index_ok(const Step& step, std::int64_t i, std::int64_t index);
  std::int64_t index_of(std::int32_t reg, std::int64_t i) const;
  void pick(const Step& step);
  void place(const Step& step);
  void check(const Step& step, std::int64_t from, std::int64_t n, std::int64_t first, std::size_t dims);

  // Chains (task_chain.cc).
  void chain(const Chain& c);
  void run_loop(const Chain& c, void* const* pointers, std::byte* state, std::int64_t first, std::int64_t n,
                std::int64_t blocks);
  bool repair(const Chain& c, std::byte* state, const std::byte* before, std::int64_t block, std::int64_t n,
              std::int64_t done);
  void add_sums(const Chain& c, const std::byte* state, std::int64_t first, std::int64_t blocks);
  template <class T>
  void add_rest(const Step& step, std::byte* state, std::int64_t from, std::int64_t left);

  // Row reductions are sums of groups of blocks; [0] is the open group, [1] the closed ones.
  Accumulator* groups(std::int32_t reduce) {
    return accumulators_ + static_cast<std::int64_t>(reduce) * 2 * s_.rows_per_tile;
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
