// SPDX-License-Identifier: MIT
#include "cpu/gemm/plan.h"

#include <algorithm>
#include <limits>

#include "cpu/gemm/kernels.h"

namespace ebb::cpu {
namespace {

class Planner {
 public:
  Planner(const GemmRequest& request, const GemmTileShape& tiles, const CpuModel& model)
      : r_(request), t_(tiles), model_(model) {
    plan_.tiles = tiles;
    plan_.shared = request.shared;
    plan_.depth = gemm_depth(request.k, tiles.most_depth);
    plan_.blocks = ceil_div(request.k, plan_.depth);
  }

  GemmPlan run() {
    if (r_.dots && r_.a.own && r_.b.own && r_.m * r_.n * r_.k <= model_.dots_multiplications) {
      plan_.order = GemmPlan::Order::dots;
      return plan_;
    }
    if (r_.vectors && !r_.rounded && (r_.m == 1 || r_.n == 1)) {
      plan_vector();
      return plan_;
    }
    plan_.shared = r_.shared && work(r_.m, r_.n, r_.k) >= 2 * first_task_flops();
    if (is_deep()) {
      plan_deep();
    } else if (suits_turns()) {
      plan_turns();
    } else {
      plan_tasks();
    }
    return plan_;
  }

 private:
  bool near() const { return t_.rows_stay; }
  bool by_tile_registers() const { return t_.rows_stay && t_.group > 1; }
  std::int64_t threads() const { return plan_.shared ? r_.threads : 1; }
  double task_flops() const { return t_.group == 2 ? model_.task_flops_of_pairs : model_.task_flops; }
  double first_task_flops() const { return near() && t_.group == 1 ? model_.first_task_flops : task_flops(); }

  // Work of `rows` rows and `cols` columns, in operations: tiles multiply whole vectors of columns, and storing an
  // element of C takes as long as some steps of k.
  double work(std::int64_t rows, std::int64_t cols, std::int64_t depth) const {
    rows = std::min(rows, r_.m);
    cols = std::min(cols, r_.n);
    if (near() && t_.group == 1) {
      cols = ceil_div(cols, t_.lanes) * t_.lanes;
      depth += model_.result_steps;
    }
    return 2.0 * static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(depth);
  }

  // ---- Vectors. Tasks read the matrix in long runs: whole rows of it where they are dense (at 4096² that is 20 GB/s,
  // and 12 in pieces of 512), which leaves k to share; else the outputs are shared, if there are enough to keep the
  // processor busy.
  void plan_vector() {
    const GemmRequest::Factor& matrix = r_.m == 1 ? r_.b : r_.a;
    const std::int64_t outputs = r_.m == 1 ? r_.n : r_.m;
    const bool few = outputs < model_.few_vector_outputs && plan_.blocks > 1, dense_rows = matrix.wide_stride == 1;
    const bool large = r_.shared && outputs * r_.k >= 2 * model_.vector_elements;
    if (few || (large && plan_.blocks > 1 && (dense_rows || outputs < model_.shared_vector_outputs))) {
      plan_.order = GemmPlan::Order::depth;
      plan_.side_by_side = few;
      plan_.at_a_time = std::max<std::int64_t>(1, model_.vector_elements / (outputs * plan_.depth));
      return;
    }
    plan_.order = GemmPlan::Order::outputs;
    const std::int64_t least = ceil_div(model_.vector_elements / r_.k, model_.vector_unit) * model_.vector_unit;
    plan_.task_cols =
        dense_rows ? kGemmMostVectorOutputs : std::clamp(least, model_.vector_unit, kGemmMostVectorOutputs);
  }

  // ---- Few outputs, and more of k than threads could share otherwise. Partial results are f32: nothing is rounded.
  bool is_deep() const {
    return plan_.shared && !r_.rounded && r_.m <= model_.deep_side && r_.n <= model_.deep_side &&
           r_.k >= model_.deep_blocks * t_.most_depth;
  }
  void plan_deep() {
    plan_.order = GemmPlan::Order::deep;
    plan_.at_a_time = std::clamp<std::int64_t>(model_.deep_elements / (r_.m * r_.n), 1, plan_.blocks);
    plan_.per_task = static_cast<std::int64_t>(std::max(1.0, task_flops() / work(r_.m, r_.n, plan_.depth)));
  }

