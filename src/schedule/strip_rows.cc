// SPDX-License-Identifier: MIT
#include "schedule/strip_rows.h"

#include <algorithm>

namespace ebb {
namespace {

using Kind = RowsOfResult::Kind;

// Calls that work along one axis (attrs.i[0]), one line at a time.
bool works_on_lines(Op op) {
  switch (op) {
    case Op::gather:
    case Op::scatter_zero_add:
    case Op::argmax:
    case Op::argmin:
    case Op::argsort:
    case Op::searchsorted:
    case Op::cumsum:
    case Op::cumprod:
    case Op::linear_recurrence:
    case Op::sparsemax_threshold:
      return true;
    default:
      return false;
  }
}

// The dimensions of `to` that hold the rows of `from`, where a reshape keeps them together.
std::optional<RowDims> reshaped(const Shape& from, RowDims rows, const Shape& to) {
  std::int64_t before = 1;
  for (int d = 0; d < rows.first; ++d) before *= from[d];
  const std::int64_t n = count_rows(from, rows);
  RowDims out;
  std::int64_t seen = 1;
  while (out.first < to.rank() && (seen < before || to[out.first] == 1)) seen *= to[out.first++];
  if (seen != before) return std::nullopt;
  out.last = out.first;
  for (seen = 1; out.last < to.rank() && seen < n;) seen *= to[out.last++];
  if (seen != n) return std::nullopt;
  return trimmed(to, out);
}

std::optional<RowDims> permuted(const Value& v, RowDims rows) {
  const auto axes = unpack_axes(v.attrs.i[0]);
  int first = -1;
  for (int d = 0; d < v.shape.rank(); ++d) {
    if (axes[static_cast<std::size_t>(d)] == rows.first) first = d;
  }
  for (int k = 0; k < rows.last - rows.first; ++k) {
    if (first + k >= v.shape.rank() || axes[static_cast<std::size_t>(first + k)] != rows.first + k) return std::nullopt;
  }
  return RowDims{first, first + rows.last - rows.first};
}

// Are the rows the dimension along which v works?
bool runs_across(const Value& v, RowDims rows) {
  const auto axis = static_cast<int>(v.attrs.i[0]);
  return rows == RowDims{axis, axis + 1};
}

RowDims shifted(RowDims rows, int by) { return {rows.first + by, rows.last + by}; }

RowsOfResult as_rows(std::optional<RowDims> rows) { return rows ? RowsOfResult{Kind::rows, *rows} : RowsOfResult{}; }

RowsOfResult product_rows(const Value& v, std::size_t k, RowDims rows) {
  const int rank = v.shape.rank();
  const RowDims outer{rank - 2, rank - 1}, inner{rank - 1, rank};
  if (rows.last <= rank - 2) return {Kind::rows, rows};  // matrices of a batch
  const RowDims kept = k == 0 ? outer : inner, summed = k == 0 ? inner : outer;
  if (rows == kept) return {Kind::rows, kept};
  if (rows == summed && is_floating(v.dtype)) return {Kind::summed};
  return {};
}

}  // namespace

std::int64_t count_rows(const Shape& shape, RowDims rows) {
  std::int64_t n = 1;
  for (int d = rows.first; d < rows.last; ++d) n *= shape[d];
  return n;
}

RowDims trimmed(const Shape& shape, RowDims rows) {
  while (rows.first < rows.last && shape[rows.first] == 1) ++rows.first;
  while (rows.first < rows.last && shape[rows.last - 1] == 1) --rows.last;
  return rows;
}

RowsOfResult rows_of_result(const ValueGraph& g, std::int32_t v, std::size_t k, RowDims rows) {
  const Value& x = g.values[v];
  const Shape& from = g.values[x.inputs[k]].shape;
  if (x.strips >= 0 || x.is_unique || rows.none()) return {};
  switch (x.op) {
    case Op::reshape:
      return as_rows(reshaped(from, rows, x.shape));
    case Op::permute:
      return as_rows(permuted(x, rows));
    case Op::expand: {
      const RowDims out = shifted(rows, x.shape.rank() - from.rank());
      return count_rows(x.shape, out) == count_rows(from, rows) ? RowsOfResult{Kind::rows, out} : RowsOfResult{};
    }
    case Op::narrow:
      return rows.has(static_cast<int>(x.attrs.i[0])) ? RowsOfResult{} : RowsOfResult{Kind::rows, rows};
    case Op::matmul:
      return x.inputs.size() == 2 ? product_rows(x, k, rows) : RowsOfResult{};
    case Op::pick:  // across the rows: the strip that has the number returns it, others 0
      if (k == 0 && runs_across(x, rows) && is_floating(x.dtype)) return {Kind::summed};
      [[fallthrough]];
    case Op::place:
      return rows.has(static_cast<int>(x.attrs.i[0])) ? RowsOfResult{} : RowsOfResult{Kind::rows, rows};
    default:
      break;
  }
  if (works_on_lines(x.op))
    return rows.has(static_cast<int>(x.attrs.i[0])) ? RowsOfResult{} : RowsOfResult{Kind::rows, rows};
  if (info(x.op).cls == OpClass::elementwise) return {Kind::rows, rows};
  if (info(x.op).cls != OpClass::reduce) return {};
  int reduced = 0, sized = 0;
  for (int d = rows.first; d < rows.last; ++d) {
    sized += from[d] != 1;
    reduced += from[d] != 1 && (x.attrs.axes >> d & 1);
  }
  if (reduced == 0) return {Kind::rows, rows};
  return reduced == sized ? RowsOfResult{Kind::summed} : RowsOfResult{};
}

bool places_across(const Value& v, RowDims rows) { return v.op == Op::place && runs_across(v, rows); }

std::optional<std::vector<RowDims>> rows_of_inputs(const ValueGraph& g, std::int32_t v, RowDims rows) {
  const Value& x = g.values[v];
  if (x.strips >= 0 || x.is_unique || x.is_leaf || x.inputs.empty()) return std::nullopt;
  const Shape& from = g.values[x.inputs[0]].shape;
  std::optional<RowDims> in;
  switch (x.op) {
    case Op::reshape:
      in = reshaped(x.shape, rows, from);
      break;
    case Op::permute: {
      const auto axes = unpack_axes(x.attrs.i[0]);
      const int first = axes[static_cast<std::size_t>(rows.first)];
      in = RowDims{first, first + rows.last - rows.first};
      for (int d = rows.first; d < rows.last; ++d) {
        if (axes[static_cast<std::size_t>(d)] != first + d - rows.first) in = std::nullopt;
      }
      break;
    }
    case Op::expand:
      in = shifted(rows, from.rank() - x.shape.rank());
      if (in->first < 0 || count_rows(from, *in) != count_rows(x.shape, rows)) in = std::nullopt;
      break;
    case Op::matmul: {
      const int rank = x.shape.rank();
      if (x.inputs.size() != 2) return std::nullopt;
      if (rows.last <= rank - 2) return std::vector<RowDims>{rows, rows};
      if (rows == RowDims{rank - 2, rank - 1}) return std::vector<RowDims>{rows, {}};
      if (rows == RowDims{rank - 1, rank}) return std::vector<RowDims>{{}, rows};
      return std::nullopt;
    }
    case Op::narrow:
      in = rows;
      break;
    default: {
      const bool lines = works_on_lines(x.op) || x.op == Op::pick || x.op == Op::place;
      if (!lines && info(x.op).cls != OpClass::elementwise && info(x.op).cls != OpClass::reduce) return std::nullopt;
      in = rows;
    }
  }
  if (!in) return std::nullopt;
  if (places_across(x, rows)) return std::vector<RowDims>(x.inputs.size());
  // The inverse must lead to the same rows.
  const RowsOfResult there = rows_of_result(g, v, 0, *in);
  if (there.kind != Kind::rows || there.rows != rows) return std::nullopt;
  return std::vector<RowDims>(x.inputs.size(), *in);
}

std::optional<std::vector<RowDims>> rows_of_summed_inputs(const ValueGraph& g, std::int32_t v, std::size_t k,
                                                          RowDims rows) {
  const Value& x = g.values[v];
  if (rows_of_result(g, v, k, rows).kind != Kind::summed) return std::nullopt;
  if (x.op == Op::pick) return std::vector<RowDims>{rows, {}};
  if (x.op != Op::matmul) return std::vector<RowDims>{rows};
  const int rank = x.shape.rank();
  return std::vector<RowDims>{{rank - 1, rank}, {rank - 2, rank - 1}};
}

Shape strip_shape(const Shape& shape, RowDims rows, std::int64_t count) {
  if (rows.none()) return shape;
  std::vector<std::int64_t> sizes;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d == rows.first) sizes.push_back(count);
    if (!rows.has(d)) sizes.push_back(shape[d]);
  }
  return Shape(sizes);
}

Attrs strip_attrs(const Value& v, RowDims in, RowDims out) {
  Attrs a = v.attrs;
  if (v.op == Op::permute) {
    const auto axes = unpack_axes(v.attrs.i[0]);
    std::vector<int> strip;
    for (int d = 0; d < v.shape.rank(); ++d) {
      if (!out.has(d) || d == out.first) strip.push_back(strip_dim(in, axes[static_cast<std::size_t>(d)]));
    }
    a.i[0] = pack_axes(strip);
  } else if (info(v.op).cls == OpClass::reduce) {
    a.axes = 0;
    for (int d = 0; d < Shape::kMaxRank; ++d) {
      if (v.attrs.axes >> d & 1) a.axes |= 1u << strip_dim(in, d);
    }
  } else if (v.op == Op::narrow || v.op == Op::pick || v.op == Op::place || works_on_lines(v.op)) {
    a.i[0] = strip_dim(in, static_cast<int>(v.attrs.i[0]));
  }
  return a;
}

}  // namespace ebb
