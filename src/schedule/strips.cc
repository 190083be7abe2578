// SPDX-License-Identifier: MIT
#include "schedule/strips.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/format_error.h"
#include "schedule/schedule_model.h"
#include "schedule/strip_body.h"

namespace ebb {
namespace {

using Role = StripRegion::Role;

// ---- lengths --------------------------------------------------------------------------------------------------------

std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Rows of a strip: as many as fit, in strips of nearly equal length.
std::int64_t strip_length(const StripModel& model, std::int64_t rows, std::int64_t row_bytes) {
  const std::int64_t most = std::max(model.least_rows, model.strip_bytes / std::max<std::int64_t>(1, row_bytes));
  const std::int64_t strips = divided(rows, most),
                     together = std::min(kScheduleModel.strip_rows_together, model.least_rows);
  std::int64_t length = divided(divided(rows, strips), together) * together;
  while (rows % length == 1) length += together;  // a sum over one row would be that row
  return length;
}

// ---- the graph with loops -------------------------------------------------------------------------------------------

class Strips {
 public:
  Strips(ValueGraph& graph, const StripModel& model, Device device) : g_(graph), model_(model), device_(device) {}

  std::vector<StripLoopPtr> run() {
    const auto large = [&](const Value& x) { return x.op == Op::matmul && x.strips < 0 && bytes(x) >= model_.large; };
    if (std::any_of(g_.values.begin(), g_.values.end(), large)) pick_before_differences(g_);
    bool any = false;
    while (loops_.size() < kScheduleModel.most_loops && take_best()) any = true;
    if (any) forget_the_dead();
    return std::move(loops_);
  }

 private:
  static constexpr int kMany = 1 << 20;

  std::int64_t bytes(const Value& x) const { return x.shape.numel() * static_cast<std::int64_t>(size_of(x.dtype)); }

  bool take_best() {
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(g_.values.size()); ++v) {
      const Value& x = g_.values[v];
      if (x.op != Op::matmul || x.strips >= 0 || !is_floating(x.dtype) || bytes(x) < model_.large) continue;
      std::optional<StripRegion> region = best_region(v);
      if ((!region || region->products_again > 0) && with_places_apart(v, region ? region->products_again : kMany))
        region = best_region(v);
      if ((!region || region->products_again > 0) && take_apart(v, region ? region->products_again : kMany))
        return true;
      if (region && replace(*region)) return true;
    }
    return false;
  }

  // Both directions of a loss may have the same targets, and so share one value with ones at their places: each reader
  // gets its own if fewer products are then recomputed. Values move to other indices.
  bool with_places_apart(std::int32_t& seed, int products_again) {
    std::int32_t moved = seed;
    ValueGraph before = std::exchange(g_, with_places_per_reader(g_, moved));
    if (g_.values.size() > before.values.size()) {
      const std::optional<StripRegion> region = best_region(moved);
      if (region && region->products_again < products_again) {
        seed = moved;
        return true;
      }
    }
    g_ = std::move(before);
    return false;
  }

  // Two directions of one product, each in strips of its own: handles the one that the other waits for.
  bool take_apart(std::int32_t seed, int products_again) {
    const int rank = g_.values[seed].shape.rank();
    const RowDims across{rank - 1, rank}, along{rank - 2, rank - 1};
    if (model_.rows_cut > 0) return false;
    for (const auto& [rows, others] : {std::pair(along, across), std::pair(across, along)}) {
      std::optional<Apart> apart = with_directions_apart(g_, model_, seed, rows);
      if (!apart || apart->products_again >= products_again) continue;
      const auto first = find_region(apart->graph, model_, apart->second, others, false);
      const auto then = find_region(apart->graph, model_, apart->seed, rows, false);
      if (!first || !then || first->products_again > 0 || then->products_again > 0) continue;
      if (then->saved < model_.large_enough_to_repeat || !is_worth(*first) || !is_worth(*then)) continue;
      ValueGraph before = std::exchange(g_, std::move(apart->graph));
      if (replace(*first)) return true;
      g_ = std::move(before);
    }
    return false;
  }
  bool is_worth(const StripRegion& region) const {
    const std::int64_t length = strip_length(model_, region.count, region.widest_row);
    if (region.count < 2 * model_.least_rows || length * 2 > region.count) return false;
    return model_.rows_cut == 0 || is_worth_tiles(region, length * region.widest_row);
  }
  // Each tile adds to the sums over tiles, in memory: that must move less than the tile keeps in the cache. Positions
  // of numbers that fail a check are counted from the first row only.
  bool is_worth_tiles(const StripRegion& region, std::int64_t tile_bytes) const {
    std::int64_t added = 0;
    for (const StripRegion::Round& round : region.rounds) {
      for (std::int32_t v : round.members) {
        const Value& x = g_.values[v];
        if (x.op == Op::check) return false;
        if (region.role[v] == Role::summed && x.op == Op::matmul)
          added += x.shape.numel() * static_cast<std::int64_t>(size_of(sum_dtype(x.dtype)));
      }
    }
    return 2 * added <= tile_bytes;
  }

