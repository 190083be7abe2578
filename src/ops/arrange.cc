// SPDX-License-Identifier: MIT
#include "ebb/ops/arrange.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "calls/order.h"
#include "core/format_error.h"
#include "core/parallel.h"
#include "ebb/ops.h"
#include "ebb/ops/numbers.h"
#include "graph/formula.h"
#include "ops/build.h"
#include "ops/index_nodes.h"
#include "ops/shape_nodes.h"

namespace ebb {

// ---- joining and repeating ------------------------------------------------------------------------------------------

Tensor hstack(const std::vector<Tensor>& tensors) {
  require(!tensors.empty(), "hstack: no tensors were given");
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) parts.push_back(x.rank() == 0 ? reshape(x, {1}) : x);
  return cat(parts, parts[0].rank() == 1 ? 0 : 1);
}

Tensor vstack(const std::vector<Tensor>& tensors) {
  require(!tensors.empty(), "vstack: no tensors were given");
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) parts.push_back(x.rank() < 2 ? reshape(x, {1, -1}) : x);
  return cat(parts, 0);
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> axis) {
  if (!axis) return repeat_interleave(reshape(x, {x.numel()}), repeats, 0);
  require(repeats >= 0, "repeat_interleave: the number of repeats must not be negative, got {}", repeats);
  const int a = normalize_axis("repeat_interleave", *axis, x.rank());
  const std::int64_t size = x.shape()[a];
  const std::int64_t all = checked_product("repeat_interleave", size, repeats);
  const Shape apart = x.shape().inserted(a + 1, 1);
  return reshape(expand(reshape(x, apart), apart.with(a + 1, repeats)), x.shape().with(a, all));
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> axis) {
  if (!axis) return repeat_interleave(reshape(x, {x.numel()}), repeats, 0);
  const int a = normalize_axis("repeat_interleave", *axis, x.rank());
  const std::int64_t size = x.shape()[a];
  require(is_integer(repeats.dtype()) && repeats.rank() <= 1, Error::Kind::type,
          "repeat_interleave: repeats are a number or a vector of integers, got {} of shape {}", name(repeats.dtype()),
          repeats.shape());
  require(repeats.numel() == size || repeats.numel() == 1,
          "repeat_interleave: {} repeats were given for axis {} of shape {}", repeats.numel(), a, x.shape());
  const std::vector<std::int64_t> times = repeats.to_vector<std::int64_t>();
  const auto times_of = [&](std::int64_t i) { return times[times.size() == 1 ? 0 : static_cast<std::size_t>(i)]; };
  std::int64_t all = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    require(times_of(i) >= 0, "repeat_interleave: repeats[{}] = {} is negative", i, times_of(i));
    all = checked_sum("repeat_interleave", all, times_of(i));
  }
  const Shape lines{all};
  require_memory_for("repeat_interleave", all);
  std::vector<std::int64_t> from;
  for (std::int64_t i = 0; i < size; ++i) from.insert(from.end(), static_cast<std::size_t>(times_of(i)), i);
  return index_select(x, a, numbers_of_formula(from, lines));
}

// The order of random numbers. Two draws make ties, which would keep their order, too rare to matter.
Tensor randperm(std::int64_t n) {
  require(n >= 0, "randperm: the count must not be negative, got {}", n);
  return argsort(rand({n}, DType::f64) + rand({n}, DType::f64) * 0x1p-32, 0);
}

// ---- searching ------------------------------------------------------------------------------------------------------

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  require(sorted.rank() > 0, "searchsorted: needs sorted rows, got a tensor of rank 0");
  const bool shared = sorted.rank() == 1;
  if (shared && values.rank() != 1) return reshape(searchsorted(sorted, reshape(values, {-1}), right), values.shape());
  const int last = sorted.rank() - 1;
  require(values.rank() == sorted.rank() && values.shape().with(last, 0) == sorted.shape().with(last, 0),
          "searchsorted: rows of shape {} and values of shape {} do not fit", sorted.shape(), values.shape());
  DType dtype = promote(sorted.dtype(), values.dtype());
  if (dtype == DType::bool_) dtype = DType::u8;
  return make_node(Op::searchsorted, DType::i64, values.shape(), {cast(sorted, dtype), cast(values, dtype)},
                   along_axis(last, SearchsortedCall{right}));
}

// ---- along an axis, by doubling: after the step of width d every element has seen the 2d up to itself
// ----------------

