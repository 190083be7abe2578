// SPDX-License-Identifier: MIT
#include "schedule/row_room.h"

#include <cstdlib>
#include <optional>

namespace ebb {
namespace {

class RowRoom {
 public:
  RowRoom(ValueGraph& graph, const Fusion& fusion, const std::vector<char>& live, const Backend& backend)
      : g_(graph), f_(fusion), live_(live), backend_(backend), wanted_(graph.values.size(), kNobody) {}

  void run() {
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      if (live_[v] && g_.values[v].is_call()) ask(static_cast<std::int32_t>(v));
    }
    for (const std::int32_t r : g_.roots) wanted_[g_.memory(r)] = kRefused;
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      if (live_[v]) ask_view(g_.values[v]);
    }
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      Value& x = g_.values[v];
      if (wanted_[v] <= 0 || !is_filled_by_a_step(static_cast<std::int32_t>(v))) continue;
      x.room = wanted_[v] - columns(x);
    }
    for (std::size_t v = 0; v < g_.values.size(); ++v) {
      Value& x = g_.values[v];
      if (!live_[v] || !x.is_view() || g_.values[x.base].room == 0) continue;
      const Place moved = *place_of(x, g_.values[x.base], g_.values[x.base].room);
      x.strides = moved.strides;
      x.offset = moved.offset;
      x.room = moved.room;
    }
  }

 private:
  // Elements from row to row that a value's readers want, or one of these.
  static constexpr std::int64_t kNobody = 0, kRefused = -1;

  struct Place {
    Strides strides;
    std::int64_t offset = 0, room = 0;
  };

  static std::int64_t columns(const Value& x) { return x.shape[x.shape.rank() - 1]; }
  static bool is_one_product(const Value& x) {
    if (x.op != Op::matmul || x.strips >= 0 || x.attrs.options) return false;
    const int rank = x.shape.rank();
    return rank >= 2 && x.shape.numel() == x.shape[rank - 2] * x.shape[rank - 1];
  }
  bool is_filled_by_a_step(std::int32_t v) const {
    const Value& x = g_.values[v];
    if (x.is_leaf || x.is_view() || x.strips >= 0) return false;
    return x.op == Op::matmul || (f_.places[v].group >= 0 && f_.places[v].in_memory && f_.places[v].post == Post::no);
  }

  void ask(std::int32_t call) {
    const Value& x = g_.values[call];
    const bool product = is_one_product(x);
    for (std::size_t k = 0; k < x.inputs.size(); ++k) {
      if (product && k < 2) {
        ask_for(g_.memory(x.inputs[k]), x);
      } else {
        wanted_[g_.memory(x.inputs[k])] = kRefused;
      }
    }
    if (product) ask_for(call, x);
  }
  void ask_for(std::int32_t v, const Value& product) {
    const Value& x = g_.values[v];
    const Shape& left = g_.values[product.inputs[0]].shape;
    const std::int64_t step =
        x.shape.rank() < 2 || x.is_leaf
            ? kRefused
            : backend_.row_step(x.dtype, columns(x), left[left.rank() - 1], columns(product));
    std::int64_t& wanted = wanted_[v];
    if (wanted == kNobody) wanted = step;
    if (wanted != step || step <= columns(x)) wanted = kRefused;
  }
  // A view whose lines do not stay within rows needs them contiguous.
  void ask_view(const Value& x) {
    if (!x.is_view() || wanted_[x.base] <= 0) return;
    const Value& base = g_.values[x.base];
    if (!place_of(x, base, wanted_[x.base] - columns(base))) wanted_[x.base] = kRefused;
  }

  static std::optional<Place> place_of(const Value& view, const Value& base, std::int64_t room) {
    const std::int64_t n = columns(base), step = n + room, first = view.offset % n;
    Place to{view.strides, view.offset / n * step + first, 0};
    std::int64_t low = first, high = first, dense = 0;
    int along = 0;  // dimensions within rows
    for (int d = 0; d < view.shape.rank(); ++d) {
      const std::int64_t s = view.strides[d], reach = (view.shape[d] - 1) * s;
      if (view.shape[d] <= 1 || s == 0) continue;
      if (s % n == 0) {
        to.strides[d] = s / n * step;
        continue;
      }
      (s < 0 ? low : high) += reach;
      ++along;
      if (s == 1) dense = view.shape[d];
    }
    if (view.shape.numel() == 0) return to;
    if (low < 0 || high >= n) return std::nullopt;
    if (along == 1 && first + dense == n) to.room = room;
    return to;
  }

  ValueGraph& g_;
  const Fusion& f_;
  const std::vector<char>& live_;
  const Backend& backend_;
  std::vector<std::int64_t> wanted_;
};

}  // namespace

void make_room_behind_rows(ValueGraph& graph, const Fusion& fusion, const std::vector<char>& live,
                           const Backend& backend) {
  RowRoom(graph, fusion, live, backend).run();
}

}  // namespace ebb
