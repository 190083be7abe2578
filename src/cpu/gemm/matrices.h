// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>

#include "core/buffer.h"
#include "cpu/gemm/call.h"

// Products of matrices in tasks, as planned: how factors are packed, and what a task does.
namespace ebb::cpu {

// One factor: how it is packed into panels of P, and whether tiles may read it in place.
template <class T, class P>
struct Factor {
  const GemmTiles<T, P>& tiles;
  std::int64_t width;  // of a panel
  std::int64_t (*packed)(std::int64_t);
  void (*pack)(const GemmSource&, std::int64_t, std::int64_t, P*);
  bool shared;
  std::int64_t pack_elements;
  FactorAccess access;

  Factor(const GemmTiles<T, P>& t, const GemmPlan& plan, bool of_rows)
      : tiles(t),
        width(of_rows ? t.shape.rows : t.shape.cols),
        packed(of_rows ? t.packed_rows : t.packed_cols),
        pack(of_rows ? t.pack_rows : t.pack_cols),
        shared(plan.shared),
        pack_elements(plan.pack_elements),
        access(of_rows ? plan.a.access : plan.b.access) {}

  // Whole cache lines, so that whatever is packed after it is aligned to one.
  std::int64_t space(std::int64_t wide, std::int64_t depth) const {
    constexpr std::int64_t kLine = 64 / sizeof(P);
    if (has_tails()) return ceil_div(tiles.shape.group * packed(wide), kLine) * kLine;  // of any block of k
    const std::int64_t count = stays() ? (rest_lies(wide) ? 0 : packed(wide % width)) : packed(wide);
    return ceil_div(tiles.shape.packed_depth(depth) * count, kLine) * kLine;
  }

  // Panels of `wide` rows or columns, once all tasks have packed them to `to`.
  GemmPanels<P> panels(const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    const P* data = static_cast<const P*>(source.data);
    const bool lies = rest_lies(wide);
    const P* last = lies ? data + wide / width * width : to;
    if (has_tails()) {
      GemmPanels<P> rows{data, 1, width * source.wide_stride, nullptr, source.wide_stride};
      if (depth % tiles.shape.group > 0) rows.tails = to;
      return rows;
    }
    if (access == FactorAccess::in_place) return {data, source.depth_stride, width, last, 1, nullptr, lies};
    if (access == FactorAccess::in_rows) return {data, 1, width * source.wide_stride, to, source.wide_stride};
    GemmPanels<P> panels = packed_panels(wide, depth, to);
    if (access == FactorAccess::copied) {
      panels.copies = to;
      panels.data = data;
      panels.step = source.depth_stride;
      panels.distance = width;
      if (lies) panels.last = last;
      panels.last_lies = lies;
    }
    return panels;
  }
  GemmPanels<P> packed_panels(std::int64_t wide, std::int64_t depth, P* to) const {
    const std::int64_t length = tiles.shape.packed_depth(depth);
    return {to, width, width * length, to + wide / width * width * length};
  }
  std::int64_t tasks(std::int64_t wide, std::int64_t depth) const {
    return unpacked() ? wide % width > 0 && !rest_lies(wide) : ceil_div(wide, step(wide, depth));
  }
  void run(std::int64_t task, const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    if (unpacked()) return pack_last(source, wide, depth, to);
    const std::int64_t first = task * step(wide, depth);
    pack_from(source, first, std::min(step(wide, depth), wide - first), depth,
              to + first * tiles.shape.packed_depth(depth));
  }
  GemmPanels<P> pack_alone(const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    if (has_tails()) {
      const std::int64_t whole = depth / tiles.shape.group * tiles.shape.group;
      if (whole < depth)
        pack({static_cast<const P*>(source.data) + whole, source.dtype, source.wide_stride, 1}, wide, depth - whole,
             to);
    } else if (!unpacked()) {
      pack(source, wide, depth, to);
    } else if (wide % width > 0 && !rest_lies(wide)) {
      pack_last(source, wide, depth, to);
    }
    return panels(source, wide, depth, to);
  }

  bool stays() const { return access == FactorAccess::in_place || access == FactorAccess::in_rows; }
  bool unpacked() const { return access != FactorAccess::packed; }
  // Rows in place, k in groups: the last group of each row is packed if it is not whole.
  bool has_tails() const { return access == FactorAccess::in_rows && tiles.shape.group > 1; }

