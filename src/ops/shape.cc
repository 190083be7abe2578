// SPDX-License-Identifier: MIT
#include "ebb/ops/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/lock.h"
#include "ops/axes.h"
#include "ops/shape_nodes.h"

namespace ebb {

std::int64_t checked_sum(const char* op, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  require(!__builtin_add_overflow(a, b, &sum), "{}: a size of {} + {} is too large", op, a, b);
  return sum;
}

std::int64_t checked_product(const char* op, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  require(!__builtin_mul_overflow(a, b, &product), "{}: a size of {} times {} is too large", op, a, b);
  return product;
}

void require_memory_for(const char* op, std::int64_t numbers) {
  BufferPtr::allocate(static_cast<std::size_t>(Shape{numbers}.numel()) * 8, op);
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

Tensor narrow_node(const Tensor& x, int axis, std::int64_t start, std::int64_t length, std::int64_t step) {
  if (start == 0 && step == 1 && length == x.shape()[axis]) return x;
  Attrs attrs;
  attrs.i = {axis, length > 0 ? start : 0, step, 0};
  return make_node(Op::narrow, x.dtype(), x.shape().with(axis, length), {x}, attrs);
}

Tensor pad_zero(const Tensor& x, int axis, std::int64_t before, std::int64_t after) {
  if (before == 0 && after == 0) return x;
  Attrs attrs;
  attrs.i = {axis, before, after, 0};
  const std::int64_t size = checked_sum("pad", checked_sum("pad", x.shape()[axis], before), after);
  return make_node(Op::pad_zero, x.dtype(), x.shape().with(axis, size), {x}, attrs);
}

// ---- reshape --------------------------------------------------------------------------------------------------------

Tensor reshape(const Tensor& x, const Sizes& sizes) {
  std::vector<std::int64_t> resolved(sizes.begin(), sizes.end());
  const auto unknown = std::count(resolved.begin(), resolved.end(), -1);
  require(unknown <= 1, "reshape: at most one size may be -1, got [{}]", fmt::join(resolved, ", "));
  if (unknown == 1) {
    std::int64_t known = 1;
    for (std::int64_t size : resolved) known = checked_product("reshape", known, size == -1 ? 1 : size);
    require(known > 0 && x.numel() % known == 0, "reshape: a tensor of shape {} cannot have the sizes [{}]", x.shape(),
            fmt::join(resolved, ", "));
    std::replace(resolved.begin(), resolved.end(), std::int64_t{-1}, x.numel() / known);
  }
  const Shape shape(resolved);
  require(shape.numel() == x.numel(), "reshape: shape {} has {} elements, {} has {}", x.shape(), x.numel(), shape,
          shape.numel());
  if (shape == x.shape()) return x;
  return make_node(Op::reshape, x.dtype(), shape, {x});
}

Tensor flatten(const Tensor& x, std::int64_t first, std::int64_t last) {
  if (x.rank() == 0) return reshape(x, {1});
  const int from = normalize_axis("flatten", first, x.rank()), to = normalize_axis("flatten", last, x.rank());
  require(from <= to, "flatten: the first axis, {}, comes after the last, {}", first, last);
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().begin() + from);
  sizes.push_back(std::accumulate(x.shape().begin() + from, x.shape().begin() + to + 1, std::int64_t{1},
                                  [](std::int64_t a, std::int64_t b) { return a * b; }));
  sizes.insert(sizes.end(), x.shape().begin() + to + 1, x.shape().end());
  return reshape(x, sizes);
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  const std::uint32_t mask = axes_mask("squeeze", axes, x.rank());
  std::vector<std::int64_t> sizes;
  for (int a = 0; a < x.rank(); ++a) {
    if (!in_mask(mask, a) || x.shape()[a] != 1) sizes.push_back(x.shape()[a]);
  }
  return reshape(x, sizes);
}

Tensor unsqueeze(const Tensor& x, std::int64_t axis) {
  return reshape(x, x.shape().inserted(normalize_axis("unsqueeze", axis, x.rank() + 1), 1));
}

// ---- order of axes --------------------------------------------------------------------------------------------------

Tensor permute(const Tensor& x, const Axes& axes) {
  require(static_cast<int>(axes.size()) == x.rank(), "permute: {} axes were named for a tensor of shape {}",
          axes.size(), x.shape());
  std::vector<int> order;
  std::vector<std::int64_t> sizes;
  for (std::int64_t axis : axes) {
    const int a = normalize_axis("permute", axis, x.rank());
    require(std::find(order.begin(), order.end(), a) == order.end(), "permute: axis {} is named twice", axis);
    order.push_back(a);
    sizes.push_back(x.shape()[a]);
  }
  if (std::is_sorted(order.begin(), order.end())) return x;
  Attrs attrs;
  attrs.i[0] = pack_axes(order);
  return make_node(Op::permute, x.dtype(), sizes, {x}, attrs);
}

Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(normalize_axis("transpose", a, x.rank()))],
            axes[static_cast<std::size_t>(normalize_axis("transpose", b, x.rank()))]);
  return permute(x, axes);
}

