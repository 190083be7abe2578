// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstring>

#include "cpu/model/cpu_model.h"
#include "cpu/sweep/task.h"
#include "cpu/tile/few_bytes.h"

// The steps of a tile, one function per kind of step that is more than a kernel call.
namespace ebb::cpu {

// One sum, or sum of products, of n elements from element `first` of the tile.
template <class Reduction>
void SweepTask::accumulate(const Reduction& r, const Step& step, Accumulator* acc, std::int64_t first, std::int64_t n) {
  if (step.b < 0) {
    r.fn(acc, at(step.a, first), 1, static_cast<std::size_t>(n));
  } else {
    r.dot(acc, at(step.a, first), at(step.b, first), 1, static_cast<std::size_t>(n));
  }
}

// A sum for each row of the tile.
template <class Reduction>
void SweepTask::accumulate_rows(const Reduction& r, const Step& step, std::int32_t sum, void* results) {
  const auto rows = static_cast<std::size_t>(rows_), columns = static_cast<std::size_t>(width_);
  if (step.by_row) {
    for (shown_row_ = 0; shown_row_ < rows_; ++shown_row_) accumulate(r, step, groups(sum) + shown_row_, 0, width_);
    shown_row_ = 0;
    return;
  }
  if (!s_.upright()) {
    if (step.b < 0) {
      r.fn(groups(sum), at(step.a), rows, columns);
    } else {
      r.dot(groups(sum), at(step.a), at(step.b), rows, columns);
    }
    return;
  }
  RowsBeside shape;
  shape.runs = rows / static_cast<std::size_t>(side_);
  shape.rows = static_cast<std::size_t>(side_);
  shape.columns = columns;
  shape.step_a = step_of(s_.registers[step.a]);
  if (step.b >= 0) shape.step_b = step_of(s_.registers[step.b]);
  const std::int64_t end = column_ + width_;
  shape.begins = column_ % kTile == 0;
  shape.ends = end % kTile == 0 || end == s_.columns;
  shape.results = results;
  r.beside(groups(sum), lanes(sum), at(step.a), at(step.b), shape);
}

// Without rows block by block, for the run to add up; otherwise row by row.
void SweepTask::total(const Total& t, const Step& step) {
  if (!s_.flat) {
    accumulate_rows(t, step, sum_of_total(step.item));
    return;
  }
  std::int64_t i = 0;
  if (!s_.slots_hold_a_block && count_ >= kTile) {  // whole blocks side by side
    const auto blocks = static_cast<std::size_t>(count_ / kTile), n = static_cast<std::size_t>(kTile);
    Accumulator* of_blocks = &r_.totals[step.item][first_ / kTile];
    if (step.b < 0) {
      t.fn(of_blocks, at(step.a), blocks, n);
    } else {
      t.dot(of_blocks, at(step.a), at(step.b), blocks, n);
    }
    i = count_ / kTile * kTile;
  }
  for (; i < count_; i += kTile) {
    Accumulator acc = identity(t.op, t.type);
    accumulate(t, step, &acc, i, std::min(kTile, count_ - i));
    r_.totals[step.item][(first_ + i) / kTile] = acc;
  }
}

// Where in the space an element of the tile is.
std::int64_t SweepTask::position_of(std::int64_t element) const {
  if (!s_.upright()) return first_ + shown_row_ * width_ + element;
  const std::int64_t run = element / side_ / width_, column = column_ + shown_ + element / side_ % width_;
  return (row_ + run * side_ + element % side_) * s_.columns + column;
}

// Rows side by side: calls run(element of the tile, layout, first, elements, shift) for what is loaded or stored at a
// time. A run of rows that are neighbours in memory is one more dimension inside its columns, so that both together are
// a layout, whose innermost pieces may span many columns; otherwise, and if not `whole`, column by column.
template <class Run>
void SweepTask::each_piece(const Layout& columns, const Layout& rows, bool whole, Run&& run) {
  Layout box = columns;
  append(box, side_, 1);
  for (std::int64_t row = 0; row < rows_; row += side_) {
    const std::int64_t first = row * width_;
    bool neighbours = false;
    walk(rows, row_ + row, side_, [&](std::int64_t start, std::int64_t stride, std::int64_t count, std::int64_t) {
      neighbours = whole && count == side_ && stride == 1;
      if (neighbours) run(first, box, column_ * side_, width_ * side_, start);
    });
    if (neighbours) continue;
    walk(columns, column_, width_,
         [&](std::int64_t address, std::int64_t stride, std::int64_t count, std::int64_t done) {
           for (std::int64_t k = 0; k < count; ++k)
             run(first + (done + k) * side_, rows, row_ + row, side_, address + k * stride);
         });
  }
}

// Calls run(elements) for elements contiguous in all registers of a step: all, or column by column, or row by row.
template <class Run>
void SweepTask::each_run(const Step& step, Run&& run) {
  if (step.by_row) {
    for (shown_row_ = 0; shown_row_ < rows_; ++shown_row_) run(width_);
    shown_row_ = 0;
    return;
  }
  if (!step.by_column) return run(count_);
  for (shown_ = 0; shown_ < width_; ++shown_) run(side_);
  shown_ = 0;
}

void SweepTask::load(const Step& step) {
  // Data that is the same in every row stays from tile to tile; rows side by side have as many copies of it as there
  // are rows.
  if (step.invariant && loaded_rows_ > 0 && (!s_.upright() || rows_ == loaded_rows_)) return;
  const RegType type = s_.registers[step.dst].type;
  if (!s_.upright()) {
    const std::int64_t count = s_.registers[step.dst].each_row ? width_ : count_;
    r_.load(step.item, type, at(step.dst, 0), s_.operand_layouts[step.item], first_, count);
    return;
  }
  if (step.a >= 0) {
    each_run(step, [&](std::int64_t n) {
      s_.operand_loads[step.item](at(step.dst, 0), at(step.a), 1, static_cast<std::size_t>(n));
    });
    return;
  }
  const auto size = static_cast<std::int64_t>(size_of(type));
  auto* dst = static_cast<std::byte*>(at(step.dst, 0));
  each_piece(s_.operand_column_layouts[step.item], s_.operand_row_layouts[step.item], true,
             [&](std::int64_t element, const Layout& layout, std::int64_t first, std::int64_t n, std::int64_t shift) {
               r_.load(step.item, type, dst + element * size, layout, first, n, shift);
             });
}

void SweepTask::store(const Step& step) {
  const RegType type = s_.registers[step.a].type;
  if (!s_.upright()) {
    store(step.item, at(step.a), type, s_.output_layouts[step.item], first_, count_);
    return;
  }
  if (step.b >= 0) {
    each_run(step, [&](std::int64_t n) {
      s_.output_stores[step.item](at(step.b, 0), 1, at(step.a), static_cast<std::size_t>(n));
    });
    return;
  }
  const auto size = static_cast<std::int64_t>(size_of(type)), step_a = step_of(s_.registers[step.a]);
  const auto* from = static_cast<const std::byte*>(at(step.a));
  each_piece(s_.output_column_layouts[step.item], s_.output_row_layouts[step.item], step_a == side_,
             [&](std::int64_t element, const Layout& layout, std::int64_t first, std::int64_t n, std::int64_t shift) {
               const std::int64_t row = element / (width_ * side_) * side_, column = element / side_ % width_;
               store(step.item, from + (row * width_ + column * step_a) * size, type, layout, first, n, shift);
             });
}

// Column by column, so that loops are as long as the number of rows.
template <class T>
static void spread_narrow(std::byte* dst, const std::byte* from, std::int64_t rows, std::int64_t width) {
  auto* to = reinterpret_cast<T*>(dst);
  const auto* numbers = reinterpret_cast<const T*>(from);
  for (std::int64_t c = 0; c < width; ++c) {
    for (std::int64_t i = 0; i < rows; ++i) to[i * width + c] = numbers[i];
  }
}

void SweepTask::spread(const Step& step) {
  const RegType type = s_.registers[step.dst].type;
  const auto size = static_cast<std::int64_t>(size_of(type));
  auto* dst = static_cast<std::byte*>(at(step.dst, 0));
  const auto* from = static_cast<const std::byte*>(at(step.a));
  if (!s_.upright()) {
    if (width_ < CpuModel::sweep_narrow_row)
      return size == 4 ? spread_narrow<std::uint32_t>(dst, from, rows_, width_)
                       : spread_narrow<std::uint64_t>(dst, from, rows_, width_);
    for (std::int64_t i = 0; i < rows_; ++i)
      r_.k.fill(type, dst + i * width_ * size, from + i * size, static_cast<std::size_t>(width_));
    return;
  }
  const std::int64_t run = side_ * size, all = width_ * run;
  for (std::int64_t row = 0; row < rows_; row += side_, dst += all, from += run) {
    for (std::int64_t done = 0; done < all; done += run) copy_bytes(dst + done, from, static_cast<std::size_t>(run));
  }
}

void SweepTask::row_step(const Step& step) {
  const auto n = static_cast<std::size_t>(rows_);
  switch (step.kind) {
    case Step::Kind::compute:
      step.fn(pointers_[step.dst], at(step.a), at(step.b), at(step.c), n);
      break;
    case Step::Kind::check:
      check(step, 0, rows_, true);
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
      const std::int64_t ahead = s_.registers[step.a].kind == Register::Kind::scalar ? 0 : 1;
      if (s_.totals_by_row) {
        combine_each(t.op, t.type, &r_.totals[step.item][row_], pointers_[step.a], ahead, rows_);
      } else {
        combine_in_order(t.op, t.type, totals_[step.item], pointers_[step.a], ahead, rows_);
      }
      break;
    }
    default:
      break;
  }
}