  // ---- Turns.
  bool suits_turns() const {
    const std::int64_t bytes = r_.k * r_.n * t_.bytes;
    return near() && t_.group == 1 && t_.bytes == 4 && t_.bytes * t_.lanes == model_.turn_vector_bytes && r_.b.own &&
           r_.b.wide_stride == 1 && r_.m >= model_.turn_rows && r_.m <= model_.task_rows &&
           plan_.depth >= model_.turn_depth && r_.n >= t_.cols * model_.turn_panels * threads() &&
           bytes >= model_.turn_bytes && bytes <= model_.turn_most_bytes_of_thread * threads();
  }
  void plan_turns() {
    plan_.order = GemmPlan::Order::turns;
    plan_.at_a_time = std::min(kGemmMostAtATime, plan_.blocks);
    plan_.turns = ceil_div(ceil_div(r_.n, t_.cols), threads()) * threads();
    plan_.pack_elements = pack_elements();
    plan_.b.own = true;
  }

  // ---- Tasks.
  std::int64_t pack_elements() const { return near() ? model_.pack_elements_near : model_.pack_elements; }

  // Where tiles keep panels of A in the level-1 cache, a task computes all blocks of k of a part of C that stays in the
  // second-level cache. A factor that only one task reads, or that costs nothing to pack, is packed by the task without
  // waiting; the other is packed by all, for several blocks of k at once. Elsewhere one block of k follows the other,
  // and both factors are packed by all.
  void plan_tasks() {
    plan_.order = GemmPlan::Order::tasks;
    plan_.run_rows = model_.task_rows;
    plan_.pack_elements = pack_elements();
    plan_.a.access = access(true);
    plan_.b.access = access(false);
    plan_.task_rows = model_.task_rows;
    if (!near()) {
      plan_.task_cols = model_.task_panels * t_.cols;
      cut_rows();
    } else {
      // As many panels as stay in the second-level cache.
      const std::int64_t most = by_tile_registers() ? model_.task_panels_of_tiles : model_.task_panels;
      plan_.task_cols = std::min(most, panels_that_stay()) * t_.cols;
      by_tile_registers() ? cut_for_lone_tasks() : cut_near();
    }
    plan_.part_rows = most_rows();
    plan_.part_cols = most_cols();
    if (near()) plan_.at_a_time = blocks_at_a_time();
  }

  std::int64_t most_rows() const {
    const std::int64_t most = near() ? model_.part_rows : model_.part_cols;
    return plan_.a.own ? r_.m : std::min(r_.m, most / t_.rows * t_.rows);
  }
  std::int64_t most_cols() const {
    const std::int64_t most = near() ? model_.part_cols : model_.part_rows;
    return plan_.b.own ? r_.n : std::min(r_.n, most / t_.cols * t_.cols);
  }
  std::int64_t panels_that_stay() const {
    const std::int64_t panel = t_.cols * t_.packed_depth(plan_.depth) * t_.bytes;
    const std::int64_t room =
        model_.l2_bytes > 0 ? static_cast<std::int64_t>(model_.l2_for_panels * static_cast<double>(model_.l2_bytes))
                            : model_.panel_bytes;
    return std::max<std::int64_t>(2, room / panel);
  }

  // Where A is kept in the level-1 cache, a factor that is near need not be packed beforehand; one that comes from
  // further away is packed in longer runs than tiles read, which the hardware prefetches.
  FactorAccess access(bool of_rows) const {
    const GemmRequest::Factor& f = of_rows ? r_.a : r_.b;
    if (!f.own) return FactorAccess::packed;
    if (t_.group > 1) return of_rows && reads_groups(f) ? FactorAccess::in_rows : FactorAccess::packed;
    const std::int64_t wide = std::min(of_rows ? r_.m : r_.n, of_rows ? model_.in_place_rows : model_.in_place_cols);
    const std::int64_t passes = of_rows ? ceil_div(r_.n, t_.cols) : ceil_div(r_.m, t_.rows);
    if (f.wide_stride == 1 && (passes <= model_.in_place_passes || wide * plan_.depth <= model_.in_place_elements))
      return FactorAccess::in_place;
    if (!near() || !is_near((of_rows ? r_.m : r_.n) * r_.k * t_.bytes)) return FactorAccess::packed;
    if (!of_rows) return f.wide_stride == 1 ? FactorAccess::copied : FactorAccess::packed;
    return f.depth_stride == 1 && passes <= most_passes(f.wide_stride) ? FactorAccess::in_rows : FactorAccess::packed;
  }
  // Do the second-level caches of all threads that share a product hold a factor of so many bytes, and other data?
  bool is_near(std::int64_t bytes) const {
    return static_cast<double>(bytes) <= model_.l2_for_factor * static_cast<double>(model_.l2_bytes * threads());
  }
  bool begins_with_pages(std::int64_t stride) const { return stride * t_.bytes % model_.page_bytes == 0; }
  std::int64_t most_passes(std::int64_t wide_stride) const {
    if (begins_with_pages(wide_stride)) return plan_.shared ? model_.in_rows_passes_of_pages * threads() : 0;
    return model_.in_rows_passes * threads();
  }
  // Tiles load rows in place as fast as packed ones, even where two rows or four fill a page: on a core of Emerald
  // Rapids 512³ took 380 µs with A packed and 310 without, on 16 1024³ 580 and 490. Rows that all begin at the same
  // offset in a page were not measured.
  bool reads_groups(const GemmRequest::Factor& f) const {
    return t_.reads_rows && f.depth_stride == 1 && f.wide_stride > 1 && !begins_with_pages(f.wide_stride);
  }