namespace {

// x shifted by d places along the axis, with a number filling the front.
Tensor delayed(const Tensor& x, int axis, std::int64_t d, Scalar front) {
  const std::int64_t n = x.shape()[axis];
  return cat({full(x.shape().with(axis, d), front, x.dtype()), narrow(x, axis, 0, n - d)}, axis);
}

std::pair<Tensor, Tensor> extremum_so_far(const char* op, Op place, const Tensor& x, std::int64_t axis) {
  if (x.rank() == 0) {
    normalize_axis(op, axis, 1);
    return {x, zeros({}, DType::i64)};
  }
  const int a = normalize_axis(op, axis, x.rank());
  Attrs attrs;
  attrs.i[0] = a;
  const Tensor numbers = x.dtype() == DType::bool_ ? cast(x, DType::u8) : x;
  const Tensor at = make_node(place, DType::i64, x.shape(), {numbers}, attrs, op);
  return {gather_node(x, a, at, IndexLines::runs), at};
}

// x has axes of one and of n elements at `at`: the first grows to n elements, each the sum of the second's up to it.
Tensor log_sums_up_to_each(const Tensor& x, int at, std::int64_t n) {
  const Tensor place = arange(n);
  const Tensor so_far = reshape(place, {n, 1, 1}) >= reshape(place, {1, n, 1});
  return logsumexp(where(so_far, x, -std::numeric_limits<double>::infinity()), {at + 1});
}

// logcumsumexp along the middle axis of three. Very short lines are read once for every element. Short ones double the
// distance of what is added: log2(n) passes. Long ones are cut into blocks, whose prefixes are computed at once, and
// the blocks' last elements are the same problem: 512 lines of 32,000 take 0.34 ms on an H200, by doubling 1.33, with
// blocks of 16 0.45. A CPU is as fast either way between 300 and 900 elements. On a GPU every pass goes through memory,
// and blocks of eight are worth three passes: in lines of 129 elements eight passes and their gradients took 2.5 ms for
// 17 million numbers. (The limit for GPUs is chosen, not measured.)
std::int64_t longest_doubled(Device device) { return device.kind == Device::Kind::cuda ? 64 : 512; }
Tensor log_sums_so_far(const Tensor& x, std::int64_t most_doubled) {
  constexpr std::int64_t kBlock = 8;
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  const std::int64_t outer = x.shape()[0], n = x.shape()[1], inner = x.shape()[2], blocks = (n + kBlock - 1) / kBlock;
  if (n <= 1) return x;
  if (n <= kBlock) return log_sums_up_to_each(reshape(x, {outer, 1, n, inner}), 1, n);
  if (n <= most_doubled) {
    Tensor y = x;
    for (std::int64_t d = 1; d < n; d *= 2) y = logaddexp(y, delayed(y, 1, d, kNothing));
    return y;
  }
  const std::int64_t rest = blocks * kBlock - n;
  const Tensor whole = rest ? cat({x, full({outer, rest, inner}, kNothing, x.dtype())}, 1) : x;
  const Tensor inside = log_sums_up_to_each(reshape(whole, {outer, blocks, 1, kBlock, inner}), 2, kBlock);
  const Tensor lasts = reshape(narrow(inside, 2, kBlock - 1, 1), {outer, blocks, inner});
  const Tensor before = unsqueeze(delayed(log_sums_so_far(lasts, most_doubled), 1, 1, kNothing), 2);
  return narrow(reshape(logaddexp(inside, before), {outer, blocks * kBlock, inner}), 1, 0, n);
}

}  // namespace

std::pair<Tensor, Tensor> cummax(const Tensor& x, std::int64_t axis) {
  return extremum_so_far("cummax", Op::cummax_place, x, axis);
}
std::pair<Tensor, Tensor> cummin(const Tensor& x, std::int64_t axis) {
  return extremum_so_far("cummin", Op::cummin_place, x, axis);
}

Tensor logcumsumexp(const Tensor& x, std::int64_t axis) {
  const Tensor real = as_real(x);
  if (x.rank() == 0) return normalize_axis("logcumsumexp", axis, 1), real;
  const int a = normalize_axis("logcumsumexp", axis, x.rank());
  return deferred({&real}, {a, longest_doubled(real.device())}, [](Formula::Operands in, Formula::Options o) {
    const Tensor& numbers = in[0];
    const Shape& shape = numbers.shape();
    const auto along = static_cast<int>(o[0]);
    std::int64_t outer = 1, inner = 1;
    for (int k = 0; k < shape.rank(); ++k) (k < along ? outer : inner) *= k == along ? 1 : shape[k];
    const Tensor lines = reshape(widen(numbers), {outer, shape[along], inner});
    return cast(reshape(log_sums_so_far(lines, o[1]), shape), numbers.dtype());
  });
}