  std::optional<StripRegion> best_region(std::int32_t seed) const {
    const Shape& shape = g_.values[seed].shape;
    const int rank = shape.rank();
    std::optional<StripRegion> best;
    for (const RowDims dims : {RowDims{rank - 2, rank - 1}, RowDims{rank - 1, rank}, RowDims{0, rank - 2}}) {
      const RowDims rows = trimmed(shape, dims);
      if (rows.none() || count_rows(shape, rows) == model_.rows_cut) continue;
      for (const bool through_products : {true, false}) {
        std::optional<StripRegion> found = find_region(g_, model_, seed, rows, through_products);
        if (!found || found->saved < (found->products_again ? model_.large_enough_to_repeat : model_.large)) continue;
        if (!is_worth(*found)) continue;
        const auto merit = [](const StripRegion& r) { return std::pair(-r.products_again, r.saved); };
        if (!best || merit(*found) > merit(*best)) best = std::move(found);
      }
    }
    return best;
  }

  // A GPU sweep that places numbers in its rows has threads that stay in a row, and reads the data of each column again
  // in every row: for pairs in both directions that is more than the product itself. Without a reduction of rows to
  // share their order with, numbers are placed by comparison, and threads go down the columns.
  void place_by_comparison(StripRegion& region) const {
    if (device_.kind != Device::Kind::cuda) return;
    for (const StripRegion::Round& round : region.rounds) {
      const auto is_wide = [&](std::int32_t u) { return region.role[u] == Role::by_row && region.wide[u]; };
      const bool reduces = std::any_of(round.members.begin(), round.members.end(), [&](std::int32_t v) {
        const Value& x = g_.values[v];
        return region.role[v] == Role::by_row && (info(x.op).cls == OpClass::reduce || x.op == Op::pick) &&
               is_wide(x.inputs[0]);
      });
      for (const std::int32_t v : round.members) {
        if (!reduces && g_.values[v].op == Op::place && is_wide(v) && !places_across(g_.values[v], region.rows[v]))
          region.compared.insert(v);
      }
    }
  }

