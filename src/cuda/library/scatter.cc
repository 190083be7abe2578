// SPDX-License-Identifier: MIT
// scatter and sums of elements or rows at the places of an index. No two threads add to one float: its sums have the
// order of the index. scatter_plan.h decides how.
#include "cuda/library/scatter_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cuda/kernels/args/index.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/index_parts.h"

namespace ebb::cuda {
namespace {

std::size_t bytes_of(const View& v) { return static_cast<std::size_t>(v.shape.numel()) * size_of(v.dtype); }

const char* const kSameType = "typedef T O;\ntypedef T R;\nEBB R rounded(O x) { return x; }\n";

// `update` has `to` (a reference to the element of the output) and `x` (the element of src); `types` are those, O and R
// (see the kernels).
struct ScatterTask {
  const LibraryCall& call;
  Gpu& gpu;
  RunMark& mark;
  View out, index, src;

  int axis() const { return axis_of(call); }
  ScatterPlan plan() const { return plan_scatter(call, gpu.model()); }
  ScatterArgs args() const {
    const Shape lines = index.shape.with(axis(), 1);
    const auto of_lines = [&](const View& v) {
      View l = v;
      l.shape = lines;
      return kernel_view(l);
    };
    return {.index = of_lines(index),
            .src = of_lines(src),
            .out = of_lines(out),
            .length = index.shape[axis()],
            .inner = inner_of(index.shape, axis()),
            .size = out.shape[axis()],
            .index_step = index.strides[axis()],
            .src_step = src.strides[axis()],
            .out_step = out.strides[axis()],
            .complaints = check_index(mark, call, index, out.shape[axis()])};
  }
  ScatterElementsArgs<void, void> element_args() const {
    View from = src;
    from.shape = index.shape;
    return {.index = kernel_view(index),
            .src = kernel_view(from),
            .out = kernel_view(beside(out, index.shape, axis())),
            .last = nullptr,
            .size = out.shape[axis()],
            .out_step = out.strides[axis()],
            .complaints = check_index(mark, call, index, out.shape[axis()])};
  }
  // Elements of the index in any order; P is the type of positions, or of what is added.
  KernelSource element_source(const char* positions) const {
    return {index_text(index) + bits_text(out.dtype) + fmt::format("typedef {} P;\n", positions) +
            texts::scatter_elements};
  }
  void lines(const ScatterPlan& plan, const std::string& types, const std::string& update) const {
    if (index.shape.numel() == 0) return;
    const ScatterArgs a = args();
    const KernelSource source{
        index_text(index) + types + fmt::format("EBB void update(O& to, T x) {{ {} }}\n", update) + texts::scatter,
        false, true};
    if (plan.kind == ScatterPlan::Kind::shared)
      return launch_blocks(gpu, source, "sum_in_shared", a.index.n, a, plan.shared_bytes,
                           static_cast<unsigned>(plan.threads));
    const bool by_warps = plan.kind == ScatterPlan::Kind::warps;
    launch_elements(gpu, source, by_warps ? "scatter_by_warps" : "scatter", by_warps ? 32 * a.index.n : a.index.n, a);
  }
};
ScatterTask task_of(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const bool onto = call.op == Op::scatter;  // something that is there
  return {call,
          gpu,
          mark,
          at_least_1d(call.outputs[0]),
          at_least_1d(call.inputs[1]),
          at_least_1d(call.inputs[onto ? 2 : 0])};
}

}  // namespace

void run_scatter(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const ScatterTask t = task_of(call, gpu, mark);
  copy_elements(gpu, t.out, at_least_1d(call.inputs[0]));
  const ScatterPlan plan = t.plan();
  if (plan.kind != ScatterPlan::Kind::last_element) return t.lines(plan, bits_text(t.out.dtype) + kSameType, "to = x;");
  const std::int64_t n = t.index.shape.numel();
  const bool narrow = n < (std::int64_t{1} << 32) - 1;
  BufferPtr keep;
  const View last = workspace(gpu, narrow ? DType::i32 : DType::i64, t.out.shape, keep, "scatter");
  gpu.clear(last.data, bytes_of(last));
  ScatterElementsArgs<void, void> args = t.element_args();
  args.last = last.data;
  const KernelSource source = t.element_source(narrow ? "u32" : "u64");
  launch_elements(gpu, source, "find_last", n, args);
  launch_elements(gpu, source, "put_last", n, args);
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

// Halves are added in f32 and rounded at the end.
void run_scatter_zero_add(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  using Kind = ScatterPlan::Kind;
  ScatterTask t = task_of(call, gpu, mark);
  const ScatterPlan plan = t.plan();
  const View out = t.out;
  const bool halves = is_half(out.dtype), integers = out.dtype == DType::i64 || out.dtype == DType::i32;
  if (plan.kind == Kind::sorted) return add_long_lines(call, gpu, mark, out, t.index, t.src);
  if (plan.kind == Kind::put || plan.kind == Kind::atomics) {
    gpu.clear(out.data, bytes_of(out));
    return launch_elements(gpu, t.element_source(integers ? "T" : "u32"),
                           plan.kind == Kind::put ? "put_elements" : "add_integers", t.index.shape.numel(),
                           t.element_args());
  }
  const std::string types =
      element_text(out.dtype) +
      (halves ? "typedef f32 O;\ntypedef T R;\nEBB R rounded(O x) { return store(x); }\n" : kSameType);
  const std::string update = halves                   ? "to += load(x);"
                             : is_floating(out.dtype) ? "to += x;"
                                                      : "to = store(sum(load(to), load(x)));";
  BufferPtr keep;
  const bool in_memory = plan.kind != Kind::shared;
  if (in_memory && halves) t.out = dense(out, DType::f32, keep, gpu, "scatter_add");
  if (in_memory || t.index.shape.numel() == 0) gpu.clear(t.out.data, bytes_of(t.out));
  t.lines(plan, types, update);
  if (t.out.data != out.data)
    launch_elements(gpu, {element_text(out.dtype) + texts::narrow}, "narrow", out.shape.numel(),
                    NarrowArgs<void>{.from = elements<f32>(t.out), .to = out.data, .n = out.shape.numel()});
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