 private:
  // Columns after the last whole panel that form whole vectors can be read without packing.
  bool rest_lies(std::int64_t wide) const {
    return tiles.shape.rows_stay && width == tiles.shape.cols &&
           (access == FactorAccess::in_place || access == FactorAccess::copied) && packed(wide % width) == wide % width;
  }
  std::int64_t step(std::int64_t wide, std::int64_t depth) const {
    return shared ? width * std::max<std::int64_t>(1, pack_elements / (width * depth)) : wide;
  }
  // The narrow panel of a factor that is read in place.
  void pack_last(const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    const std::int64_t whole = wide / width * width;
    pack_from(source, whole, wide - whole, depth, access == FactorAccess::copied ? to + whole * depth : to);
  }
  void pack_from(const GemmSource& source, std::int64_t first, std::int64_t count, std::int64_t depth, P* to) const {
    const std::int64_t bytes = first * source.wide_stride * static_cast<std::int64_t>(size_of(source.dtype));
    pack({static_cast<const std::byte*>(source.data) + bytes, source.dtype, source.wide_stride, source.depth_stride},
         count, depth, to);
  }
};

template <class T, class P>
GemmPanels<P> part_of(const GemmTiles<T, P>& tiles, const GemmPanels<P>& panels, std::int64_t first,
                      std::int64_t width) {
  GemmPanels<P> part{panels.data + first / width * panels.distance, panels.step, panels.distance, panels.last,
                     panels.apart};
  if (panels.tails) part.tails = panels.tails + first * tiles.shape.group;
  return part;
}

template <class T, class P>
class MatrixProduct {
 public:
  MatrixProduct(const Call<T>& call, const GemmTiles<T, P>& tiles, const GemmPlan& plan)
      : call_(call), tiles_(tiles), plan_(plan) {}

  void run() {
    const std::int64_t space_a = plan_.a.own ? 0 : room(fa_, plan_.part_rows, call_.m);
    const std::int64_t space_b = plan_.b.own ? 0 : room(fb_, plan_.part_cols, call_.n);
    own_space_ = (plan_.a.own ? room(fa_, plan_.task_rows, call_.m) : 0) +
                 (plan_.b.own ? room(fb_, plan_.task_cols, call_.n) : 0);
    const std::int64_t here = plan_.shared ? 0 : own_space_;  // serial tasks follow each other and share one space
    constexpr std::int64_t kLocal = 32768 / sizeof(P);        // small products need no memory from the pool
    alignas(64) P local[kLocal];
    BufferPtr memory;
    P* space = local;
    if (space_a + space_b + here > kLocal) {
      memory = BufferPtr::allocate(static_cast<std::size_t>(space_a + space_b + here) * sizeof(P), "matmul");
      space = reinterpret_cast<P*>(memory.data());
    }
    own_room_ = space + space_a + space_b;
    if (plan_.a.own && plan_.b.own) {  // no task waits for another
      return for_each_task(call_.m, call_.n, [&](std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t cols) {
        for (std::int64_t p = 0; p < call_.k; p += plan_.at_a_time * plan_.depth)
          multiply_task({0, 0, p, call_.m, call_.n, blocks_from(p)}, i, j, rows, cols);
      });
    }
    for (std::int64_t j = 0; j < call_.n; j += plan_.part_cols) {
      for (std::int64_t p = 0; p < call_.k; p += plan_.at_a_time * plan_.depth) {
        for (std::int64_t i = 0; i < call_.m; i += plan_.part_rows) {
          const Part part{
              i, j, p, std::min(plan_.part_rows, call_.m - i), std::min(plan_.part_cols, call_.n - j), blocks_from(p)};
          pack(part, i == 0, space, space + space_a);
          for_each_task(part.rows, part.cols,
                        [&](std::int64_t first_row, std::int64_t first_col, std::int64_t rows, std::int64_t cols) {
                          multiply_task(part, first_row, first_col, rows, cols);
                        });
        }
      }
    }
  }

 private:
  struct Part {
    std::int64_t i, j, p;             // where it begins
    std::int64_t rows, cols, blocks;  // blocks of k
  };

  // Blocks at the end may differ in width from those before: room for either.
  std::int64_t room(const Factor<T, P>& factor, std::int64_t step, std::int64_t all) const {
    const std::int64_t wide = std::min(step, all);
    return plan_.at_a_time * std::max(factor.space(wide, plan_.depth), factor.space(all % wide, plan_.depth));
  }

  std::int64_t blocks_from(std::int64_t p) const {
    return ceil_div(std::min(plan_.at_a_time * plan_.depth, call_.k - p), plan_.depth);
  }
  std::int64_t depth_of(std::int64_t p) const { return std::min(plan_.depth, call_.k - p); }

  void pack(const Part& part, bool also_b, P* to_a, P* to_b) {
    struct Job {
      const Factor<T, P>* factor;
      GemmSource source;
      std::int64_t wide, depth, tasks;
      P* to;
    } jobs[2 * kGemmMostAtATime];
    std::int64_t count = 0, tasks = 0;
    const auto add = [&](const Factor<T, P>& factor, const GemmSource& source, std::int64_t wide, std::int64_t depth,
                         P* to) {
      jobs[count] = {&factor, source, wide, depth, factor.tasks(wide, depth), to};
      tasks += jobs[count++].tasks;
      return factor.panels(source, wide, depth, to);
    };
    for (std::int64_t q = 0; q < part.blocks; ++q) {
      const std::int64_t p = part.p + q * plan_.depth, depth = depth_of(p);
      if (also_b && !plan_.b.own)
        b_[q] = add(fb_, call_.b_source(p, part.j), part.cols, depth,
                    to_b + q * (room(fb_, plan_.part_cols, call_.n) / plan_.at_a_time));
      if (!plan_.a.own)
        a_[q] = add(fa_, call_.a_source(part.i, p), part.rows, depth,
                    to_a + q * (room(fa_, plan_.part_rows, call_.m) / plan_.at_a_time));
    }
    for_each(plan_.shared, tasks, [&](std::int64_t task) {
      const Job* job = jobs;
      while (task >= job->tasks) task -= job++->tasks;
      job->factor->run(task, job->source, job->wide, job->depth, job->to);
    });
  }