Tensor t(const Tensor& x) {
  require(x.rank() <= 2, "t: needs a matrix, got shape {}; use transpose or permute", x.shape());
  return x.rank() < 2 ? x : transpose(x, 0, 1);
}

// ---- broadcasting ---------------------------------------------------------------------------------------------------

Tensor expand(const Tensor& x, const Sizes& sizes) {
  const int rank = static_cast<int>(sizes.size()), fresh = rank - x.rank();
  require(fresh >= 0, "expand: shape {} has more axes than [{}]", x.shape(), fmt::join(sizes, ", "));
  std::vector<std::int64_t> target(sizes.begin(), sizes.end());
  for (int a = 0; a < rank; ++a) {
    std::int64_t& size = target[static_cast<std::size_t>(a)];
    if (a < fresh) {
      require(size >= 0, "expand: a new axis needs a size, got {} in [{}]", size, fmt::join(sizes, ", "));
      continue;
    }
    const std::int64_t own = x.shape()[a - fresh];
    if (size == -1) size = own;
    require(own == 1 || own == size, "expand: shape {} cannot be repeated to [{}]: only axes of size 1 can", x.shape(),
            fmt::join(sizes, ", "));
  }
  const Shape shape(target);
  if (shape == x.shape()) return x;
  return make_node(Op::expand, x.dtype(), shape, {x});
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) { return expand(x, shape); }

// Pads `shape` with leading ones, sums where its size is 1 and x's is not, reshapes.
Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int fresh = x.rank() - shape.rank();
  require(fresh >= 0, "sum_to: shape {} was not broadcast from {}", x.shape(), shape);
  std::vector<std::int64_t> axes;
  for (int a = 0; a < x.rank(); ++a) {
    const std::int64_t size = a < fresh ? 1 : shape[a - fresh];
    require(size == 1 || size == x.shape()[a], "sum_to: shape {} was not broadcast from {}", x.shape(), shape);
    if (size == 1 && x.shape()[a] != 1) axes.push_back(a);
  }
  return reshape(axes.empty() ? x : sum(x, axes, true), shape);
}

// ---- parts ----------------------------------------------------------------------------------------------------------

Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t length) {
  const int a = normalize_axis("narrow", axis, x.rank());
  const std::int64_t size = x.shape()[a], from = start < 0 ? start + size : start;
  require(from >= 0 && length >= 0 && from <= size && length <= size - from, Error::Kind::index,
          "narrow: {} elements from position {} do not lie in axis {} of shape {}", length, start, a, x.shape());
  return narrow_node(x, a, from, length, 1);
}

SliceRange slice_range(std::int64_t size, std::int64_t start, std::int64_t stop, std::int64_t step) {
  require(step != 0, "slice: the step must not be 0");
  // The valid positions: 0..size going up, size−1..−1 going down.
  const std::int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
  auto place = [&](std::int64_t position) {
    if (position < 0) position = std::max(position, -size - 1) + size;
    return std::clamp(position, lowest, highest);
  };
  const std::int64_t from = place(start), to = stop == kEnd ? (step > 0 ? size : -1) : place(stop);
  const std::int64_t way = step > 0 ? to - from : from - to;
  // |step| without overflow: any step beyond the size takes one element.
  const std::int64_t stride = step > 0 ? std::min(step, size + 1) : -std::max(step, -size - 1);
  return {from, way > 0 ? (way + stride - 1) / stride : 0, step > 0 ? stride : -stride};
}

Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
  const int a = normalize_axis("slice", axis, x.rank());
  const SliceRange r = slice_range(x.shape()[a], start, stop, step);
  return narrow_node(x, a, r.start, r.length, r.step);
}

Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index) {
  const int a = normalize_axis("select", axis, x.rank());
  const std::int64_t size = x.shape()[a], at = index < 0 ? index + size : index;
  require(at >= 0 && at < size, Error::Kind::index, "select: index {} is outside axis {} of shape {}", index, a,
          x.shape());
  return reshape(narrow_node(x, a, at, 1, 1), x.shape().without(a));
}

