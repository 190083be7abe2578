// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <functional>

#include "cpu/gemm/plan.h"

namespace ebb::cpu {
namespace {

std::string factor_text(const char* name, const GemmPlan::Factor& factor) {
  switch (factor.access) {
    case FactorAccess::in_place:
      return fmt::format("{} in place", name);
    case FactorAccess::in_rows:
      return fmt::format("{} in rows", name);
    case FactorAccess::copied:
      return fmt::format("{} copied by its first tiles", name);
    default:
      return fmt::format("{} packed by {}", name, factor.own ? "its task" : "all");
  }
}

std::string blocks_text(const GemmPlan& plan) {
  return plan.blocks == 1 ? fmt::format("k {}", plan.depth) : fmt::format("k in {} of {}", plan.blocks, plan.depth);
}

std::string tiles_text(const GemmTileShape& tiles) { return fmt::format("tiles {}x{}", tiles.rows, tiles.cols); }

}  // namespace

std::string describe(const GemmPlan& plan) {
  std::string text;
  const std::string k = blocks_text(plan);
  switch (plan.order) {
    case GemmPlan::Order::dots:
      text = fmt::format("a dot product per output, {}", k);
      break;
    case GemmPlan::Order::outputs:
      text = fmt::format("vector, {} outputs per task, {}", plan.task_cols, k);
      break;
    case GemmPlan::Order::depth:
      text = fmt::format("vector, {}, {} per task{}", k, plan.at_a_time, plan.side_by_side ? " side by side" : "");
      break;
    case GemmPlan::Order::deep:
      text = fmt::format("{}, {} per task, {} at a time, {}", k, plan.per_task, plan.at_a_time, tiles_text(plan.tiles));
      break;
    case GemmPlan::Order::turns:
      text = fmt::format("{} turns, {}, {}, {}, {}", plan.turns, tiles_text(plan.tiles), k, factor_text("A", plan.a),
                         "B packed while the turn before is multiplied");
      break;
    case GemmPlan::Order::tasks:
      text = fmt::format("tasks {}x{}, {}, {}", plan.task_rows, plan.task_cols, tiles_text(plan.tiles), k);
      if (plan.at_a_time > 1) text += fmt::format(" ({} at a time)", plan.at_a_time);
      text += fmt::format(", {}, {}", factor_text("A", plan.a), factor_text("B", plan.b));
      if (!plan.a.own || !plan.b.own) text += fmt::format(", parts {}x{}", plan.part_rows, plan.part_cols);
      break;
  }
  return text + (plan.shared ? "" : ", one thread");
}

std::size_t hash(const GemmPlan& plan) { return std::hash<std::string>()(describe(plan)); }

}  // namespace ebb::cpu
