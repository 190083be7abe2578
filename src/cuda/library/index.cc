// SPDX-License-Identifier: MIT
// gather, scatter and what is like them. No two threads add to one float: its sums have the order of the index.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "cuda/kernels/args/index.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

int axis_of(const LibraryCall& call) { return static_cast<int>(call.attrs.i[0]); }

std::string index_text(const View& index) {
  return fmt::format("typedef {} I;\n", index.dtype == DType::i32 ? "i32" : "i64");
}

std::size_t bytes_of(const View& v) { return static_cast<std::size_t>(v.shape.numel()) * size_of(v.dtype); }

// The elements of v that the index's coordinates other than `axis` name, in the shape of the index.
View beside(const View& v, const Shape& index, int axis) {
  View out = v;
  out.shape = index;
  out.strides[axis] = 0;
  return out;
}

const char* const kSameType = "typedef T O;\ntypedef T R;\nEBB R rounded(O x) { return x; }\n";

std::int64_t inner_of(const Shape& shape, int axis) {
  std::int64_t n = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) n *= shape[d];
  return n;
}

// `update` has `to` (a reference to the element of the output) and `x` (the element of src); `types` are those, O and R
// (see the kernels). Neighbours of a line are a warp's, neighbouring lines those of neighbouring threads where there
// are many.
ScatterArgs scatter_args(const LibraryCall& call, RunMark& mark, const View& out, const View& index, const View& src) {
  const int axis = axis_of(call);
  const Shape lines = index.shape.with(axis, 1);
  const auto of_lines = [&](const View& v) {
    View l = v;
    l.shape = lines;
    return kernel_view(l);
  };
  return ScatterArgs{.index = of_lines(index),
                     .src = of_lines(src),
                     .out = of_lines(out),
                     .length = index.shape[axis],
                     .inner = inner_of(index.shape, axis),
                     .size = out.shape[axis],
                     .index_step = index.strides[axis],
                     .src_step = src.strides[axis],
                     .out_step = out.strides[axis],
                     .complaints = check_index(mark, call, index, out.shape[axis])};
}
KernelSource scatter_source(const View& index, const std::string& types, const std::string& update) {
  return {index_text(index) + types + fmt::format("EBB void update(O& to, T x) {{ {} }}\n", update) + texts::scatter,
          false, true};
}
void scatter_lines(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& out, const View& index,
                   const View& src, const std::string& types, const std::string& update) {
  const ScatterArgs args = scatter_args(call, mark, out, index, src);
  if (index.shape.numel() == 0) return;
  const KernelSource source = scatter_source(index, types, update);
  const std::int64_t lines = args.index.n;
  const bool by_warps = (args.inner == 1 || lines < gpu.model().many_lines) && args.size < (std::int64_t{1} << 32) - 1;
  launch_elements(gpu, source, by_warps ? "scatter_by_warps" : "scatter", by_warps ? 32 * lines : lines, args);
}

// Sums of lines that fit in shared memory, some per block. False where they do not.
bool sum_lines_in_shared(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& out, const View& index,
                         const View& src, DType sum, const std::string& types, const std::string& update) {
  const int axis = axis_of(call);
  const std::int64_t bytes = out.shape[axis] * static_cast<std::int64_t>(size_of(sum)),
                     lines = index.shape.numel() / std::max<std::int64_t>(1, index.shape[axis]);
  const bool by_warps = inner_of(index.shape, axis) == 1 || lines < gpu.model().many_lines;
  if (!by_warps || bytes == 0 || bytes > gpu.model().most_line_bytes || lines == 0 ||
      index.shape.with(axis, 1) != out.shape.with(axis, 1))
    return false;
  const std::int64_t warps = std::clamp<std::int64_t>(gpu.model().block_line_bytes / bytes, 1, kThreads / 32);
  launch_blocks(gpu, scatter_source(index, types, update), "sum_in_shared", (lines + warps - 1) / warps,
                scatter_args(call, mark, out, index, src), warps * bytes, static_cast<unsigned>(32 * warps));
  return true;
}