  // In a pick across the rows, each strip sees only its own numbers, and for a number placed by comparison no index is
  // read: so indices are checked against the whole range before.
  void check_indices(StripRegion& region) {
    for (std::int32_t v = 0, n = static_cast<std::int32_t>(g_.values.size()); v < n; ++v) {
      const bool picked = g_.values[v].op == Op::pick && region.role[v] == Role::summed;
      if (!picked && !region.compared.contains(v)) continue;
      const std::int32_t index = g_.values[v].inputs[1];
      const Shape shape = g_.values[index].shape;
      const DType dtype = g_.values[index].dtype;
      const auto uniform = [&](double number) {
        Value constant;
        constant.op = Op::constant;
        constant.dtype = dtype;
        constant.literal = number;
        Value seen;
        seen.op = Op::expand;
        seen.dtype = dtype;
        seen.shape = shape;
        seen.inputs = {push(std::move(constant))};
        seen.base = seen.inputs[0];
        seen.mappable = true;
        seen.shows.fill(-1);
        return push(std::move(seen));
      };
      const Shape& of = picked ? g_.values[g_.values[v].inputs[0]].shape : g_.values[v].shape;
      const std::int64_t size = of[static_cast<int>(g_.values[v].attrs.i[0])];
      const std::int32_t from = elementwise(Op::ge, DType::bool_, shape, {index, uniform(0)});
      const std::int32_t below = elementwise(Op::lt, DType::bool_, shape, {index, uniform(static_cast<double>(size))});
      const std::int32_t inside = elementwise(Op::logical_and, DType::bool_, shape, {from, below});
      const std::int32_t checked = elementwise(Op::check, dtype, shape, {index, inside});
      g_.values[checked].label = g_.values[v].label ? g_.values[v].label : "gather: index";
      g_.values[checked].attrs.i = {1, 0, size};
      g_.values[v].inputs[1] = checked;
    }
    region.role.resize(g_.values.size(), Role::outside);
    region.rows.resize(g_.values.size());
    region.wide.resize(g_.values.size(), 0);
  }
  std::int32_t elementwise(Op op, DType dtype, const Shape& shape, std::vector<std::int32_t> inputs) {
    Value made;
    made.op = op;
    made.dtype = dtype;
    made.shape = shape;
    made.inputs = std::move(inputs);
    return push(std::move(made));
  }

  bool replace(StripRegion region) {
    place_by_comparison(region);
    check_indices(region);
    std::vector<std::shared_ptr<StripLoop>> loops;
    std::vector<std::vector<std::int32_t>> inputs;
    std::vector<char> product_made(g_.values.size(), 0);
    for (const StripRegion::Round& round : region.rounds) {
      auto loop = std::make_shared<StripLoop>();
      const std::int64_t length = strip_length(model_, region.count, region.widest_row);
      loop->rows = region.count;
      loop->tiles = model_.rows_cut > 0;
      loop->strips = divided(region.count, length);
      std::optional<StripBodies> made = make_bodies(g_, region, round, model_, device_, length);
      if (!made) {
        sort_inputs_first(g_);  // checks of indices were added after their readers
        return false;
      }
      loop->bodies = std::move(made->bodies);
      loop->inputs = std::move(made->strip_inputs);
      for (std::int32_t v : round.members) {
        if (g_.values[v].op == Op::matmul && std::exchange(product_made[v], 1)) ++loop->products_again;
      }
      inputs.push_back(std::move(made->inputs));
      loops.push_back(std::move(loop));
    }
    maxima_.clear();
    for (std::size_t r = 0; r < loops.size(); ++r) {
      const auto id = static_cast<std::int32_t>(loops_.size());
      for (std::int32_t v : region.rounds[r].outputs) {
        const std::int32_t from = output(region, v, *loops[r]);
        Value& x = g_.values[from];
        x.inputs = inputs[r];
        x.strips = id;
        x.strip_output = static_cast<std::int32_t>(loops[r]->outputs.size()) - 1;
      }
      loops_.push_back(std::move(loops[r]));
    }
    sort_inputs_first(g_);
    return true;
  }

