// SPDX-License-Identifier: MIT
#include "cpu/sweep/task.h"

// A task's memory, and its traversal of tiles, rows and stages.
namespace ebb::cpu {
namespace {

// Kept from task to task: fresh memory for every task would be fresh pages, and a tiny task takes less time than an
// allocation.
struct TaskMemory {
  BufferPtr buffer;
  std::vector<void*> pointers;
  std::vector<std::byte*> scratch, rows;

  std::byte* of(std::size_t bytes) {
    if (buffer.bytes() < bytes) {
      buffer = BufferPtr();
      buffer = BufferPtr::allocate(bytes + bytes / 4, "the tiles of a sweep");
    }
    return buffer.data();
  }
};
TaskMemory& task_memory() {
  thread_local TaskMemory memory;
  return memory;
}

}  // namespace

SweepTask::SweepTask(SweepRun& run, std::int64_t index) : r_(run), s_(run.s), index_(index) {
  const std::size_t slots = s_.slot_bytes * static_cast<std::size_t>(s_.slots);
  const std::size_t row_bytes = (static_cast<std::size_t>(s_.rows_per_tile) * 8 + 127) / 128 * 128;
  const std::size_t rows = row_bytes * static_cast<std::size_t>(s_.row_registers);
  const auto of_scratch = [&](std::size_t bytes) {
    const std::int64_t elements = s_.upright() ? s_.columns * s_.rows_per_tile : s_.columns;
    return (bytes * static_cast<std::size_t>(elements) + 127) / 128 * 128;
  };
  std::size_t scratch = 0;
  for (std::size_t b : s_.scratch_bytes) scratch += of_scratch(b);
  const std::size_t sums = s_.reduces.size() + s_.totals.size();
  const std::size_t accumulators = sums * static_cast<std::size_t>(s_.rows_per_tile) * 2 * sizeof(Accumulator);
  if (s_.upright() && s_.long_rows) lane_bytes_ = static_cast<std::size_t>(s_.rows_per_tile) * kSumLanes * 8;
  TaskMemory& memory = task_memory();
  std::byte* at = memory.of(slots + rows + scratch + accumulators + sums * lane_bytes_ + 256);
  memory.pointers.resize(s_.registers.size());
  memory.rows.resize(s_.moving.size());
  of_row_ = memory.rows.data();
  memory.scratch.clear();
  pointers_ = memory.pointers.data();
  std::byte* slot_base = at;
  std::byte* row_base = slot_base + slots;
  std::byte* scratch_base = row_base + rows;
  for (std::size_t b : s_.scratch_bytes) {
    memory.scratch.push_back(scratch_base);
    scratch_base += of_scratch(b);
  }
  scratch_ = memory.scratch.data();
  accumulators_ = reinterpret_cast<Accumulator*>(scratch_base);
  lanes_ = scratch_base + accumulators;
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
      default:  // see move_pointers
        break;
    }
  }
  for (const Total& t : s_.totals) totals_.push_back(identity(t.op, t.type));
  for (const ColumnReduce& c : s_.column_reduces) columns_.emplace_back(c, s_.columns, s_.units_per_task);
}

void SweepTask::run() {
  const std::int64_t begin = index_ * s_.units_per_task;
  if (s_.flat) {
    for (first_ = begin * s_.tile; first_ < std::min(s_.elements, (begin + s_.units_per_task) * s_.tile);
         first_ += s_.tile) {
      count_ = std::min(s_.tile, s_.elements - first_);
      run_flat();
    }
    return;
  }
  const std::int64_t end = std::min(s_.rows, begin + s_.units_per_task);
  for (row_ = begin; row_ < end; row_ += rows_) {
    rows_ = std::min(s_.rows_per_tile, end - row_);
    if (s_.strips) rows_ = std::min(rows_, s_.beside - row_ % s_.beside);
    side_ = s_.strips ? rows_ : s_.beside;
    run_rows();
    loaded_rows_ = rows_;
  }
  for (std::size_t t = 0; t < s_.totals.size() && !s_.totals_by_row; ++t) r_.totals[t][index_] = totals_[t];
  for (std::size_t c = 0; c < columns_.size(); ++c) r_.columns[c][index_] = columns_[c].finish();
}

// Where memory's row begins, for registers that find their rows; all of the memory for others.
void SweepTask::find_rows() {
  for (std::size_t k = 0; k < s_.moving.size(); ++k) {
    const Register& reg = s_.registers[s_.moving[k]];
    if (reg.kind == Register::Kind::scratch) continue;
    const bool in = reg.kind == Register::Kind::operand;
    of_row_[k] =
        in ? r_.operand_data(reg.index) : static_cast<std::byte*>(r_.args[s_.program.outputs[reg.index].slot].data);
    if (!reg.by_row || reg.each_row) continue;
    const Layout& rows = in ? s_.operand_row_layouts[reg.index] : s_.output_row_layouts[reg.index];
    walk(rows, row_, 1, [&](std::int64_t address, std::int64_t, std::int64_t, std::int64_t) {
      of_row_[k] += address * bytes_of(reg);
    });
  }
  found_row_ = row_;
}