std::int64_t Tensor::size(std::int64_t axis) const { return shape()[normalize_axis("size", axis, rank())]; }
Tensor Tensor::operator[](std::int64_t index) const {
  require(rank() > 0, Error::Kind::index, "operator[]: a tensor of rank 0 has no axis to index");
  return ebb::select(*this, 0, index);
}
Tensor Tensor::slice(std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step) const {
  return ebb::slice(*this, axis, start, stop, step);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t axis) {
  const int a = normalize_axis("split", axis, x.rank());
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (std::int64_t size : sizes) {
    require(size >= 0 && size <= x.shape()[a] - start, "split: parts of sizes [{}] do not make up axis {} of shape {}",
            fmt::join(sizes, ", "), a, x.shape());
    parts.push_back(narrow_node(x, a, start, size, 1));
    start += size;
  }
  require(start == x.shape()[a], "split: parts of sizes [{}] do not make up axis {} of shape {}",
          fmt::join(sizes, ", "), a, x.shape());
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis) {
  const std::int64_t total = x.shape()[normalize_axis("split", axis, x.rank())];
  require(size > 0 || total == 0, "split: parts must have a positive size, got {}", size);
  std::vector<std::int64_t> sizes;
  for (std::int64_t start = 0; start < total; start += size) sizes.push_back(std::min(size, total - start));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t axis) {
  require(chunks > 0, "chunk: the number of chunks must be positive, got {}", chunks);
  const std::int64_t total = x.shape()[normalize_axis("chunk", axis, x.rank())];
  require(total > 0 || chunks <= std::int64_t{1} << 31, "chunk: {} empty chunks are too many", chunks);
  if (total == 0) return split(x, std::vector<std::int64_t>(static_cast<std::size_t>(chunks), 0), axis);
  return split(x, (total - 1) / chunks + 1, axis);
}

// ---- triangles and diagonals ----------------------------------------------------------------------------------------

namespace {

// For the last two axes: the columns [1, columns], and where a diagonal crosses the rows, [rows, 1]. In f32 where it
// can count them, since loops of machine code compare floats; else in i32: i64 takes twice as long, and its masks have
// to be narrowed to the width of the elements.
std::pair<Tensor, Tensor> columns_and_diagonal(const char* op, const Tensor& x, std::int64_t diagonal) {
  require(x.rank() >= 2, "{}: needs at least two axes, got shape {}", op, x.shape());
  const std::int64_t rows = x.shape()[x.rank() - 2], columns = x.shape()[x.rank() - 1];
  diagonal = std::clamp(diagonal, -rows, columns);    // beyond these it crosses none
  const std::int64_t most = std::max(rows, columns);  // a diagonal crosses from −most to 2·most
  const DType dtype = most < std::int64_t{1} << 23   ? DType::f32
                      : most < std::int64_t{1} << 29 ? DType::i32
                                                     : DType::i64;
  return {reshape(arange(0, columns, 1, dtype), {1, columns}),
          reshape(arange(diagonal, rows + diagonal, 1, dtype), {rows, 1})};
}

}  // namespace