void SweepTask::full_step(const Step& step) {
  switch (step.kind) {
    case Step::Kind::compute:
      each_run(step, [&](std::int64_t n) {
        step.fn(at(step.dst, 0), at(step.a), at(step.b), at(step.c), static_cast<std::size_t>(n));
      });
      break;
    case Step::Kind::chain: {
      const Chain& c = s_.chains[step.item];
      if (step.by_row) {
        chain_by_row(c);
      } else {
        each_run(step, [&](std::int64_t n) { chain(c, n); });
      }
      break;
    }
    case Step::Kind::check:
      each_run(step, [&](std::int64_t n) { check(step, 0, n, false); });
      break;
    case Step::Kind::load:
      load(step);
      break;
    case Step::Kind::repeat:
      r_.k.fill(s_.registers[step.dst].type, at(step.dst, 0), at(step.a), static_cast<std::size_t>(count_));
      break;
    case Step::Kind::spread:
      spread(step);
      break;
    case Step::Kind::reduce: {
      const RowReduce& reduce = s_.reduces[step.item];
      accumulate_rows(reduce, step, step.item, at_once(reduce) ? pointers_[reduce.dst] : nullptr);
      break;
    }
    case Step::Kind::pick:
      pick(step);
      break;
    case Step::Kind::place:
      place(step);
      break;
    case Step::Kind::store:
      store(step);
      break;
    case Step::Kind::total:
      total(s_.totals[step.item], step);
      break;
    case Step::Kind::columns:
      columns_[step.item].add(at(step.a), rows_, column_, width_);
      break;
    default:
      break;
  }
}