  // Should that many tasks of so much work each be cut once more?
  bool is_too_long(std::int64_t tasks, std::int64_t wanted, double of_one) const {
    return (tasks < wanted && of_one > 2 * task_flops()) ||
           (tasks < std::min(threads(), wanted) && of_one > 2 * first_task_flops());
  }
  std::int64_t wanted_tasks() const {
    const std::int64_t least = !near() ? model_.least_tasks : threads() == 1 ? 1 : model_.least_tasks_near;
    return plan_.shared ? std::max(least, model_.tasks_per_thread * threads()) : 1;
  }
  static std::int64_t half(std::int64_t step, std::int64_t unit) { return ceil_div(step / 2, unit) * unit; }
  static std::int64_t rounded_up(std::int64_t size, std::int64_t unit) { return ceil_div(size, unit) * unit; }

  // Both factors are packed by all, block after block.
  void cut_rows() {
    const std::int64_t across = ceil_div(most_cols(), plan_.task_cols);
    while (plan_.task_rows > model_.least_rows &&
           is_too_long(ceil_div(most_rows(), plan_.task_rows) * across, wanted_tasks(),
                       work(plan_.task_rows, plan_.task_cols, plan_.depth)))
      plan_.task_rows /= 2;
  }

  void cut_near() {
    const std::int64_t m = r_.m, n = r_.n;
    std::int64_t &rows = plan_.task_rows, &cols = plan_.task_cols;
    // If the task packs them, panels begin where the task's columns do: then any number of vectors will do.
    plan_.a.own = plan_.a.access != FactorAccess::packed;
    plan_.b.own = plan_.b.access != FactorAccess::packed;
    const bool copies = plan_.b.access == FactorAccess::copied;
    std::int64_t col_unit = plan_.b.own && threads() > 1 ? model_.col_unit : t_.cols;
    const bool by_columns = !plan_.b.own && cut_columns(col_unit);
    if (plan_.b.own) rows = rounded_up(m, t_.rows);
    if (!by_columns) {
      // A single panel is copied quickly.
      const std::int64_t least_rows = n <= t_.cols ? 2 * t_.rows
                                      : copies     ? model_.least_rows_of_copies
                                                   : model_.least_rows;
      const std::int64_t rows_per_col = copies && plan_.depth > model_.long_sums ? model_.rows_per_col_of_long_sums : 1;
      while (is_too_long(ceil_div(most_rows(), rows) * ceil_div(n, cols), wanted_tasks(), work(rows, cols, r_.k))) {
        const bool cut_rows = rows > least_rows, cut_cols = std::min(cols, n) > std::max(t_.cols, col_unit);
        if (!cut_rows && !cut_cols) break;
        if (cut_rows && (!cut_cols || std::min(rows, m) >= rows_per_col * std::min(cols, n))) {
          rows = half(std::min(rows, rounded_up(m, t_.rows)), t_.rows);
        } else {
          cols = half(std::min(cols, rounded_up(n, col_unit)), col_unit);
        }
      }
    }
    const bool all_rows = rows >= most_rows();
    plan_.b.own = plan_.b.own || all_rows;
    plan_.a.own = plan_.a.own || (!all_rows && cols >= n);
    // As many tasks, of nearly equal size.
    if (plan_.a.own || plan_.b.own) rows = rounded_up(ceil_div(m, ceil_div(m, rows)), t_.rows);
    if (plan_.b.own) cols = rounded_up(ceil_div(n, ceil_div(n, cols)), col_unit);
  }

  // Cuts only columns, if that gives enough tasks: then B is packed by its reader.
  bool cut_columns(std::int64_t& col_unit) {
    if (r_.n <= plan_.task_cols) return false;
    const bool few = plan_.shared && r_.m <= model_.task_rows;
    const std::int64_t least = few ? model_.least_cols_of_few_rows : t_.cols, unit = few ? model_.col_unit : t_.cols;
    const std::int64_t per_thread = few ? model_.tasks_per_thread_of_few_rows : model_.tasks_per_thread;
    const std::int64_t least_across = threads() == 1 ? model_.least_tasks_across_alone : model_.least_tasks_across;
    const std::int64_t wanted = plan_.shared ? std::max(least_across, per_thread * threads()) : 1;
    std::int64_t step = plan_.task_cols;
    const auto too_long = [&] { return is_too_long(ceil_div(r_.n, step), wanted, work(r_.m, step, r_.k)); };
    while (step > least && too_long()) step = half(step, unit);
    if (too_long()) return false;
    plan_.task_cols = step;
    plan_.task_rows = rounded_up(most_rows(), t_.rows);
    col_unit = unit;
    return true;
  }

