// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>

#include "schedule/fuse.h"
#include "schedule/placed.h"
#include "schedule/schedule_model.h"
#include "schedule/trial.h"
#include "sweep/sum_order.h"

namespace ebb {

// Is a sum over the first axes one over so few rows that its parts would write more than they read?
inline bool few_rows(std::int64_t rows, std::int64_t columns) {
  return rows_per_part(rows, columns) < kScheduleModel.few_rows;
}

// Whether a value fits into the groups of its inputs that are on a level, and what their group would be with it.
class Attempts {
 public:
  Attempts(const ValueGraph& graph, Fusion& fusion, Reductions reductions)
      : g_(graph), f_(fusion), reductions_(reductions) {}

  // Null: it does not fit. May turn the space of a small group into one row, where its own sweep needs a total.
  std::optional<Trial> attempt(std::int32_t v, int level);
  // The same, treating all inputs but those of `base` as memory.
  std::optional<Trial> attempt_with(std::int32_t v, int level, std::int32_t base);
  bool totals_fit(const Trial& t) const;

 private:
  // Elementwise operations, and those on finished totals or column sums: the epilogue (attempt_elementwise.cc).
  std::optional<Trial> attempt_elementwise(std::int32_t v, int level);
  std::optional<Trial> attempt_post(std::int32_t v, int level);
  bool make_totals_usable(std::int32_t v, int level);
  // Reductions, pick and place (attempt_rows.cc).
  std::optional<Trial> attempt_reduce(std::int32_t v, int level);
  std::optional<Trial> attempt_pick(std::int32_t v, int level);
  std::optional<Trial> attempt_place(std::int32_t v, int level);
  std::optional<Trial> finish_row_op(Trial& t, int rank, int axis, std::int8_t column, bool pick);
  bool take_operand(Trial& t, std::int32_t in, int level);
  std::vector<int> dims_in_order(const Trial& t, std::int32_t in, int level) const;
  std::vector<std::int64_t> steps_of(const SweepGroup& group, int id) const;
  bool take_row_operand(Trial& t, std::int32_t in, int level, int rank);

  const Value& value(std::int32_t v) const { return g_.values[v]; }
  bool inside(std::int32_t in, int level) const {
    return placed_.inside(in, level) && (alone_ < 0 || g_.base(in) == alone_);
  }
  bool memory_varies(std::int32_t v, int d) const;
  bool take_in(Trial& t, std::int32_t in, int rank) const;
  std::uint32_t signature_of(const Trial& t, std::int32_t in) const;

  const ValueGraph& g_;
  Fusion& f_;
  const Reductions reductions_;
  std::int32_t alone_ = -1;  // on trial: all other inputs count as memory
  const Placed placed_{g_, f_};
};

}  // namespace ebb