// Is a line better left to one thread? Results do not depend on it.
bool suits_threads(const Gpu& gpu, const View& index, int axis) {
  const std::int64_t length = index.shape[axis];
  return length <= gpu.model().short_line && index.shape.numel() >= gpu.model().many_lines * length;
}

ScatterElementsArgs<void, void> element_args(const LibraryCall& call, RunMark& mark, const View& out, const View& index,
                                             const View& src) {
  const int axis = axis_of(call);
  View from = src;
  from.shape = index.shape;
  return {.index = kernel_view(index),
          .src = kernel_view(from),
          .out = kernel_view(beside(out, index.shape, axis)),
          .last = nullptr,
          .size = out.shape[axis],
          .out_step = out.strides[axis],
          .complaints = check_index(mark, call, index, out.shape[axis])};
}

// Slices whose elements lie side by side are copied 16 bytes at a time: the last dimensions then count those. Returns
// how many bytes.
std::size_t widen_slices(View& x, View& out, int axis) {
  const int last = x.shape.rank() - 1;
  const auto each = static_cast<std::int64_t>(16 / size_of(x.dtype));
  if (axis == last || x.strides[last] != 1 || x.shape[last] % each != 0 ||
      (reinterpret_cast<std::uintptr_t>(x.data) | reinterpret_cast<std::uintptr_t>(out.data)) % 16 != 0)
    return size_of(x.dtype);
  for (int d = 0; d < last; ++d) {
    if (x.strides[d] % each != 0) return size_of(x.dtype);
  }
  for (View* v : {&x, &out}) {
    v->shape = v->shape.with(last, v->shape[last] / each);
    for (int d = 0; d < last; ++d) v->strides[d] /= each;
  }
  return 16;
}

// Rows of so many units (or packs) by groups of lanes; a lane takes up to `packs` of a tile, one group of lanes apart.
struct RowLanes {
  std::int64_t lanes, packs, tiles;
};
RowLanes lanes_for(std::int64_t units, std::int64_t most) {
  const auto lanes =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(units, 1, 32))));
  const std::int64_t per_lane = std::max<std::int64_t>(1, (units + lanes - 1) / lanes),
                     tiles = (per_lane + most - 1) / most;
  return {lanes, (per_lane + tiles - 1) / tiles, tiles};
}
std::int64_t lane_bits(const RowLanes& rows) { return std::countr_zero(static_cast<std::uint64_t>(rows.lanes)); }

// Slices that lie densely are copied by groups of lanes, which look at the index once. False where they do not.
bool gather_rows(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& x, const View& index, const View& out) {
  const int axis = axis_of(call), rank = x.shape.rank();
  std::int64_t inner = 1;
  for (int d = rank - 1; d > axis; inner *= x.shape[d--]) {
    if (x.shape[d] != 1 && x.strides[d] != inner) return false;
  }
  View slices = x;  // those before the axis
  std::vector<std::int64_t> sizes(x.shape.begin(), x.shape.begin() + axis);
  slices.shape = Shape(sizes);
  std::int64_t x_step = x.strides[axis];
  std::size_t unit = size_of(x.dtype);
  const auto can_double = [&] {
    if (unit == 16 || inner % 2 != 0 || x_step % 2 != 0) return false;
    for (int d = 0; d < axis; ++d) {
      if (sizes[static_cast<std::size_t>(d)] != 1 && slices.strides[d] % 2 != 0) return false;
    }
    return (reinterpret_cast<std::uintptr_t>(x.data) | reinterpret_cast<std::uintptr_t>(out.data)) % (2 * unit) == 0;
  };
  for (; can_double(); unit *= 2) {
    inner /= 2, x_step /= 2;
    for (int d = 0; d < axis; ++d) slices.strides[d] /= 2;
  }
  const RowLanes rows = lanes_for(inner, kGatherPacks);
  const std::int64_t length = index.shape.numel();
  const GatherRowsArgs<void, void> args{.x = kernel_view(slices),
                                        .index = index.data,
                                        .out = out.data,
                                        .index_step = index.strides[0],
                                        .x_step = x_step,
                                        .size = x.shape[axis],
                                        .length = length,
                                        .inner = inner,
                                        .lane_bits = lane_bits(rows),
                                        .tiles = rows.tiles,
                                        .complaints = check_index(mark, call, index, x.shape[axis])};
  if (out.shape.numel() > 0)
    launch_elements(gpu, {index_text(index) + word_text(unit) + texts::gather_rows}, "gather_rows",
                    slices.shape.numel() * length * rows.tiles * rows.lanes, args);
  return true;
}

}  // namespace