// Where most columns or rows of a triangle are behind its diagonal, they are zeros that are only written.
Tensor tril(const Tensor& x, std::int64_t diagonal) {
  const auto [columns, passed] = columns_and_diagonal("tril", x, diagonal);
  const int last = x.rank() - 1;
  const std::int64_t rows = x.size(last - 1), all = x.size(last);
  const std::int64_t reach = std::clamp<std::int64_t>(rows + std::clamp(diagonal, -rows, all), 0, all);
  if (reach < all - reach) return pad_zero(tril(narrow(x, last, 0, reach), diagonal), last, 0, all - reach);
  return where(columns <= passed, x, 0);
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  const auto [columns, passed] = columns_and_diagonal("triu", x, diagonal);
  const int down = x.rank() - 2;
  const std::int64_t all = x.size(down), width = x.size(down + 1);
  const std::int64_t reach = std::clamp<std::int64_t>(width - std::clamp(diagonal, -all, width), 0, all);
  if (reach < all - reach) return pad_zero(triu(narrow(x, down, 0, reach), diagonal), down, 0, all - reach);
  return where(columns >= passed, x, 0);
}

// The k-th diagonal of [..., rows, columns], flattened to [..., rows·columns], is every (columns+1)-th element.
Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t a, std::int64_t b) {
  require(x.rank() >= 2, "diagonal: needs at least two axes, got shape {}", x.shape());
  const int row = normalize_axis("diagonal", a, x.rank()), column = normalize_axis("diagonal", b, x.rank());
  require(row != column, "diagonal: axis {} is named twice", a);
  std::vector<std::int64_t> order;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis != row && axis != column) order.push_back(axis);
  }
  order.insert(order.end(), {row, column});
  const std::int64_t rows = x.shape()[row], columns = x.shape()[column];
  offset = std::clamp(offset, -rows, columns);  // beyond these nothing is left
  const std::int64_t first = offset >= 0 ? offset : -offset * columns;
  const std::int64_t length =
      std::max<std::int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  const Tensor flat = flatten(permute(x, order), -2, -1);
  return narrow_node(flat, flat.rank() - 1, first, length, columns + 1);
}

// A vector as the diagonal of a square: n rows of [x_i, 0 (n times)] run on are the matrix, n elements too long.
Tensor diag(const Tensor& x, std::int64_t offset) {
  require(x.rank() == 1 || x.rank() == 2, "diag: needs a vector or a matrix, got shape {}", x.shape());
  if (x.rank() == 2) return diagonal(x, offset);
  const std::int64_t n = x.shape()[0];
  const Tensor rows = pad_zero(reshape(x, {n, 1}), 1, 0, n);
  const Tensor square = reshape(narrow(reshape(rows, {n * (n + 1)}), 0, 0, n * n), {n, n});
  offset = std::max(offset, -std::numeric_limits<std::int64_t>::max());  // so that it can be negated
  const std::int64_t right = std::max<std::int64_t>(offset, 0), down = std::max<std::int64_t>(-offset, 0);
  return pad_zero(pad_zero(square, 1, right, down), 0, down, right);
}

// ---- layout ---------------------------------------------------------------------------------------------------------

namespace {

// Whether only axes of one element change places: then no element does.
bool moves_nothing(const Node& permute) {
  const auto order = unpack_axes(permute.attrs.i[0]);
  int last = -1;
  for (int d = 0; d < permute.shape.rank(); ++d) {
    if (permute.shape[d] == 1) continue;
    const int axis = order[static_cast<std::size_t>(d)];
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

}  // namespace

Tensor contiguous(const Tensor& x) {
  require(x.defined(), "contiguous: the input has no value (a default-constructed Tensor)");
  // The result of an operation is stored row-major; a view of it may not be, unless it is only a reshape.
  const auto lies_somewhere = [](const Tensor& t) { return t.evaluated() || is_placeholder(*t.node()); };
  const auto is_reshape = [](const Node& n) {
    return n.op == Op::reshape || (n.op == Op::permute && moves_nothing(n)) || info(n.op).cls == OpClass::alias;
  };
  Tensor from = x;
  while (!lies_somewhere(from) && is_reshape(*from.node())) {
    const Tensor input = input_of(from, 0);
    if (input.defined()) from = input;  // else another thread has just evaluated it
  }
  const Node& node = *from.node();
  const bool row_major =
      lies_somewhere(from) ? is_contiguous(node.shape, node.storage.strides) : info(node.op).cls != OpClass::view;
  return row_major ? x : make_node(Op::copy, x.dtype(), x.shape(), {x});
}

}  // namespace ebb
