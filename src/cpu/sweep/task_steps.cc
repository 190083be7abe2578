// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstring>

#include "cpu/sweep/task.h"

// The steps of a tile, one function per kind of step that is more than a call of a kernel.
namespace ebb::cpu {

// A sum, or a sum of products, of `rows` rows of n elements from element `first` of the tile.
template <class Reduction>
void SweepTask::accumulate(const Reduction& r, const Step& step, Accumulator* acc, std::int64_t first,
                           std::int64_t rows, std::int64_t n) {
  const std::int64_t skip = first * static_cast<std::int64_t>(size_of(r.type));
  const auto* a = static_cast<const std::byte*>(pointers_[step.a]) + skip;
  if (step.b < 0) {
    r.fn(acc, a, static_cast<std::size_t>(rows), static_cast<std::size_t>(n));
  } else {
    r.dot(acc, a, static_cast<const std::byte*>(pointers_[step.b]) + skip, static_cast<std::size_t>(rows),
          static_cast<std::size_t>(n));
  }
}

// Without rows block by block, for the run to add up; otherwise row by row, or what a long row has in this tile.
void SweepTask::total(const Total& t, const Step& step) {
  if (s_.flat) {
    for (std::int64_t i = 0; i < count_; i += kTile) {
      Accumulator acc = identity(t.op, t.type);
      accumulate(t, step, &acc, i, 1, std::min(kTile, count_ - i));
      r_.totals[step.item][(first_ + i) / kTile] = acc;
    }
  } else if (s_.long_rows) {
    accumulate(t, step, &row_totals_[step.item].first, 0, 1, count_);
  } else if (s_.upright) {
    std::vector<Accumulator> rows(static_cast<std::size_t>(rows_), identity(t.op, t.type));
    accumulate(t, step, rows.data(), 0, rows_, width_);
    for (const Accumulator& acc : rows) combine(t.op, t.type, totals_[step.item], acc);
  } else {
    for (std::int64_t i = 0; i < rows_; ++i) {
      Accumulator acc = identity(t.op, t.type);
      accumulate(t, step, &acc, i * width_, 1, width_);
      combine(t.op, t.type, totals_[step.item], acc);
    }
  }
}

// The element of the tile at a row and a column.
std::int64_t SweepTask::place_of(std::int64_t row, std::int64_t column) const {
  return s_.upright ? column * rows_ + row : row * width_ + column;
}

// An upright tile column by column: run(column, its address).
template <class Run>
void SweepTask::each_column(const Layout& columns, Run&& run) {
  walk(columns, 0, width_, [&](std::int64_t address, std::int64_t stride, std::int64_t count, std::int64_t done) {
    for (std::int64_t k = 0; k < count; ++k) run(done + k, address + k * stride);
  });
}

void SweepTask::row_step(const Step& step) {
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

void SweepTask::full_step(const Step& step, bool first_tile) {
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
      if (s_.upright) {
        if (step.invariant && !first_tile && rows_ == s_.rows_per_tile) break;
        const RegType type = s_.registers[step.dst].type;
        auto* dst = static_cast<std::byte*>(pointers_[step.dst]);
        each_column(s_.operand_column_layouts[step.item], [&](std::int64_t column, std::int64_t address) {
          r_.load(step.item, type, dst + column * rows_ * static_cast<std::int64_t>(size_of(type)),
                  s_.operand_row_layouts[step.item], row_, rows_, address);
        });
        break;
      }
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
      if (s_.upright) {
        for (std::int64_t c = 0; c < width_; ++c)
          std::memcpy(dst + c * rows_ * size, from, static_cast<std::size_t>(rows_ * size));
        break;
      }
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
      if (s_.upright) {
        const RegType type = s_.registers[step.a].type;
        const auto* from = static_cast<const std::byte*>(pointers_[step.a]);
        each_column(s_.output_column_layouts[step.item], [&](std::int64_t column, std::int64_t address) {
          store(step.item, from + column * rows_ * static_cast<std::int64_t>(size_of(type)), type,
                s_.output_row_layouts[step.item], row_, rows_, address);
        });
        break;
      }
      store(step.item, pointers_[step.a], s_.registers[step.a].type, s_.output_layouts[step.item], first_, count_);
      break;
    case Step::Kind::total:
      total(s_.totals[step.item], step);
      break;
    case Step::Kind::columns:
      columns_[step.item].add(pointers_[step.a], rows_, column_, width_);
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

bool SweepTask::index_ok(const Step& step, std::int64_t i, std::int64_t index) {
  if (index >= 0 && index < s_.columns) return true;
  const Instr& instr = s_.program.instrs[step.instr];
  const std::size_t row_dims = s_.program.dims.size() - static_cast<std::size_t>(s_.program.row_dims);
  r_.complaint.add(row_ + i, step.instr,
                   fmt::format("{}{} = {} is outside [0, {})", instr.label ? instr.label : "gather: index",
                               position_text(s_.program.dims, row_dims, row_ + i, r_.first_row), index, s_.columns),
                   Error::Kind::index);
  return false;
}

std::int64_t SweepTask::index_of(std::int32_t reg, std::int64_t i) const {
  const auto* p = static_cast<const std::int64_t*>(pointers_[reg]);
  return s_.registers[reg].kind == Register::Kind::scalar ? *p : p[i];
}

void SweepTask::pick(const Step& step) {
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
                from + place_of(i, index - column_) * static_cast<std::int64_t>(size), size);
  }
}

void SweepTask::place(const Step& step) {
  const auto size = size_of(s_.registers[step.dst].type);
  auto* dst = static_cast<std::byte*>(pointers_[step.dst]);
  const auto* from = static_cast<const std::byte*>(pointers_[step.a]);
  const bool one = s_.registers[step.a].kind == Register::Kind::scalar;
  std::memset(dst, 0, static_cast<std::size_t>(count_) * size);
  for (std::int64_t i = 0; i < rows_; ++i) {
    const std::int64_t index = index_of(step.b, i);
    if (!index_ok(step, i, index) || index < column_ || index >= column_ + width_) continue;
    std::memcpy(dst + place_of(i, index - column_) * static_cast<std::int64_t>(size),
                from + (one ? 0 : i) * static_cast<std::int64_t>(size), size);
  }
}

// Elements [from, from + n) of the tile; `first` is the position of the first of them.
void SweepTask::check(const Step& step, std::int64_t from, std::int64_t n, std::int64_t first, std::size_t dims) {
  const RegType type = s_.registers[step.dst].type;
  const std::size_t mask_size = size_of(s_.registers[step.b].type);
  const auto* mask = static_cast<const std::byte*>(at(step.b, from));
  const bool one = s_.registers[step.b].kind == Register::Kind::scalar;
  // Masks are all ones or zero: usually one test of all of them together is enough.
  std::uint32_t good = ~0u;
  const auto* words = reinterpret_cast<const std::uint32_t*>(mask);
  const std::size_t count = static_cast<std::size_t>(one ? 1 : n) * mask_size / sizeof(std::uint32_t);
  for (std::size_t i = 0; i < count; ++i) good &= words[i];
  for (std::int64_t i = 0; good != ~0u && i < (one ? 1 : n); ++i) {
    if (mask[static_cast<std::size_t>(i) * mask_size] != std::byte{0}) continue;
    r_.complaint.add(
        first + i, step.instr,
        fmt::format("{}, but the element at {} is {}", s_.program.instrs[step.instr].label,
                    position_text(s_.program.dims, dims, first + i, r_.first_row), number_text(type, at(step.a, from + i))));
    break;
  }
  step.fn(at(step.dst, from), at(step.a, from), at(step.b, from), nullptr, static_cast<std::size_t>(n));
}

}  // namespace ebb::cpu