// ---- writing to places ----------------------------------------------------------------------------------------------

Tensor index_fill(const Tensor& x, std::int64_t axis, const Tensor& index, TensorOrScalar value) {
  const int a = normalize_axis("index_fill", axis, x.rank());
  require(index.rank() <= 1, "index_fill: the index is a vector, got shape {}", index.shape());
  // Written to a copy, so that only the filled slices cost more than that.
  const DType dtype = common_dtype("index_fill", {x, value});
  const Tensor filling = operand("index_fill", value, dtype, value.is_tensor() ? value.tensor().shape() : Shape{});
  require(filling.rank() == 0, "index_fill: the value must be one number, got a tensor of shape {}", filling.shape());
  const std::int64_t n = x.shape()[a], count = index.numel();
  const Tensor at = check_index(reshape(index_operand("index_fill", index), {count}), -n, n, "index_fill: index");
  Shape along;
  for (int k = 0; k < x.rank(); ++k) along = along.inserted(k, k == a ? count : 1);
  const Shape filled = x.shape().with(a, count);
  const Tensor everywhere = expand(reshape(where(at < 0, at + n, at), along), filled);
  return scatter(cast(x, dtype), a, everywhere, expand(filling, filled));
}

Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, bool accumulate) {
  require(!indices.empty() && static_cast<int>(indices.size()) <= x.rank(),
          "index_put: {} indices were given for a tensor of shape {}", indices.size(), x.shape());
  Shape places;
  for (const Tensor& index : indices) {
    require(is_integer(index.dtype()), Error::Kind::type, "index_put: indices are integers, got {}",
            name(index.dtype()));
    places = broadcast_shapes("index_put", places, index.shape());
  }
  Tensor flat;
  std::int64_t rows = 1;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const std::int64_t size = x.shape()[static_cast<int>(k)];
    Tensor at = cast(indices[k], DType::i64);
    at = check_index(at, -size, size, "index_put: index");
    at = expand(where(at < 0, at + size, at), places);
    flat = flat.defined() ? flat * size + at : at;
    rows *= size;
  }
  const int taken = static_cast<int>(indices.size());
  const Shape rest(x.shape().begin() + taken, x.rank() - taken);
  Shape written = places;
  for (std::int64_t size : rest) written = written.inserted(written.rank(), size);
  const Tensor table = reshape(x, {rows, rest.numel()}), at = reshape(flat, {places.numel()});
  const Tensor src = reshape(expand(cast(values, x.dtype()), written), {places.numel(), rest.numel()});
  if (accumulate) return reshape(index_add(table, 0, at, src), x.shape());
  const Tensor everywhere = expand(reshape(at, {places.numel(), 1}), {places.numel(), rest.numel()});
  return reshape(scatter(table, 0, everywhere, src), x.shape());
}

// ---- computed at once -----------------------------------------------------------------------------------------------

// NaNs differ from one another, as in NumPy's array API and PyTorch.
std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& x) {
  const std::int64_t n = x.numel();
  NoHistory scope;
  const Tensor flat = reshape(x.dtype() == DType::bool_ ? cast(x, DType::u8) : x, {n});
  if (n == 0) return {cast(flat, x.dtype()), zeros(x.shape(), DType::i64), zeros({0}, DType::i64)};
  const auto [values, order] = sort(flat, 0);
  const Tensor differs = n == 1 ? Tensor() : narrow(values, 0, 1, n - 1) != narrow(values, 0, 0, n - 1);
  const Tensor first = n == 1 ? ones({1}, DType::bool_) : cat({ones({1}, DType::bool_), differs}, 0);
  const Tensor starts = reshape(nonzero(first), {-1});
  const Tensor group = cumsum(cast(first, DType::i64), 0) - 1;
  const Tensor inverse = scatter(zeros({n}, DType::i64), 0, order, group);
  const Tensor ends = cat({narrow(starts, 0, 1, starts.numel() - 1), full({1}, n)}, 0);
  return {cast(index_select(values, 0, starts), x.dtype()), reshape(inverse, x.shape()), ends - starts};
}

}  // namespace ebb
