// SPDX-License-Identifier: MIT
#pragma once
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "core/buffer.h"
#include "cpu/gemm/call.h"
#include "ebb/memory.h"

// Products of matrices: how their factors are packed, and how they are cut into tasks. The bits do not depend on that.
namespace ebb::cpu {

// Bytes of the second cache; 0 where the system does not say.
inline std::int64_t second_cache() {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  static const std::int64_t size = std::max<std::int64_t>(0, sysconf(_SC_LEVEL2_CACHE_SIZE));
  return size;
#else
  return 0;
#endif
}
// How many panels of so many bytes stay there, beside what passes by.
inline std::int64_t panels_that_stay(std::int64_t bytes) {
  const std::int64_t size = second_cache() > 0 ? second_cache() * 5 / 8 : std::int64_t{1} << 18;
  return std::max<std::int64_t>(2, size / bytes);
}
// Whether the second caches of all threads that share a product hold a factor of so many bytes, and something else. On
// two cores of Emerald Rapids 1024³ of f32, whose factors would just fill them, takes 9.0 ms packed and 10.0 in place.
inline bool is_near(std::int64_t bytes, bool shared) {
  return 8 * bytes <= 7 * second_cache() * (shared ? num_threads() : 1);
}

// How the tiles get at a factor.
enum class Access : std::uint8_t {
  packed,    // before the tiles begin
  in_place,  // where it lies, its width dense
  in_rows,  // where it lies, its depth dense: A by single numbers, which a tile repeats anyway, or by whole groups of k
  copied,   // B where it lies, its width dense, and packed by the first tiles that read it
};

// One factor: how it is packed into panels of P, and whether tiles may read it where it lies.
template <class T, class P>
struct Factor {
  const GemmTiles<T, P>& tiles;
  std::int64_t width;  // of a panel
  std::int64_t (*packed)(std::int64_t);
  void (*pack)(const GemmSource&, std::int64_t, std::int64_t, P*);
  bool shared;
  Access access;

  Factor(const GemmTiles<T, P>& t, bool among_threads, bool of_rows, const GemmSource& source, std::int64_t wide,
         std::int64_t depth, std::int64_t passes, bool near)
      : tiles(t),
        width(of_rows ? t.rows : t.cols),
        packed(of_rows ? t.packed_rows : t.packed_cols),
        pack(of_rows ? t.pack_rows : t.pack_cols),
        shared(among_threads),
        access(t.group > 1 ? access_to_groups(t, of_rows, source)
                           : access_to(t, among_threads, of_rows, source, wide, depth, passes, near)) {}

  // Whole lines of the cache, so that what is packed after it begins with one.
  std::int64_t space(std::int64_t wide, std::int64_t depth) const {
    constexpr std::int64_t kLine = 64 / sizeof(P);
    if (has_tails()) return pieces_of(tiles.group * packed(wide), kLine) * kLine;  // of any block of k
    const std::int64_t count = stays() ? (rest_lies(wide) ? 0 : packed(wide % width)) : packed(wide);
    return pieces_of(tiles.packed_depth(depth) * count, kLine) * kLine;
  }

