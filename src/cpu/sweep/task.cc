// SPDX-License-Identifier: MIT
#include "cpu/sweep/task.h"

// A task's memory, and its way through tiles, rows and stages.
namespace ebb::cpu {
namespace {

// Kept from task to task: fresh memory for every task would be fresh pages.
std::byte* task_memory(std::size_t bytes) {
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

}  // namespace

SweepTask::SweepTask(SweepRun& run, std::int64_t index) : r_(run), s_(run.s), index_(index) {
  const std::size_t slots = s_.slot_bytes * static_cast<std::size_t>(s_.slots);
  const std::size_t row_bytes = (static_cast<std::size_t>(s_.rows_per_tile) * 8 + 127) / 128 * 128;
  const std::size_t rows = row_bytes * static_cast<std::size_t>(s_.row_registers);
  std::size_t scratch = 0;
  for (std::size_t b : s_.scratch_bytes) scratch += (b * static_cast<std::size_t>(s_.columns) + 127) / 128 * 128;
  const std::size_t accumulators =
      s_.reduces.size() * static_cast<std::size_t>(s_.rows_per_tile) * 2 * sizeof(Accumulator);
  std::byte* at = task_memory(slots + rows + scratch + accumulators + 256);
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

void SweepTask::run() {
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

void SweepTask::move_pointers() {
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
      at = reg.piece == 0 ? column_ : column_ / reg.piece * reg.step + column_ % reg.piece;
      walk(rows, row_, 1, [&](std::int64_t address, std::int64_t, std::int64_t, std::int64_t) { at += address; });
    }
    pointers_[i] = data + at * size;
  }
}

void SweepTask::run_flat() {
  move_pointers();
  for (const Step& step : s_.stages[0].full_steps) full_step(step, true);
}

void SweepTask::run_short_rows(bool first_tile) {
  move_pointers();
  for (const StageCode& stage : s_.stages) {
    for (const Step& step : stage.row_steps) row_step(step);
    for (std::int32_t r : stage.reduces) begin_reduce(r);
    for (const Step& step : stage.full_steps) full_step(step, first_tile);
    for (std::int32_t r : stage.reduces) end_reduce(r);
    for (const Step& step : stage.finish_steps) row_step(step);
  }
}

void SweepTask::run_long_row(std::int64_t row) {
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

void SweepTask::begin_reduce(std::int32_t r) {
  const RowReduce& reduce = s_.reduces[r];
  Accumulator* open = groups(r);
  std::fill(open, open + 2 * s_.rows_per_tile, identity(reduce.op, reduce.type));
}
void SweepTask::close_groups(const StageCode& stage) {
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
void SweepTask::end_reduce(std::int32_t r) {
  const RowReduce& reduce = s_.reduces[r];
  Accumulator* open = groups(r);
  auto* dst = static_cast<std::byte*>(pointers_[reduce.dst]);
  for (std::int64_t i = 0; i < rows_; ++i) {
    combine(reduce.op, reduce.type, open[s_.rows_per_tile + i], open[i]);
    write(reduce.type, dst + i * static_cast<std::int64_t>(size_of(reduce.type)), open[s_.rows_per_tile + i]);
  }
}

}  // namespace ebb::cpu
