// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/parallel.h"
#include "cpu/model/cpu_model.h"
#include "cpu/sweep/task.h"
#include "ebb/memory.h"

namespace ebb::cpu {

void SweepRun::go() {
  totals.resize(s.totals.size());
  for (std::size_t t = 0; t < s.totals.size(); ++t) {
    const std::int64_t parts = s.flat ? (s.elements + kTile - 1) / kTile : s.totals_by_row ? s.rows : s.tasks;
    totals[t].assign(static_cast<std::size_t>(parts), identity(s.totals[t].op, s.totals[t].type));
  }
  columns.resize(s.column_reduces.size());
  if (const std::int64_t slabs = column_slabs(); slabs > 0) {
    reduce_slabs(slabs);
    in_slabs = true;
    epilogue();
    return;
  }
  for (auto& c : columns) c.resize(static_cast<std::size_t>(s.tasks));
  parallel_for(s.tasks, [this](std::int64_t i) { SweepTask(*this, i).run(); });
  complaint.raise();
  if (s.totals_by_row) add_rows_of_totals();
  for (std::size_t t = 0; t < s.totals.size(); ++t) {
    const Total& total = s.totals[t];
    Accumulator sum = identity(total.op, total.type), group = sum;
    // The same tree as a row's: blocks in groups, groups in order.
    const std::size_t per_group = s.flat ? kBlocksPerGroup : 1;
    for (std::size_t i = 0; i < totals[t].size(); ++i) {
      if (i > 0 && i % per_group == 0) {
        combine(total.op, total.type, sum, group);
        group = identity(total.op, total.type);
      }
      combine(total.op, total.type, group, totals[t][i]);
    }
    combine(total.op, total.type, sum, group);
    write(total.type, scalar(total.instr), sum);
  }
  epilogue();
}

// Slabs of columns for a sweep that only sums columns; 0: for other sweeps, and where threads would have few columns
// each. Then parts of rows are tasks, and all their sums are kept.
std::int64_t SweepRun::column_slabs() const {
  const CpuModel& model = cpu_model();
  if (!s.straight || s.column_reduces.empty() || s.elements == 0 || !s.totals.empty() || !s.reduces.empty()) return 0;
  const StageCode& stage = s.stages[0];
  const auto sums = [](const Step& step) { return step.kind == Step::Kind::columns; };
  if (s.stages.size() > 1 || !std::all_of(stage.full_steps.begin(), stage.full_steps.end(), sums)) return 0;
  if (!stage.row_steps.empty() || !stage.finish_steps.empty()) return 0;
  const std::int64_t threads = std::clamp<std::int64_t>(s.elements / model.sweep_slab_elements, 1, num_threads());
  if (threads > 1 && s.columns < threads * model.sweep_slab_columns) return 0;
  return std::clamp(s.columns / (4 * model.sweep_slab_columns), threads, 4 * threads);
}

// The order of parts and runs is that of tasks, which have all columns of a part each.
void SweepRun::reduce_slabs(std::int64_t slabs) {
  constexpr std::int64_t kTogether = CpuModel::sweep_slab_sums;
  const std::int64_t width = (s.columns + slabs - 1) / slabs;
  for (const Step& step : s.stages[0].full_steps) {
    const ColumnReduce& reduce = s.column_reduces[step.item];
    const Register& memory = s.registers[step.a];
    const auto bytes = static_cast<std::int64_t>(memory.halves ? 2 : size_of(memory.type));
    const std::byte* data = operand_data(memory.index);
    BufferPtr sums = BufferPtr::allocate(static_cast<std::size_t>(s.columns) * sizeof(Accumulator), "column sums");
    auto* all = reinterpret_cast<Accumulator*>(sums.data());
    const bool any_order = !is_float(reduce.type) || reduce.op == Op::max || reduce.op == Op::min;
    const std::int64_t part = any_order ? s.rows : rows_per_part(s.rows, s.columns);
    parallel_for(slabs, [&](std::int64_t slab) {
      const std::int64_t begin = slab * width, end = std::min(s.columns, begin + width);
      if (begin >= end) return;
      std::fill(all + begin, all + end, identity(reduce.op, reduce.type));
      const auto add = [&](Accumulator* to, std::int64_t row, std::int64_t column, std::int64_t count) {
        const std::int64_t rows = std::min(part, s.rows - row);
        reduce.fn(to, nullptr, data + (row * s.columns + column) * bytes,
                  {.rows = static_cast<std::size_t>(rows),
                   .columns = static_cast<std::size_t>(count),
                   .stride = static_cast<std::size_t>(s.columns),
                   .closes = true});
      };
      for (std::int64_t row = 0; row < s.rows; row += part) {
        if (any_order || part <= kRowsPerRun) {  // a part is one number, or any order will do
          add(all + begin, row, begin, end - begin);
          continue;
        }
        for (std::int64_t column = begin; column < end; column += kTogether) {
          const std::int64_t count = std::min(kTogether, end - column);
          Accumulator of_part[kTogether];
          std::fill_n(of_part, count, identity(reduce.op, reduce.type));
          add(of_part, row, column, count);
          combine_all(reduce.op, reduce.type, all + column, of_part, count);
        }
      }
    });
    columns[static_cast<std::size_t>(step.item)].push_back(std::move(sums));
  }
}

// Adds them to parts of rows, which are then like those of tasks.
void SweepRun::add_rows_of_totals() {
  const std::int64_t rows = rows_per_part(s.rows, s.columns), parts = (s.rows + rows - 1) / rows;
  for (std::size_t t = 0; t < s.totals.size(); ++t) {
    const Total& total = s.totals[t];
    std::vector<Accumulator> sums(static_cast<std::size_t>(parts), identity(total.op, total.type));
    parallel_for(parts, [&](std::int64_t part) {
      const std::int64_t first = part * rows;
      combine_in_order(total.op, total.type, sums[static_cast<std::size_t>(part)],
                       &totals[t][static_cast<std::size_t>(first)], std::min(s.rows - first, rows));
    });
    totals[t] = std::move(sums);
  }
}

void SweepRun::finish_columns(std::vector<std::pair<std::int32_t, BufferPtr>>& made) {
  for (std::size_t c = 0; c < s.column_reduces.size(); ++c) {
    const ColumnReduce& reduce = s.column_reduces[c];
    const auto size = static_cast<std::int64_t>(size_of(reduce.type));
    BufferPtr out =
        BufferPtr::allocate(std::max<std::size_t>(static_cast<std::size_t>(s.columns * size), 8), "column sums");
    const bool in_type = !in_slabs && ColumnSums::within_a_run(reduce.type, s.units_per_task);
    constexpr std::int64_t kTogether = CpuModel::sweep_part_sums;  // parts in order, columns side by side
    const auto add_parts = [&](std::int64_t piece) {
      const std::int64_t first = piece * kTogether, count = std::min(kTogether, s.columns - first);
      Accumulator sums[kTogether];
      std::fill_n(sums, count, identity(reduce.op, reduce.type));
      for (const BufferPtr& task : columns[c]) {
        if (!in_type) {
          combine_all(reduce.op, reduce.type, sums, reinterpret_cast<const Accumulator*>(task.data()) + first, count);
        } else if (reduce.type == RegType::f32) {
          const auto* x = reinterpret_cast<const float*>(task.data()) + first;
          combine_reals(reduce.op, sums, count, [x](std::int64_t i) { return static_cast<double>(x[i]); });
        } else {
          const auto* x = reinterpret_cast<const double*>(task.data()) + first;
          combine_reals(reduce.op, sums, count, [x](std::int64_t i) { return x[i]; });
        }
      }
      write_all(reduce.type, out.data() + first * size, sums, count);
    };
    // Sums of other threads are in their caches, and a single thread would wait for all of them.
    const std::int64_t pieces = (s.columns + kTogether - 1) / kTogether;
    if (s.tasks * s.columns >= cpu_model().sweep_shared_sums) {
      parallel_for(pieces, add_parts);
    } else {
      for (std::int64_t piece = 0; piece < pieces; ++piece) add_parts(piece);
    }
    made.emplace_back(reduce.instr, std::move(out));
  }
}

// Scalars and whole columns, one instruction after the other.
void SweepRun::epilogue() {
  std::vector<std::pair<std::int32_t, BufferPtr>> made;
  finish_columns(made);
  const std::size_t row_dims = p().dims.size() - static_cast<std::size_t>(p().row_dims);
  auto column = [&](std::int32_t instr) -> std::byte* {
    for (auto& [i, buffer] : made) {
      if (i == instr) return buffer.data();
    }
    return nullptr;
  };
  for (const Step& step : s.epilogue) {
    const Instr& i = p().instrs[step.instr];
    if (i.level == Level::scalar) {
      step.fn(scalar(step.instr), scalar(step.a), step.b >= 0 ? scalar(step.b) : nullptr,
              step.c >= 0 ? scalar(step.c) : nullptr, 1);
      continue;
    }
    const auto n = static_cast<std::size_t>(s.columns);
    BufferPtr out = BufferPtr::allocate(std::max<std::size_t>(n * size_of(i.type), 8), "column values");
    if (step.kind == Step::Kind::load) {
      load(step.item, i.type, out.data(),
           layout_of(p().dims, row_dims, p().dims.size(), p().operands[step.item].strides), 0, s.columns);
    } else {
      std::array<BufferPtr, 3> repeated;
      std::array<const void*, 3> from{};
      const std::int32_t arg[] = {step.a, step.b, step.c};
      for (int a = 0; a < 3; ++a) {
        if (arg[a] < 0) continue;
        const Instr& source = p().instrs[arg[a]];
        if (source.level == Level::scalar) {
          repeated[a] = BufferPtr::allocate(std::max<std::size_t>(n * size_of(source.type), 8), "column values");
          k.fill(source.type, repeated[a].data(), scalar(arg[a]), n);
          from[a] = repeated[a].data();
        } else {
          from[a] = column(arg[a]);
        }
      }
      step.fn(out.data(), from[0], from[1], from[2], n);
    }
    made.emplace_back(step.instr, std::move(out));
  }
  for (std::size_t o = 0; o < p().outputs.size(); ++o) {
    const Output& output = p().outputs[o];
    const Instr& i = p().instrs[output.value];
    auto* data = static_cast<std::byte*>(args[output.slot].data);
    if (i.level == Level::scalar) {
      s.output_stores[o](data, 1, scalar(output.value), 1);
    } else if (i.level == Level::column) {
      const std::byte* from = column(output.value);
      const auto bytes = static_cast<std::int64_t>(size_of(output.dtype)),
                 size = static_cast<std::int64_t>(size_of(i.type));
      walk(layout_of(p().dims, row_dims, p().dims.size(), output.strides), 0, s.columns,
           [&](std::int64_t address, std::int64_t stride, std::int64_t count, std::int64_t done) {
             s.output_stores[o](data + address * bytes, stride, from + done * size, static_cast<std::size_t>(count));
           });
    }
  }
}

void run(const ebb::CompiledSweep& compiled, std::span<const Argument> arguments, std::int64_t first_row) {
  const auto& sweep = static_cast<const CompiledSweep&>(compiled);
  SweepRun r{sweep, arguments, tile_kernels(), first_row, {}, {}, {}, false, {}};
  r.run_scalars();
  r.go();
}

}  // namespace ebb::cpu