void SweepTask::store(int output, const void* from, RegType type, const Layout& layout, std::int64_t first,
                      std::int64_t n, std::int64_t shift) {
  const Output& o = s_.program.outputs[output];
  auto* data = static_cast<std::byte*>(r_.args[o.slot].data);
  const auto* source = static_cast<const std::byte*>(from);
  const auto bytes = static_cast<std::int64_t>(size_of(o.dtype)), size = static_cast<std::int64_t>(size_of(type));
  const StoreFn fn = s_.output_stores[output];
  walk(layout, first, n, [&](std::int64_t address, std::int64_t stride, std::int64_t count, std::int64_t done) {
    fn(data + (address + shift) * bytes, stride, source + done * size, static_cast<std::size_t>(count));
  });
}

void SweepTask::complain_of_index(const Step& step, std::int64_t i, std::int64_t index) {
  const Instr& instr = s_.program.instrs[step.instr];
  const std::size_t row_dims = s_.program.dims.size() - static_cast<std::size_t>(s_.program.row_dims);
  r_.complaint.add(
      row_ + i, step.instr,
      Error(Error::Kind::index,
            fmt::format("{}{} = {} is outside [0, {})", instr.label ? instr.label : "gather: index",
                        position_text(s_.program, 0, row_dims, row_ + i, r_.first_row), index, s_.columns)));
}