void run_gather(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  View x = at_least_1d(call.inputs[0]), out = at_least_1d(call.outputs[0]);
  const View given = at_least_1d(call.inputs[1]);
  const int axis = axis_of(call);
  const bool select = call.op == Op::index_select;  // one index for a whole slice
  if (select && gather_rows(call, gpu, mark, x, given, out)) return;
  const std::size_t unit = select ? widen_slices(x, out, axis) : size_of(x.dtype);
  View index = given;
  if (select) {
    index.shape = out.shape;
    index.strides = Strides{};
    index.strides[axis] = given.strides[0];
  }
  launch_elements(gpu, {index_text(index) + word_text(unit) + texts::gather}, "gather", out.shape.numel(),
                  GatherArgs<void>{.index = kernel_view(index),
                                   .x = kernel_view(beside(x, index.shape, axis)),
                                   .out = out.data,
                                   .x_step = x.strides[axis],
                                   .size = x.shape[axis],
                                   .inner = select ? inner_of(out.shape, axis) : 0,
                                   .length = out.shape[axis],
                                   .complaints = check_index(mark, call, given, x.shape[axis])});
}

void run_scatter(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const View base = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]);
  const View src = at_least_1d(call.inputs[2]), out = at_least_1d(call.outputs[0]);
  copy_elements(gpu, out, base);
  if (suits_threads(gpu, index, axis_of(call)))
    return scatter_lines(call, gpu, mark, out, index, src, bits_text(out.dtype) + kSameType, "to = x;");
  const bool narrow = index.shape.numel() < (std::int64_t{1} << 32) - 1;
  const KernelSource source{index_text(index) + bits_text(out.dtype) +
                            fmt::format("typedef {} P;\n", narrow ? "u32" : "u64") + texts::scatter_elements};
  BufferPtr keep;
  const View last = workspace(gpu, narrow ? DType::i32 : DType::i64, out.shape, keep, "scatter");
  gpu.clear(last.data, bytes_of(last));
  ScatterElementsArgs<void, void> args = element_args(call, mark, out, index, src);
  args.last = last.data;
  launch_elements(gpu, source, "find_last", index.shape.numel(), args);
  launch_elements(gpu, source, "put_last", index.shape.numel(), args);
}