void SweepTask::move_pointers() {
  if (found_row_ != row_) find_rows();
  for (std::size_t k = 0; k < s_.moving.size(); ++k) {
    const std::int32_t i = s_.moving[k];
    const Register& reg = s_.registers[i];
    if (reg.kind == Register::Kind::scratch) {
      pointers_[i] = scratch_[reg.index] + column_ * side_ * bytes_of(reg);
      continue;
    }
    std::int64_t at = reg.each_row ? 0 : first_;
    if (reg.by_row && !reg.each_row)
      at = reg.piece == 0 ? column_ * step_of(reg) : column_ / reg.piece * reg.step + column_ % reg.piece;
    pointers_[i] = of_row_[k] + at * bytes_of(reg);
  }
}

void SweepTask::run_flat() {
  move_pointers();
  for (const Step& step : s_.stages[0].full_steps) full_step(step);
}

// Rows of a tile: their columns at once, or, for every stage, tile by tile.
void SweepTask::run_rows() {
  column_ = 0;
  width_ = s_.columns;
  first_ = row_ * s_.columns;
  count_ = rows_ * s_.columns;
  if (!s_.long_rows) move_pointers();
  for (const StageCode& stage : s_.stages) {
    for (const Step& step : stage.row_steps) row_step(step);
    begin_sums(stage);
    if (s_.long_rows) {
      run_columns(stage);
    } else {
      for (const Step& step : stage.full_steps) full_step(step);
    }
    end_sums(stage);
    for (const Step& step : stage.finish_steps) row_step(step);
  }
}

void SweepTask::run_columns(const StageCode& stage) {
  if (stage.full_steps.empty()) return;
  constexpr std::int64_t kGroup = static_cast<std::int64_t>(kBlocksPerGroup) * kTile;
  const std::int64_t tile = stage.whole_rows ? s_.columns : stage.one_chain ? kGroup : s_.columns_per_tile;
  for (column_ = 0; column_ < s_.columns; column_ += width_) {
    width_ = std::min(tile, s_.columns - column_);
    if (tile < kTile) width_ = std::min(width_, kTile - column_ % kTile);  // blocks of sums end where tiles do
    count_ = rows_ * width_;
    first_ = row_ * s_.columns + column_;
    if (column_ > 0 && column_ % kGroup == 0) close_groups(stage);
    move_pointers();
    for (const Step& step : stage.full_steps) full_step(step);
  }
}

// Calls run(sum, operation, type) for a stage's sums over rows, tile by tile.
template <class Run>
void SweepTask::each_sum(const StageCode& stage, Run&& run) {
  for (std::int32_t r : stage.reduces) {
    if (!at_once(s_.reduces[r])) run(r, s_.reduces[r].op, s_.reduces[r].type);
  }
  for (std::int32_t t : stage.totals) run(sum_of_total(t), s_.totals[t].op, s_.totals[t].type);
}
void SweepTask::begin_sums(const StageCode& stage) {
  each_sum(stage, [this](std::int32_t sum, Op op, RegType type) {
    Accumulator* open = groups(sum);
    std::fill_n(open, rows_, identity(op, type));
    if (s_.columns > kTile) std::fill_n(open + s_.rows_per_tile, rows_, identity(op, type));
  });
}
void SweepTask::close_groups(const StageCode& stage) {
  each_sum(stage, [this](std::int32_t sum, Op op, RegType type) {
    Accumulator* open = groups(sum);
    combine_all(op, type, open + s_.rows_per_tile, open, rows_);
    std::fill_n(open, rows_, identity(op, type));
  });
}
void SweepTask::add_to_total(std::int32_t total, const Accumulator* of_rows) {
  const Total& t = s_.totals[total];
  if (s_.totals_by_row) return combine_all(t.op, t.type, &r_.totals[total][row_], of_rows, rows_);
  combine_in_order(t.op, t.type, totals_[total], of_rows, rows_);
}

// Rows of one block have one group.
void SweepTask::end_sums(const StageCode& stage) {
  const auto finished = [this](std::int32_t sum, Op op, RegType type) {
    Accumulator* open = groups(sum);
    if (s_.columns <= kTile) return open;
    combine_all(op, type, open + s_.rows_per_tile, open, rows_);
    return open + s_.rows_per_tile;
  };
  for (std::int32_t r : stage.reduces) {
    const RowReduce& reduce = s_.reduces[r];
    if (at_once(reduce)) continue;
    write_all(reduce.type, pointers_[reduce.dst], finished(r, reduce.op, reduce.type), rows_);
  }
  for (std::int32_t n : stage.totals) {
    const Total& t = s_.totals[n];
    add_to_total(n, finished(sum_of_total(n), t.op, t.type));
  }
}

}  // namespace ebb::cpu