  // Adds an output that v will be computed from, and returns the value that represents it.
  std::int32_t output(const StripRegion& region, std::int32_t v, StripLoop& loop) {
    const Value x = g_.values[v];
    const DType dtype = sum_dtype(x.dtype);
    if (region.role[v] == Role::by_row) {
      loop.outputs.push_back({StripOutput::Kind::rows, x.shape.numel() / region.count});
      return v;
    }
    if (x.op == Op::matmul) {
      loop.outputs.push_back({StripOutput::Kind::sum, x.shape.numel()});
      return dtype == x.dtype ? v : cast_to(v, x);
    }
    loop.outputs.push_back({StripOutput::Kind::partial, x.shape.numel()});
    const int first = region.rows[x.inputs[0]].first;
    std::int64_t before = 1;
    for (int d = 0; d < first; ++d) before *= x.shape[d];
    const auto shifted = region.shifts.find(v);
    if (shifted != region.shifts.end()) return parts_of_columns(v, x, loop.strips, &shifted->second);
    if (before > 1 || x.op == Op::pick || region.is_shift(v)) return parts_of_columns(v, x, loop.strips);
    const std::int32_t total = dtype == x.dtype ? v : cast_to(v, x);
    Value parts = g_.values[total];
    parts.shape = x.shape.with(first, loop.strips);
    const std::int32_t made = push(std::move(parts));
    g_.values[total].inputs = {made};
    g_.values[total].attrs.axes = 1u << first;
    return made;
  }
  // Where rows are not the outermost dimension, parts do not have the layout that their sum would need: they are lines
  // of a matrix, whose sum is then viewed in v's shape.
  std::int32_t parts_of_columns(std::int32_t v, const Value& x, std::int64_t strips,
                                const StripRegion::Shift* shift = nullptr) {
    Value parts = x;
    if (x.op == Op::pick) parts.op = Op::sum;
    parts.dtype = sum_dtype(x.dtype);
    parts.shape = Shape{strips, x.shape.numel()};
    Value total = parts;
    total.attrs.axes = 1;
    total.shape = Shape{1, x.shape.numel()};
    const std::int32_t made = push(std::move(parts));
    if (x.op == Op::max) maxima_[v] = made;
    total.inputs = {shift ? weighted(made, *shift) : made};
    Value seen;
    seen.op = Op::reshape;
    seen.dtype = total.dtype;
    seen.shape = x.shape;
    seen.strides = contiguous_strides(x.shape);
    seen.inputs = {push(std::move(total))};
    seen.base = seen.inputs[0];
    const std::int32_t view = push(std::move(seen));
    become(v, x.dtype == sum_dtype(x.dtype) ? Op::copy : Op::cast, view);
    return made;
  }
  // exp(m_k − m)·Σ exp(x_k − m_k) of every strip. Where m_k is −inf, that is 0.
  std::int32_t weighted(std::int32_t sums, const StripRegion::Shift& shift) {
    const Shape shape = g_.values[sums].shape;
    const DType dtype = g_.values[sums].dtype;
    Value repeated;
    repeated.op = Op::expand;
    repeated.dtype = dtype;
    repeated.shape = shape;
    repeated.strides[1] = 1;
    repeated.inputs = {shift.value};
    repeated.base = shift.value;
    const std::int32_t less =
        elementwise(Op::sub, dtype, shape, {maxima_.at(shift.maximum), push(std::move(repeated))});
    return elementwise(Op::mul, dtype, shape, {sums, elementwise(Op::exp, dtype, shape, {less})});
  }
  std::int32_t push(Value x) {
    g_.values.push_back(std::move(x));
    return static_cast<std::int32_t>(g_.values.size()) - 1;
  }
  void become(std::int32_t v, Op op, std::int32_t input) {
    Value& x = g_.values[v];
    x.op = op;
    x.attrs = {};
    x.label = nullptr;
    x.inputs = {input};
  }
  // v becomes a rounded copy of a new value, which is returned.
  std::int32_t cast_to(std::int32_t v, const Value& x) {
    Value wide = x;
    wide.dtype = sum_dtype(x.dtype);
    const std::int32_t made = push(std::move(wide));
    become(v, Op::cast, made);
    return made;
  }

  // Values computed inside the loops are no longer part of the graph, and must not count as readers.
  void forget_the_dead() {
    std::vector<char> live(g_.values.size(), 0);
    for (std::int32_t r : g_.roots) live[r] = 1;
    for (std::size_t v = g_.values.size(); v-- > 0;) {
      if (!live[v]) continue;
      for (std::int32_t in : g_.values[v].inputs) live[in] = 1;
      if (g_.values[v].is_view()) live[g_.values[v].base] = 1;
    }
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      Value& x = g_.values[v];
      if (live[v] || x.is_leaf) continue;
      x.op = Op::constant;
      x.node = x.base = x.strips = -1;
      x.inputs.clear();
    }
  }

  ValueGraph& g_;
  const StripModel& model_;
  const Device device_;
  std::vector<StripLoopPtr> loops_;
  std::map<std::int32_t, std::int32_t> maxima_;  // of each strip, by the maximum over all
};

}  // namespace

std::vector<StripLoopPtr> make_strips(ValueGraph& graph, const StripModel& model, Device device) {
  return Strips(graph, model, device).run();
}

}  // namespace ebb