namespace {

// Rows of g, [outer, tokens, inner], are added to those of out, [outer, size, inner], that the index names. f32 is
// added in f64, halves in f32.
struct RowSums {
  View index, g, out;  // g and out lie densely
  std::int64_t outer, size, inner;
  Complaints complaints;
};
void add_rows(Gpu& gpu, const RowSums& task) {
  const auto& [index, g, out, outer, size, inner, complaints] = task;
  const std::int64_t tokens = index.shape.numel();
  const auto each = static_cast<std::int64_t>(16 / size_of(out.dtype));
  const bool wide = inner % each == 0 &&
                    (reinterpret_cast<std::uintptr_t>(g.data) | reinterpret_cast<std::uintptr_t>(out.data)) % 16 == 0;
  const RowLanes rows = lanes_for(wide ? inner / each : inner, size_of(out.dtype) > 1 ? 4 : 2);
  const std::string types =
      index_text(index) + element_text(out.dtype) +
      fmt::format("typedef {} S;\nEBB S plus(S total, T x) {{ return {}; }}\n", out.dtype == DType::f32 ? "f64" : "A",
                  is_floating(out.dtype) ? "total + (S)load(x)" : "sum(total, load(x))") +
      fmt::format("constexpr int kPacks = {}, kEach = {};\nconstexpr bool kWide = {};\n", rows.packs, wide ? each : 1,
                  wide) +
      fmt::format("EBB void narrow(Pack<T, kEach>& to, int j, S x) {{ {}; }}\n",
                  wide && out.dtype == DType::bf16  ? "to.set_bf16(j, x)"
                  : wide && out.dtype == DType::f16 ? "to.set_f16(j, x)"
                                                    : "to.set(j, store((A)x))");
  const KernelSource source{types + texts::add_rows};
  BufferPtr kept_order, kept_ranges, kept_many;
  const View order = workspace(gpu, DType::i64, Shape{tokens}, kept_order, "index_add");
  const View ranges = workspace(gpu, DType::i64, Shape{2 * size + 1}, kept_ranges, "index_add");
  const View many = workspace(gpu, DType::i64, Shape{tokens / kManyTokens}, kept_many, "index_add");
  argsort(gpu, index, 0, false, order);
  gpu.clear(ranges.data, bytes_of(ranges));
  const auto blocks_for = [](std::int64_t threads) { return (threads + kThreads - 1) / kThreads; };
  const std::int64_t most_of_many = many.shape.numel() * outer * inner;
  const std::int64_t many_blocks = std::min<std::int64_t>(blocks_for(most_of_many), 4 * gpu.multiprocessors());
  const AddRowsArgs<void, void> args{.index = index.data,
                                     .g = g.data,
                                     .out = out.data,
                                     .order = elements<i64>(order),
                                     .ranges = elements<TokenRange>(ranges),
                                     .many = elements<i64>(many),
                                     .many_rows = reinterpret_cast<u32*>(element_at(ranges, 2 * size)),
                                     .tokens = tokens,
                                     .index_step = index.strides[0],
                                     .outer = outer,
                                     .size = size,
                                     .inner = inner,
                                     .lane_bits = lane_bits(rows),
                                     .tiles = rows.tiles,
                                     .many_blocks = many_blocks,
                                     .complaints = complaints};
  launch_elements(gpu, source, "find_rows", tokens, args);
  if (out.shape.numel() > 0)
    launch_blocks(gpu, source, "add_rows", many_blocks + blocks_for(outer * size * rows.tiles * rows.lanes), args);
}

// The same elements with an axis as the last one.
View with_axis_last(const View& v, int axis) {
  View out = v;
  std::vector<std::int64_t> sizes;
  for (int d = 0, at = 0; d < v.shape.rank(); ++d) {
    if (d == axis) continue;
    sizes.push_back(v.shape[d]);
    out.strides[at++] = v.strides[d];
  }
  sizes.push_back(v.shape[axis]);
  out.shape = Shape(sizes);
  out.strides[v.shape.rank() - 1] = v.strides[axis];
  return out;
}

// Lines of an output one behind the other are rows of one element: the elements are sorted by their places.
void add_long_lines(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& out, const View& index,
                    const View& src) {
  const int axis = axis_of(call), last = index.shape.rank() - 1;
  BufferPtr kept_rows, kept_src, kept_sums;
  const View rows = workspace(gpu, DType::i64, Shape{index.shape.numel()}, kept_rows, "scatter_add");
  launch_elements(gpu, {index_text(index) + texts::line_rows}, "line_rows", index.shape.numel(),
                  LineRowsArgs{.index = kernel_view(with_axis_last(index, axis)),
                               .rows = elements<i64>(rows),
                               .length = index.shape[axis],
                               .inner = inner_of(index.shape, axis),
                               .size = out.shape[axis],
                               .complaints = check_index(mark, call, index, out.shape[axis])});
  if (out.shape.numel() == 0) return;
  View given = src;
  given.shape = index.shape;
  const View to = with_axis_last(out, axis);
  const View sums = axis == last ? out : dense(to, out.dtype, kept_sums, gpu, "scatter_add");
  add_rows(gpu, {.index = rows,
                 .g = packed(gpu, with_axis_last(given, axis), kept_src, "scatter_add"),
                 .out = sums,
                 .outer = 1,
                 .size = out.shape.numel(),
                 .inner = 1,
                 .complaints = {}});
  if (axis != last) copy_elements(gpu, to, sums);
}

}  // namespace