  // Calls body(first row, first column, rows, columns) for every task of so many rows and columns.
  template <class Body>
  void for_each_task(std::int64_t rows, std::int64_t cols, Body&& body) const {
    const std::int64_t across = ceil_div(cols, plan_.task_cols);
    for_each(plan_.shared, ceil_div(rows, plan_.task_rows) * across, [&](std::int64_t task) {
      const std::int64_t i = task / across * plan_.task_rows, j = task % across * plan_.task_cols;
      body(i, j, std::min(plan_.task_rows, rows - i), std::min(plan_.task_cols, cols - j));
    });
  }

  // Rows [i, i + rows) and columns [j, j + cols) of a part.
  void multiply_task(const Part& part, std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t cols) const {
    GemmPanels<P> a[kGemmMostAtATime], b[kGemmMostAtATime];
    BufferPtr memory;
    P* own = own_room_;
    if (plan_.shared && own_space_ > 0) {
      memory = BufferPtr::allocate(static_cast<std::size_t>(own_space_) * sizeof(P), "matmul");
      own = reinterpret_cast<P*>(memory.data());
    }
    for (std::int64_t q = 0; q < part.blocks; ++q) {
      const std::int64_t p = part.p + q * plan_.depth, depth = depth_of(p);
      if (plan_.a.own) {
        a[q] = fa_.pack_alone(call_.a_source(part.i + i, p), rows, depth, own);
        own += fa_.space(rows, depth);
      } else {
        a[q] = part_of(tiles_, a_[q], i, tiles_.shape.rows);
      }
      if (plan_.b.own) {
        b[q] = fb_.pack_alone(call_.b_source(p, part.j + j), cols, depth, own);
        own += fb_.space(cols, depth);
      } else {
        b[q] = part_of(tiles_, b_[q], j, tiles_.shape.cols);
      }
    }
    for (std::int64_t r = 0; r < rows; r += plan_.run_rows) {
      for (std::int64_t q = 0; q < part.blocks; ++q) {
        const std::int64_t p = part.p + q * plan_.depth, depth = depth_of(p);
        if (plan_.b.own && r + plan_.run_rows >= rows) b[q].soon = needed_after(part, q, j, b[q].copies != nullptr);
        const GemmResult<T> result{call_.c, call_.c_stride, call_.add || p > 0,
                                   p + depth < call_.k ? nullptr : call_.halves, call_.halves_stride};
        tiles_.multiply(std::min(plan_.run_rows, rows - r), cols, depth, call_.alpha,
                        part_of(tiles_, a[q], r, tiles_.shape.rows), b[q], result.from(part.i + i + r, part.j + j));
        if (b[q].copies) b[q] = fb_.packed_panels(cols, depth, b[q].copies);
      }
    }
  }

  // The part of B needed after block q of the columns from j on. Blocks that tiles copy follow each other; a task packs
  // its own before the first, so what comes next is the same block of the next task, which this thread gets.
  GemmSoon needed_after(const Part& part, std::int64_t q, std::int64_t j, bool copied) const {
    const bool next_block = copied && q + 1 < part.blocks;
    const std::int64_t p = part.p + (next_block ? q + 1 : copied ? 0 : q) * plan_.depth, depth = depth_of(p);
    const std::int64_t col = part.j + j + (next_block ? 0 : plan_.task_cols),
                       cols = std::min(plan_.task_cols, call_.n - col);
    if (cols <= 0) return {};
    const GemmSource from = call_.b_source(p, col);
    const auto size = static_cast<std::int64_t>(size_of(from.dtype));
    const char* const data = static_cast<const char*>(from.data);
    if (from.wide_stride == 1) return {data, depth, cols * size, from.depth_stride * size};
    if (from.depth_stride == 1) return {data, cols, depth * size, from.wide_stride * size};
    return {};
  }

  const Call<T>& call_;
  const GemmTiles<T, P>& tiles_;
  const GemmPlan& plan_;
  std::int64_t own_space_ = 0;
  P* own_room_ = nullptr;
  GemmPanels<P> a_[kGemmMostAtATime], b_[kGemmMostAtATime];
  const Factor<T, P> fa_{tiles_, plan_, true}, fb_{tiles_, plan_, false};
};

}  // namespace ebb::cpu
