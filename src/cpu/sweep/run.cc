// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/parallel.h"
#include "cpu/model/cpu_model.h"
#include "cpu/sweep/task.h"

namespace ebb::cpu {

void SweepRun::go() {
  totals.resize(s.totals.size());
  for (std::size_t t = 0; t < s.totals.size(); ++t) {
    const std::int64_t parts = s.flat ? (s.elements + kTile - 1) / kTile : s.totals_by_row ? s.rows : s.tasks;
    totals[t].assign(static_cast<std::size_t>(parts), identity(s.totals[t].op, s.totals[t].type));
  }
  columns.resize(s.column_reduces.size());
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

// To parts of rows, which are then like those of tasks.
void SweepRun::add_rows_of_totals() {
  const std::int64_t rows = rows_per_part(s.rows, s.columns), parts = (s.rows + rows - 1) / rows;
  for (std::size_t t = 0; t < s.totals.size(); ++t) {
    const Total& total = s.totals[t];
    std::vector<Accumulator> sums(static_cast<std::size_t>(parts), identity(total.op, total.type));
    parallel_for(parts, [&](std::int64_t part) {
      for (std::int64_t r = part * rows; r < std::min(s.rows, (part + 1) * rows); ++r)
        combine(total.op, total.type, sums[static_cast<std::size_t>(part)], totals[t][static_cast<std::size_t>(r)]);
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
    constexpr std::int64_t kTogether = 256;  // parts in order, columns side by side
    const auto add_parts = [&](std::int64_t piece) {
      const std::int64_t first = piece * kTogether, count = std::min(kTogether, s.columns - first);
      Accumulator sums[kTogether];
      std::fill_n(sums, count, identity(reduce.op, reduce.type));
      for (const BufferPtr& task : columns[c])
        combine_all(reduce.op, reduce.type, sums, reinterpret_cast<const Accumulator*>(task.data()) + first, count);
      for (std::int64_t i = 0; i < count; ++i) write(reduce.type, out.data() + (first + i) * size, sums[i]);
    };
    // Sums of other threads lie in their caches, and one thread alone would wait for all of them.
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
  SweepRun r{sweep, arguments, tile_kernels(), first_row, {}, {}, {}, {}};
  r.run_scalars();
  r.go();
}

}  // namespace ebb::cpu