// Calls run(row of the tile, element) where the row's index, in register b, is one of the tile's columns, which are
// `across` elements apart in rows side by side; run(row, -1) after a complaint where it is none of the space's.
template <class Run>
void SweepTask::each_index(const Step& step, std::int64_t across, Run&& run) {
  const auto* indices = static_cast<const std::int64_t*>(pointers_[step.b]);
  const std::int64_t ahead = s_.registers[step.b].kind == Register::Kind::scalar ? 0 : 1;
  const std::int64_t side = s_.upright() ? side_ : 1, to_next = s_.upright() ? across : 1;
  const auto columns = static_cast<std::uint64_t>(s_.columns), width = static_cast<std::uint64_t>(width_);
  for (std::int64_t row = 0; row < rows_; row += side) {
    for (std::int64_t k = 0; k < side; ++k) {
      const std::int64_t i = row + k, index = indices[i * ahead], column = index - column_;
      if (static_cast<std::uint64_t>(column) < width) {
        run(i, row * width_ + column * to_next + k);
      } else if (static_cast<std::uint64_t>(index) >= columns) {
        complain_of_index(step, i, index);
        run(i, std::int64_t{-1});
      }
    }
  }
}

void SweepTask::pick(const Step& step) {
  const auto picked = [&]<class T>(T) {
    const auto* from = static_cast<const T*>(pointers_[step.a]);
    auto* dst = static_cast<T*>(pointers_[step.dst]);
    each_index(step, step_of(s_.registers[step.a]),
               [&](std::int64_t row, std::int64_t element) { dst[row] = element < 0 ? T{0} : from[element]; });
  };
  size_of(s_.registers[step.a].type) == 4 ? picked(std::uint32_t{}) : picked(std::uint64_t{});
}

void SweepTask::place(const Step& step) {
  const std::size_t size = size_of(s_.registers[step.dst].type);
  const std::int64_t ahead = s_.registers[step.a].kind == Register::Kind::scalar ? 0 : 1;
  std::memset(pointers_[step.dst], 0, static_cast<std::size_t>(count_) * size);
  const auto placed = [&]<class T>(T) {
    const auto* from = static_cast<const T*>(pointers_[step.a]);
    auto* dst = static_cast<T*>(pointers_[step.dst]);
    each_index(step, side_, [&](std::int64_t row, std::int64_t element) {
      if (element >= 0) dst[element] = from[row * ahead];
    });
  };
  size == 4 ? placed(std::uint32_t{}) : placed(std::uint64_t{});
}

void SweepTask::check(const Step& step, std::int64_t from, std::int64_t n, bool of_rows) {
  const RegType type = s_.registers[step.dst].type;
  const std::size_t mask_size = size_of(s_.registers[step.b].type);
  const auto* mask = static_cast<const std::byte*>(at(step.b, from));
  const Register::Kind kind = s_.registers[step.b].kind;
  const bool one = kind == Register::Kind::scalar || (kind == Register::Kind::row && !of_rows && !s_.strips);
  // Masks are all ones or zero: usually one test of all of them together suffices.
  std::uint32_t good = ~0u;
  const auto* words = reinterpret_cast<const std::uint32_t*>(mask);
  const std::size_t count = static_cast<std::size_t>(one ? 1 : n) * mask_size / sizeof(std::uint32_t);
  for (std::size_t i = 0; i < count; ++i) good &= words[i];
  const std::size_t rank = s_.program.dims.size();
  const std::size_t dims = of_rows ? rank - static_cast<std::size_t>(s_.program.row_dims) : rank;
  for (std::int64_t i = 0; good != ~0u && i < (one ? 1 : n); ++i) {
    if (mask[static_cast<std::size_t>(i) * mask_size] != std::byte{0}) continue;
    const std::int64_t position = of_rows ? row_ + from + i : position_of(from + i);
    const bool of_row = of_rows && s_.registers[step.a].kind == Register::Kind::row;
    const void* number = of_row
                             ? static_cast<std::byte*>(pointers_[step.a]) + i * static_cast<std::int64_t>(size_of(type))
                             : at(step.a, from + i);
    const std::string where = position_text(s_.program, 0, dims, position, r_.first_row);
    r_.complaint.add(position, step.instr,
                     check_error(s_.program.instrs[step.instr], where, number_text(type, number)));
    if (!s_.upright() || of_rows) break;  // the first in the order of the tile
  }
  step.fn(at(step.dst, from), at(step.a, from), at(step.b, from), nullptr, static_cast<std::size_t>(n));
}

}  // namespace ebb::cpu