// Halves are added in f32 and rounded at the end. How is decided by a line's length alone, so that its bits do not
// depend on how many there are.
void run_scatter_zero_add(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const View src = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]), out = at_least_1d(call.outputs[0]);
  const int axis = axis_of(call);
  const bool halves = is_half(out.dtype), different = call.attrs.i[1] != 0;
  const bool integers = out.dtype == DType::i64 || out.dtype == DType::i32;
  if (different || (integers && !suits_threads(gpu, index, axis))) {
    gpu.clear(out.data, bytes_of(out));
    const KernelSource source{index_text(index) + bits_text(out.dtype) +
                              (integers ? "typedef T P;\n" : "typedef u32 P;\n") + texts::scatter_elements};
    return launch_elements(gpu, source, different ? "put_elements" : "add_integers", index.shape.numel(),
                           element_args(call, mark, out, index, src));
  }
  const DType sum = halves ? DType::f32 : out.dtype;
  const bool fits = out.shape[axis] * static_cast<std::int64_t>(size_of(sum)) <= gpu.model().most_line_bytes;
  const bool same_lines = index.shape.with(axis, 0) == out.shape.with(axis, 0);
  if (is_floating(out.dtype) && same_lines &&
      index.shape[axis] >= (fits ? gpu.model().long_line_on_chip : gpu.model().long_line))
    return add_long_lines(call, gpu, mark, out, index, src);
  const std::string types =
      element_text(out.dtype) +
      (halves ? "typedef f32 O;\ntypedef T R;\nEBB R rounded(O x) { return store(x); }\n" : kSameType);
  const std::string update = halves                   ? "to += load(x);"
                             : is_floating(out.dtype) ? "to += x;"
                                                      : "to = store(sum(load(to), load(x)));";
  if (sum_lines_in_shared(call, gpu, mark, out, index, src, sum, types, update)) return;
  if (!halves) {
    gpu.clear(out.data, bytes_of(out));
    return scatter_lines(call, gpu, mark, out, index, src, types, update);
  }
  BufferPtr keep;
  const View sums = dense(out, DType::f32, keep, gpu, "scatter_add");
  gpu.clear(sums.data, bytes_of(sums));
  scatter_lines(call, gpu, mark, sums, index, src, types, update);
  launch_elements(gpu, {element_text(out.dtype) + texts::narrow}, "narrow", out.shape.numel(),
                  NarrowArgs<void>{.from = elements<f32>(sums), .to = out.data, .n = out.shape.numel()});
}

void run_index_zero_add(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const View &out = call.outputs[0], index = at_least_1d(call.inputs[1]);
  const int axis = axis_of(call);
  BufferPtr keep;
  const View g = packed(gpu, call.inputs[0], keep, "index_add");
  std::int64_t outer = 1;
  for (int d = 0; d < axis; ++d) outer *= out.shape[d];
  add_rows(gpu, {.index = index,
                 .g = g,
                 .out = out,
                 .outer = outer,
                 .size = out.shape[axis],
                 .inner = inner_of(out.shape, axis),
                 .complaints = check_index(mark, call, index, out.shape[axis])});
}

}  // namespace ebb::cuda
