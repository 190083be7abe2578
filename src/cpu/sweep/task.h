// SPDX-License-Identifier: MIT
#pragma once
#include <utility>
#include <vector>

#include "cpu/sweep/columns.h"
#include "cpu/sweep/state.h"

namespace ebb::cpu {

// One task: its registers and accumulators, and its tiles in order.
class SweepTask {
 public:
  SweepTask(SweepRun& run, std::int64_t index);
  void run();

 private:
  // Tiles, rows and stages (task.cc).
  void find_rows();
  void move_pointers();
  void run_flat();
  void run_rows();
  void run_columns(const StageCode& stage);
  template <class Run>
  void each_sum(const StageCode& stage, Run&& run);
  void begin_sums(const StageCode& stage);
  void close_groups(const StageCode& stage);
  void add_to_total(std::int32_t total, const Accumulator* of_rows);
  void end_sums(const StageCode& stage);

  // Steps (task_steps.cc). check: elements [from, from + n) of the tile, or of its row values.
  void row_step(const Step& step);
  void full_step(const Step& step);
  template <class Run>
  void each_run(const Step& step, Run&& run);
  template <class Reduction>
  void accumulate(const Reduction& r, const Step& step, Accumulator* acc, std::int64_t first, std::int64_t n);
  template <class Reduction>
  void accumulate_rows(const Reduction& r, const Step& step, std::int32_t sum, void* results = nullptr);
  void total(const Total& t, const Step& step);
  void load(const Step& step);
  void store(const Step& step);
  void spread(const Step& step);
  void store(int output, const void* from, RegType type, const Layout& layout, std::int64_t first, std::int64_t n,
             std::int64_t shift = 0);
  std::int64_t position_of(std::int64_t element) const;
  template <class Run>
  void each_piece(const Layout& columns, const Layout& rows, bool whole, Run&& run);
  void complain_of_index(const Step& step, std::int64_t i, std::int64_t index);
  template <class Run>
  void each_index(const Step& step, std::int64_t across, Run&& run);
  void pick(const Step& step);
  void place(const Step& step);
  void check(const Step& step, std::int64_t from, std::int64_t n, bool of_rows);

  // Chains (task_chain.cc).
  void chain(const Chain& c, std::int64_t count);
  void chain_by_row(const Chain& c);
  void run_loop(const Chain& c, void* const* pointers, std::byte* state, std::int64_t first, std::int64_t n,
                std::int64_t blocks);
  bool repair(const Chain& c, std::byte* state, const std::byte* before, std::int64_t block, std::int64_t n,
              std::int64_t done);
  void add_sums(const Chain& c, const std::byte* state, std::int64_t first, std::int64_t blocks, std::int64_t of_row);
  template <class T>
  void add_rest(const Step& step, std::byte* state, std::int64_t from, std::int64_t left);

  // The sums of a row: its reductions, then its totals, each a sum of groups of blocks. [0] is the open group, [1] the
  // closed ones; rows side by side whose columns take several tiles keep the lanes of an open block, too.
  Accumulator* groups(std::int32_t sum) const { return accumulators_ + sum * 2 * s_.rows_per_tile; }
  std::int32_t sum_of_total(std::int32_t total) const { return static_cast<std::int32_t>(s_.reduces.size()) + total; }
  // Rows side by side with all their columns in the tile: their sums need no accumulators.
  bool at_once(const RowReduce& r) const { return s_.upright() && !s_.long_rows && is_float(r.type); }
  std::byte* lanes(std::int32_t sum) const { return lanes_ + static_cast<std::size_t>(sum) * lane_bytes_; }

  const void* at(std::int32_t reg) const { return reg >= 0 ? at(reg, 0) : nullptr; }
  // Address of element `from` of the tile, in strips of the current column, row by row of the current row; single
  // numbers have one address.
  void* at(std::int32_t reg, std::int64_t from) const {
    if (reg < 0) return nullptr;
    const Register& r = s_.registers[reg];
    if (r.kind == Register::Kind::scalar) return pointers_[reg];
    if (r.kind == Register::Kind::row && !s_.strips)
      return static_cast<std::byte*>(pointers_[reg]) + shown_row_ * bytes_of(r);
    if (r.kind == Register::Kind::slot && s_.slots_hold_a_block) from %= kTile;
    if (!r.each_row) from += shown_row_ * width_;
    return static_cast<std::byte*>(pointers_[reg]) + (from + shown_ * step_of(r)) * bytes_of(r);
  }
  static std::int64_t bytes_of(const Register& r) { return r.halves ? 2 : static_cast<std::int64_t>(size_of(r.type)); }
  // Rows side by side: elements from one column to the next.
  std::int64_t step_of(const Register& r) const {
    return r.kind == Register::Kind::row ? 0 : r.across >= 0 ? r.across : side_;
  }

  SweepRun& r_;
  const CompiledSweep& s_;
  std::int64_t index_;
  void** pointers_ = nullptr;
  std::byte** scratch_ = nullptr;
  std::byte** of_row_ = nullptr;  // of moving registers, for row found_row_
  std::int64_t found_row_ = -1;
  Accumulator* accumulators_ = nullptr;
  std::byte* lanes_ = nullptr;
  std::size_t lane_bytes_ = 0;
  std::vector<Accumulator> totals_;
  std::vector<ColumnSums> columns_;
  // The tile: elements [first_, first_ + count_) of the space; rows_ rows from row_, columns [column_, column_ +
  // width_).
  std::int64_t first_ = 0, count_ = 0, row_ = 0, rows_ = 1, column_ = 0, width_ = 0;
  std::int64_t side_ = 1;         // rows of the tile that lie side by side
  std::int64_t shown_ = 0;        // the column of a strip that steps by column are at
  std::int64_t shown_row_ = 0;    // the row that steps by row are at
  std::int64_t loaded_rows_ = 0;  // of the tile that invariant steps were done for
};

}  // namespace ebb::cpu