  // Of `wide` rows or columns, when all tasks have packed them to `to`.
  GemmPanels<P> panels(const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    const P* data = static_cast<const P*>(source.data);
    const bool lies = rest_lies(wide);
    const P* last = lies ? data + wide / width * width : to;
    if (has_tails()) {
      GemmPanels<P> rows{data, 1, width * source.wide_stride, nullptr, source.wide_stride};
      if (depth % tiles.group > 0) rows.tails = to;
      return rows;
    }
    if (access == Access::in_place) return {data, source.depth_stride, width, last, 1, nullptr, lies};
    if (access == Access::in_rows) return {data, 1, width * source.wide_stride, to, source.wide_stride};
    GemmPanels<P> panels = packed_panels(wide, depth, to);
    if (access == Access::copied) {
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
    const std::int64_t length = tiles.packed_depth(depth);
    return {to, width, width * length, to + wide / width * width * length};
  }
  std::int64_t tasks(std::int64_t wide, std::int64_t depth) const {
    return unpacked() ? wide % width > 0 && !rest_lies(wide) : pieces_of(wide, step(wide, depth));
  }
  void run(std::int64_t task, const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    if (unpacked()) return pack_last(source, wide, depth, to);
    const std::int64_t first = task * step(wide, depth);
    pack_from(source, first, std::min(step(wide, depth), wide - first), depth, to + first * tiles.packed_depth(depth));
  }
  GemmPanels<P> pack_alone(const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    if (has_tails()) {
      const std::int64_t whole = depth / tiles.group * tiles.group;
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

  bool stays() const { return access == Access::in_place || access == Access::in_rows; }
  bool unpacked() const { return access != Access::packed; }
  // Rows where they lie, k in groups: the last group of each row is packed if it is not whole.
  bool has_tails() const { return access == Access::in_rows && tiles.group > 1; }

 private:
  // Measured on Neoverse V1: panels in place save their packing, and pay with a page for each step of k. That is worth
  // it where they are read once or twice, or lie within a few pages anyway; at 128³ it loses 6 %, at 1024³ 20 %.
  // Where A is kept in the level-1 cache, a factor that is near need not be packed beforehand either; one that comes
  // from further away is packed in longer runs than tiles read, which the processor foresees.
  static Access access_to(const GemmTiles<T, P>& t, bool among_threads, bool of_rows, const GemmSource& source,
                          std::int64_t wide, std::int64_t depth, std::int64_t passes, bool near) {
    if (source.dtype != dtype_of_type<P>::value) return Access::packed;
    if (source.wide_stride == 1 && (passes <= 2 || wide * depth <= 4096)) return Access::in_place;
    if (!t.rows_stay || !near) return Access::packed;
    if (!of_rows) return source.wide_stride == 1 ? Access::copied : Access::packed;
    return source.depth_stride == 1 && passes <= most_passes(among_threads, source.wide_stride) ? Access::in_rows
                                                                                                : Access::packed;
  }
  // How often rows of A are read where they lie rather than packed first, by all threads. On two cores of Cascade Lake
  // [128, 784]·[1024, 784]ᵀ, which reads them 22 times, takes 960 µs packed and 1,010 like this; 256³, 6 times, 161 and
  // 143. Rows that begin at the same place of a page share the few lines that the level-1 cache has for it.
  static std::int64_t most_passes(bool among_threads, std::int64_t wide_stride) {
    constexpr std::int64_t kPage = 4096 / sizeof(P);
    if (wide_stride % kPage == 0) return among_threads ? 4 * num_threads() : 0;
    return 8 * (among_threads ? num_threads() : 1);
  }

  // Tiles of rows that lie apart are loaded as quickly as packed ones, also where two rows or four fill a page: on a
  // core of Emerald Rapids 512³ took 380 µs with A packed and 310 without, on 16 1024³ 580 and 490. Rows that all begin
  // at the same place of a page were not measured.
  static Access access_to_groups(const GemmTiles<T, P>& t, bool of_rows, const GemmSource& source) {
    constexpr std::int64_t kPage = 4096 / sizeof(P);
    return t.reads_rows && of_rows && source.dtype == dtype_of_type<P>::value && source.depth_stride == 1 &&
                   source.wide_stride > 1 && source.wide_stride % kPage != 0
               ? Access::in_rows
               : Access::packed;
  }

  // Columns beyond the last whole panel that are whole vectors need not be packed to be read.
  bool rest_lies(std::int64_t wide) const {
    return tiles.rows_stay && width == tiles.cols && (access == Access::in_place || access == Access::copied) &&
           packed(wide % width) == wide % width;
  }
  std::int64_t step(std::int64_t wide, std::int64_t depth) const {
    const std::int64_t elements = tiles.rows_stay ? 16384 : 65536;  // a task
    return shared ? width * std::max<std::int64_t>(1, elements / (width * depth)) : wide;
  }
  // The narrow panel of a factor that is read where it lies.
  void pack_last(const GemmSource& source, std::int64_t wide, std::int64_t depth, P* to) const {
    const std::int64_t whole = wide / width * width;
    pack_from(source, whole, wide - whole, depth, access == Access::copied ? to + whole * depth : to);
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
  if (panels.tails) part.tails = panels.tails + first * tiles.group;
  return part;
}

// Where tiles keep panels of A in the level-1 cache (GemmTiles::rows_stay), a task makes all blocks of k of a part of C
// that stays in the second cache. A factor that one task alone reads, or that costs nothing to pack, is packed by the
// task and nobody waits for it; the other is packed by all, for all blocks of k at once. Elsewhere one block of k
// follows the other, and both factors are packed by all.
template <class T, class P>
class MatrixProduct {
 public:
  MatrixProduct(const Call<T>& call, const GemmTiles<T, P>& tiles) : call_(call), tiles_(tiles) {
    cut();
    const std::int64_t size = static_cast<std::int64_t>(sizeof(P)), blocks = pieces_of(call.k, depth_);
    round_ = 1;
    if (tiles.rows_stay && blocks > 1) {
      const std::int64_t shared = ((own_a_ ? 0 : most_rows_) + (own_b_ ? 0 : most_cols_)) * depth_ * size;
      const std::int64_t own =
          ((own_a_ && !fa_.stays() ? row_step_ : 0) + (own_b_ && !fb_.stays() ? col_step_ : 0)) * depth_ * size;
      const std::int64_t most =
          std::min(kMostShared / std::max<std::int64_t>(1, shared), kMostOwn / std::max<std::int64_t>(1, own));
      round_ = std::clamp<std::int64_t>(most, 1, std::min(blocks, kMostRound));
    }
  }

  void run() {
    const std::int64_t space_a = own_a_ ? 0 : room(fa_, most_rows_, call_.m);
    const std::int64_t space_b = own_b_ ? 0 : room(fb_, most_cols_, call_.n);
    own_space_ = (own_a_ ? room(fa_, row_step_, call_.m) : 0) + (own_b_ ? room(fb_, col_step_, call_.n) : 0);
    const std::int64_t here = call_.shared ? 0 : own_space_;  // serial tasks follow each other: one room for all
    constexpr std::int64_t kLocal = 32768 / sizeof(P);        // small products need no memory from the pool
    alignas(64) P local[kLocal];
    BufferPtr memory;
    P* space = local;
    if (space_a + space_b + here > kLocal) {
      memory = BufferPtr::allocate(static_cast<std::size_t>(space_a + space_b + here) * sizeof(P), "matmul");
      space = reinterpret_cast<P*>(memory.data());
    }
    own_room_ = space + space_a + space_b;
    if (own_a_ && own_b_) {  // nothing that a task waits for
      return for_each_task(call_.m, call_.n, [&](std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t cols) {
        for (std::int64_t p = 0; p < call_.k; p += round_ * depth_)
          multiply_task({0, 0, p, call_.m, call_.n, blocks_from(p)}, i, j, rows, cols);
      });
    }
    for (std::int64_t j = 0; j < call_.n; j += most_cols_) {
      for (std::int64_t p = 0; p < call_.k; p += round_ * depth_) {
        for (std::int64_t i = 0; i < call_.m; i += most_rows_) {
          const Part part{
              i, j, p, std::min(most_rows_, call_.m - i), std::min(most_cols_, call_.n - j), blocks_from(p)};
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
  static constexpr std::int64_t kMostRound = 8;
  static constexpr std::int64_t kMostShared = 5 << 20, kMostOwn = 5 << 18;  // bytes that are packed at a time

  struct Part {
    std::int64_t i, j, p;             // where it begins
    std::int64_t rows, cols, blocks;  // blocks of k
  };

  // Tasks enough for all threads, if that leaves each some work.
  void cut() {
    const std::int64_t m = call_.m, n = call_.n;
    const bool stay = tiles_.rows_stay;
    most_rows_ = std::min(m, (stay ? 2048 : 1024) / tiles_.rows * tiles_.rows);
    most_cols_ = std::min(n, (stay ? 1024 : 2048) / tiles_.cols * tiles_.cols);
    row_step_ = tiles_.task_rows;
    col_step_ = tiles_.task_panels * tiles_.cols;
    // Panels begin where a task's columns do if the task packs them: then any number of vectors will do.
    own_a_ = stay && fa_.unpacked();
    own_b_ = stay && fb_.unpacked();
    if (own_a_) most_rows_ = m;
    // Rows that share a copy of B: half as many would make as many copies again. A single panel is soon copied.
    const std::int64_t least_rows = stay && n <= tiles_.cols ? 2 * tiles_.rows : own_b_ && !fb_.stays() ? 64 : 32;
    const std::int64_t least_cols = tiles_.cols;
    // Tiles that keep A near lose an eighth of 256³ to twice as many tasks.
    const std::int64_t threads = call_.shared ? num_threads() : 1, least_tasks = !stay ? 16 : threads == 1 ? 1 : 8;
    const std::int64_t enough = call_.shared ? std::max(least_tasks, 4 * threads) : 1;
    std::int64_t col_unit = own_b_ && threads > 1 ? 16 : tiles_.cols;
    const auto work = [&](std::int64_t rows, std::int64_t cols) {
      return call_.work(tiles_, rows, cols, stay ? call_.k : depth_);
    };
    // Whether tasks of so much work, and as many as there are, should be cut once more.
    const auto is_too_long = [&](std::int64_t tasks, std::int64_t wanted, double of_one) {
      return (tasks < wanted && of_one > 2 * tiles_.least_flops) ||
             (tasks < std::min(threads, wanted) && of_one > 2 * tiles_.least_first_flops);
    };
    const auto half = [](std::int64_t step, std::int64_t unit) { return pieces_of(step / 2, unit) * unit; };
    const auto rows_cut = [&] { return pieces_of(most_rows_, row_step_); };
    if (!stay) {
      const std::int64_t across = pieces_of(most_cols_, col_step_);
      while (row_step_ > least_rows && is_too_long(rows_cut() * across, enough, work(row_step_, col_step_)))
        row_step_ /= 2;
      return;
    }
    const std::int64_t panel = tiles_.cols * tiles_.packed_depth(depth_) * static_cast<std::int64_t>(sizeof(P));
    col_step_ = std::min(tiles_.task_panels, panels_that_stay(panel)) * tiles_.cols;
    if (tiles_.group > 1) return cut_alone(threads);
    // All rows, and columns alone are cut: then B is packed by its reader. Or all columns.
    bool by_columns = false;
    if (own_b_) {
      row_step_ = pieces_of(m, tiles_.rows) * tiles_.rows;
    } else if (n > col_step_) {
      // Of few rows two tasks per thread will do, narrow ones if need be: B packed for others is read from their
      // caches. At least 16, because what a task packs should still be near when it is read; of one thread 8, because
      // runs of 64 columns are packed slowly: on Cascade Lake [128, 784]·[784, 1024] takes 1.96 ms with 8, 2.01
      // with 16.
      const bool few = call_.shared && m <= tiles_.task_rows;
      const std::int64_t least = few ? 32 : least_cols, unit = few ? 16 : tiles_.cols;
      const std::int64_t least_tasks_across = threads == 1 ? 8 : 16;
      const std::int64_t wanted = call_.shared ? std::max(least_tasks_across, (few ? 2 : 4) * threads) : 1;
      std::int64_t step = col_step_;
      while (step > least && is_too_long(pieces_of(n, step), wanted, work(m, step))) step = half(step, unit);
      if (!is_too_long(pieces_of(n, step), wanted, work(m, step))) {
        by_columns = true;
        col_step_ = step;
        col_unit = unit;
        row_step_ = pieces_of(most_rows_, tiles_.rows) * tiles_.rows;
      }
    }
    // Rows that are cut copy B once more. On two cores of Emerald Rapids 512³ takes 1.11 ms in parts of 256 × 96
    // and 1.19 in parts of 128 × 176; 384³ loses 5 %.
    const std::int64_t of_rows = own_b_ && !fb_.stays() && depth_ > 384 ? 2 : 1;
    while (!by_columns && is_too_long(rows_cut() * pieces_of(n, col_step_), enough, work(row_step_, col_step_))) {
      const bool rows = row_step_ > least_rows, cols = std::min(col_step_, n) > std::max(least_cols, col_unit);
      if (!rows && !cols) break;
      if (rows && (!cols || std::min(row_step_, m) >= of_rows * std::min(col_step_, n))) {
        row_step_ = half(std::min(row_step_, pieces_of(m, tiles_.rows) * tiles_.rows), tiles_.rows);
      } else {
        col_step_ = half(std::min(col_step_, pieces_of(n, col_unit) * col_unit), col_unit);
      }
    }
    own_b_ = own_b_ || row_step_ >= most_rows_;
    own_a_ = own_a_ || (row_step_ < most_rows_ && col_step_ >= n);
    if (own_b_) most_cols_ = n;
    if (own_a_) most_rows_ = m;
    // As many tasks, of nearly equal size.
    if (own_a_ || own_b_) row_step_ = pieces_of(pieces_of(m, pieces_of(m, row_step_)), tiles_.rows) * tiles_.rows;
    if (own_b_) col_step_ = pieces_of(pieces_of(n, pieces_of(n, col_step_)), col_unit) * col_unit;
  }

  // Tasks that pack what they read and wait for nobody: what one thread has packed, another fetches from its cache at a
  // fraction of the speed at which it packs that itself. On 16 cores of Emerald Rapids 512³ took 145 µs with both
  // factors packed by all and 60 like this. How many tasks, and of which shape, an estimate says: per step of k, in
  // units of the time that an output takes; the last tasks do not end at the same time, three tenths of a task apart.
  void cut_alone(std::int64_t threads) {
    constexpr double kPacked = 70, kRead = 20, kTask = 7e5, kApart = 0.3;
    constexpr std::int64_t kMostRows = 2048, kMostTasks = 4;  // of a task, for a thread
    const std::int64_t row_units = pieces_of(call_.m, tiles_.rows), col_units = pieces_of(call_.n, tiles_.cols);
    const std::int64_t least_down = pieces_of(call_.m, kMostRows), least_across = pieces_of(call_.n, col_step_);
    const double of_a = fa_.has_tails() ? kRead : kPacked;
    double least = std::numeric_limits<double>::max();
    const auto consider = [&](std::int64_t down, std::int64_t across) {
      const std::int64_t row_step = pieces_of(row_units, down) * tiles_.rows;
      const std::int64_t col_step = pieces_of(col_units, across) * tiles_.cols;
      const std::int64_t tasks = pieces_of(call_.m, row_step) * pieces_of(call_.n, col_step);
      const auto rows = static_cast<double>(row_step), cols = static_cast<double>(col_step);
      const double one = rows * cols + rows * of_a + cols * kPacked + kTask / static_cast<double>(call_.k);
      const double all = (static_cast<double>(pieces_of(tasks, threads)) + (threads > 1 ? kApart : 0)) * one;
      if (all >= least) return;
      least = all;
      row_step_ = row_step;
      col_step_ = col_step;
    };
    for (std::int64_t per_thread = 1; per_thread <= (threads == 1 ? 1 : kMostTasks); per_thread *= 2) {
      const std::int64_t tasks = per_thread * threads;
      for (std::int64_t down = least_down; down <= std::max(least_down, std::min(row_units, tasks)); down *= 2)
        consider(down, std::clamp(pieces_of(tasks, down), least_across, std::max(least_across, col_units)));
    }
    own_b_ = true;
    own_a_ = fa_.has_tails() || pieces_of(call_.n, col_step_) <= (threads == 1 ? 1 : 2 * threads);
    most_cols_ = call_.n;
    if (own_a_) most_rows_ = call_.m;
  }

  // Blocks at the end may be of another width than those before: room for either.
  std::int64_t room(const Factor<T, P>& factor, std::int64_t step, std::int64_t all) const {
    const std::int64_t wide = std::min(step, all);
    return round_ * std::max(factor.space(wide, depth_), factor.space(all % wide, depth_));
  }

  std::int64_t blocks_from(std::int64_t p) const { return pieces_of(std::min(round_ * depth_, call_.k - p), depth_); }
  std::int64_t depth_of(std::int64_t p) const { return std::min(depth_, call_.k - p); }

  void pack(const Part& part, bool also_b, P* to_a, P* to_b) {
    struct Job {
      const Factor<T, P>* factor;
      GemmSource source;
      std::int64_t wide, depth, tasks;
      P* to;
    } jobs[2 * kMostRound];
    std::int64_t count = 0, tasks = 0;
    const auto add = [&](const Factor<T, P>& factor, const GemmSource& source, std::int64_t wide, std::int64_t depth,
                         P* to) {
      jobs[count] = {&factor, source, wide, depth, factor.tasks(wide, depth), to};
      tasks += jobs[count++].tasks;
      return factor.panels(source, wide, depth, to);
    };
    for (std::int64_t q = 0; q < part.blocks; ++q) {
      const std::int64_t p = part.p + q * depth_, depth = depth_of(p);
      if (also_b && !own_b_)
        b_[q] =
            add(fb_, call_.b_source(p, part.j), part.cols, depth, to_b + q * (room(fb_, most_cols_, call_.n) / round_));
      if (!own_a_)
        a_[q] =
            add(fa_, call_.a_source(part.i, p), part.rows, depth, to_a + q * (room(fa_, most_rows_, call_.m) / round_));
    }
    call_.for_each(tasks, [&](std::int64_t task) {
      const Job* job = jobs;
      while (task >= job->tasks) task -= job++->tasks;
      job->factor->run(task, job->source, job->wide, job->depth, job->to);
    });
  }

  // body(first row, first column, rows, columns) for every task of so many rows and columns.
  template <class Body>
  void for_each_task(std::int64_t rows, std::int64_t cols, Body&& body) const {
    const std::int64_t across = pieces_of(cols, col_step_);
    call_.for_each(pieces_of(rows, row_step_) * across, [&](std::int64_t task) {
      const std::int64_t i = task / across * row_step_, j = task % across * col_step_;
      body(i, j, std::min(row_step_, rows - i), std::min(col_step_, cols - j));
    });
  }

  // Rows [i, i + rows) and columns [j, j + cols) of a part.
  void multiply_task(const Part& part, std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t cols) const {
    GemmPanels<P> a[kMostRound], b[kMostRound];
    BufferPtr memory;
    P* own = own_room_;
    if (call_.shared && own_space_ > 0) {
      memory = BufferPtr::allocate(static_cast<std::size_t>(own_space_) * sizeof(P), "matmul");
      own = reinterpret_cast<P*>(memory.data());
    }
    for (std::int64_t q = 0; q < part.blocks; ++q) {
      const std::int64_t p = part.p + q * depth_, depth = depth_of(p);
      if (own_a_) {
        a[q] = fa_.pack_alone(call_.a_source(part.i + i, p), rows, depth, own);
        own += fa_.space(rows, depth);
      } else {
        a[q] = part_of(tiles_, a_[q], i, tiles_.rows);
      }
      if (own_b_) {
        b[q] = fb_.pack_alone(call_.b_source(p, part.j + j), cols, depth, own);
        own += fb_.space(cols, depth);
      } else {
        b[q] = part_of(tiles_, b_[q], j, tiles_.cols);
      }
    }
    for (std::int64_t r = 0; r < rows; r += tiles_.task_rows) {
      for (std::int64_t q = 0; q < part.blocks; ++q) {
        const std::int64_t p = part.p + q * depth_, depth = depth_of(p);
        if (own_b_ && r + tiles_.task_rows >= rows) b[q].soon = needed_after(part, q, j, b[q].copies != nullptr);
        const GemmResult<T> result{call_.c, call_.c_stride, call_.add || p > 0,
                                   p + depth < call_.k ? nullptr : call_.halves, call_.halves_stride};
        tiles_.multiply(std::min(tiles_.task_rows, rows - r), cols, depth, call_.alpha,
                        part_of(tiles_, a[q], r, tiles_.rows), b[q], result.from(part.i + i + r, part.j + j));
        if (b[q].copies) b[q] = fb_.packed_panels(cols, depth, b[q].copies);
      }
    }
  }

  // What of B comes after block q of the columns from j on. Blocks that tiles copy follow each other; what a task packs
  // it packs before the first, so that what comes next is the same block of the next task, which this thread gets.
  GemmSoon needed_after(const Part& part, std::int64_t q, std::int64_t j, bool copied) const {
    const bool next_block = copied && q + 1 < part.blocks;
    const std::int64_t p = part.p + (next_block ? q + 1 : copied ? 0 : q) * depth_, depth = depth_of(p);
    const std::int64_t col = part.j + j + (next_block ? 0 : col_step_), cols = std::min(col_step_, call_.n - col);
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
  const std::int64_t depth_ = gemm_depth(call_.k, tiles_.most_depth);
  std::int64_t most_rows_, most_cols_, row_step_, col_step_, round_;
  bool own_a_ = false, own_b_ = false;
  std::int64_t own_space_ = 0;
  P* own_room_ = nullptr;
  GemmPanels<P> a_[kMostRound], b_[kMostRound];
  const Factor<T, P> fa_{tiles_,
                         call_.shared,
                         true,
                         call_.a_source(0, 0),
                         std::min<std::int64_t>(call_.m, 1024),
                         depth_,
                         pieces_of(call_.n, tiles_.cols),
                         is_near(call_.m* call_.k* static_cast<std::int64_t>(sizeof(P)), call_.shared)};
  const Factor<T, P> fb_{tiles_,
                         call_.shared,
                         false,
                         call_.b_source(0, 0),
                         std::min<std::int64_t>(call_.n, 2048),
                         depth_,
                         pieces_of(call_.m, tiles_.rows),
                         is_near(call_.k* call_.n* static_cast<std::int64_t>(sizeof(P)), call_.shared)};
};

}  // namespace ebb::cpu