  // Tasks that pack their own factors and never wait: data packed by another thread would come from its cache at a
  // fraction of the speed of packing it here. An estimate chooses the number of tasks and their shape.
  void cut_for_lone_tasks() {
    const std::int64_t row_units = ceil_div(r_.m, t_.rows), col_units = ceil_div(r_.n, t_.cols);
    const std::int64_t least_down = ceil_div(r_.m, model_.lone_rows);
    const std::int64_t least_across = ceil_div(r_.n, plan_.task_cols);
    const bool in_rows = plan_.a.access == FactorAccess::in_rows;
    double least = std::numeric_limits<double>::max();
    const auto consider = [&](std::int64_t down, std::int64_t across) {
      const std::int64_t row_step = ceil_div(row_units, down) * t_.rows;
      const std::int64_t col_step = ceil_div(col_units, across) * t_.cols;
      const std::int64_t tasks = ceil_div(r_.m, row_step) * ceil_div(r_.n, col_step);
      const auto rows = static_cast<double>(row_step), cols = static_cast<double>(col_step);
      const double one = rows * cols + rows * (in_rows ? model_.reading_cost : model_.packing_cost) +
                         cols * model_.packing_cost + model_.task_cost / static_cast<double>(r_.k);
      const double all =
          (static_cast<double>(ceil_div(tasks, threads())) + (threads() > 1 ? model_.tasks_apart : 0)) * one;
      if (all >= least) return;
      least = all;
      plan_.task_rows = row_step;
      plan_.task_cols = col_step;
    };
    const std::int64_t most = threads() == 1 ? 1 : model_.lone_tasks_per_thread;
    for (std::int64_t per_thread = 1; per_thread <= most; per_thread *= 2) {
      const std::int64_t tasks = per_thread * threads();
      for (std::int64_t down = least_down; down <= std::max(least_down, std::min(row_units, tasks)); down *= 2)
        consider(down, std::clamp(ceil_div(tasks, down), least_across, std::max(least_across, col_units)));
    }
    plan_.b.own = true;
    plan_.a.own = in_rows || ceil_div(r_.n, plan_.task_cols) <= (threads() == 1 ? 1 : 2 * threads());
  }

  std::int64_t blocks_at_a_time() const {
    const std::int64_t bytes = plan_.depth * t_.bytes;
    const std::int64_t by_all = ((plan_.a.own ? 0 : plan_.part_rows) + (plan_.b.own ? 0 : plan_.part_cols)) * bytes;
    const std::int64_t by_task = ((plan_.a.own && !plan_.a.stays() ? plan_.task_rows : 0) +
                                  (plan_.b.own && !plan_.b.stays() ? plan_.task_cols : 0)) *
                                 bytes;
    const std::int64_t most = std::min(model_.packed_bytes / std::max<std::int64_t>(1, by_all),
                                       model_.packed_bytes_of_task / std::max<std::int64_t>(1, by_task));
    return std::clamp<std::int64_t>(most, 1, std::min(plan_.blocks, kGemmMostAtATime));
  }

  const GemmRequest& r_;
  const GemmTileShape& t_;
  const CpuModel& model_;
  GemmPlan plan_;
};

}  // namespace

GemmPlan plan_product(const GemmRequest& request, const GemmTileShape& tiles, const CpuModel& model) {
  return Planner(request, tiles, model).run();
}

HalvesPlan plan_halves(const GemmRequest& request, bool tiles_round, const GemmTileShape& tiles,
                       const CpuModel& model) {
  HalvesPlan plan;
  if (tiles_round) {
    const GemmPlan::Order order = plan_product(request, tiles, model).order;
    plan.by_tiles = order == GemmPlan::Order::tasks || order == GemmPlan::Order::turns;
  }
  if (plan.by_tiles && request.k <= tiles.most_depth) return plan;
  plan.part_cols = std::min(request.n, model.halves_cols);
  const std::int64_t unit = model.halves_least_rows, fit = model.halves_elements / plan.part_cols / unit * unit;
  plan.part_rows = std::min(request.m, std::max(unit, fit));
  return plan;
}

}  // namespace ebb::cpu
