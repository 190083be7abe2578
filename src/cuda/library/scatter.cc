// SPDX-License-Identifier: MIT
// scatter and sums of elements or slices at the places of an index. No two threads add to one float: the order of its
// sums is that of the index, or of the index's pieces, or they are exact. scatter_plan.h decides which.
#include "cuda/library/scatter_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "calls/index_lines.h"
#include "core/ceil_div.h"
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/index_parts.h"
#include "cuda/library/row_sums.h"

namespace ebb::cuda {
namespace {

const char* const kSameType = "typedef T O;\ntypedef T R;\nEBB R rounded(O x) { return x; }\n";

// T and A of elements, and S of their sums.
std::string sum_text(DType dtype, DType sums) {
  return element_text(dtype) + fmt::format("typedef {} S;\n", sums == DType::f64 ? "f64" : "f32");
}

// `update` has `to` (a reference to the element of the output) and `x` (the element of src); `types` are those, O and R
// (see the kernels).
struct ScatterTask {
  const LibraryCall& call;
  Gpu& gpu;
  RunMark& mark;
  View out, index, src;
  View given;  // the index itself: for slices it is viewed in the shape of their elements

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
            .piece = index.shape[axis()],
            .pieces = 1,
            .parts = nullptr,
            .complaints = check_index(mark, call, given, out.shape[axis()])};
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
            .inner = call.op == Op::index_zero_add ? inner_of(out.shape, axis()) : 0,
            .length = given.shape.numel(),
            .sums = out.shape.numel(),
            .copies = 1,
            .complaints = check_index(mark, call, given, out.shape[axis()])};
  }
  // Elements of the index in any order; P is the type of positions, or of what is added.
  KernelSource element_source(const char* positions) const {
    return {index_text(index) + bits_text(out.dtype) + fmt::format("typedef {} P;\n", positions) +
            texts::scatter_elements};
  }
  // `types`: T, O and R of the kernel.
  void lines(const ScatterPlan& plan, const std::string& types, const std::string& update) const {
    if (index.shape.numel() == 0) return;
    ScatterArgs a = args();
    const KernelSource source{
        index_text(index) + types + fmt::format("EBB void update(O& to, T x) {{ {} }}\n", update) + texts::scatter,
        false, true};
    if (plan.kind == ScatterPlan::Kind::shared) {
      const Pieces pieces(*this, plan);
      a.piece = plan.piece, a.pieces = plan.pieces, a.parts = pieces.parts();
      launch_blocks(gpu, source, "sum_in_shared", a.index.n * a.pieces, a, plan.shared_bytes,
                    static_cast<unsigned>(plan.threads));
      return pieces.add();
    }
    if (plan.kind == ScatterPlan::Kind::warp_sums)
      return launch_blocks(gpu, source, "sum_by_warps", (32 * a.index.n + plan.threads - 1) / plan.threads, a,
                           plan.shared_bytes, static_cast<unsigned>(plan.threads));
    const bool by_warps = plan.kind == ScatterPlan::Kind::warps;
    launch_elements(gpu, source, by_warps ? "scatter_by_warps" : "scatter", by_warps ? 32 * a.index.n : a.index.n, a);
  }
  void sums_from_firsts() const;
  // A base is what the places hold before; without one they have sums.
  void fill_places(const ScatterPlan& plan, const View* base) const;
  void own_sums(const ScatterPlan& plan) const;
  void exact_sums() const;

  // Room for the sums of pieces, if a line is divided, and the launch that adds them.
  struct Pieces {
    Pieces(const ScatterTask& t, const ScatterPlan& plan) : task(t), count(plan.pieces) {
      if (count > 1)
        sums = workspace(t.gpu, dtype_of_sums(t.call), Shape{count * t.out.shape.numel()}, keep, label_of(t.call));
    }
    void* parts() const { return sums.data; }
    void add() const {
      if (count == 1) return;
      const std::int64_t row = task.out.shape[task.axis()] * inner_of(task.out.shape, task.axis()),
                         n = task.out.shape.numel();
      launch_blocks(task.gpu, {sum_text(task.out.dtype, sums.dtype) + texts::add_pieces}, "add_pieces", (n + 31) / 32,
                    AddPiecesArgs<void, void>{
                        .parts = sums.data, .out = task.out.data, .outer = n / row, .row = row, .pieces = count});
    }
    const ScatterTask& task;
    std::int64_t count;
    BufferPtr keep;
    View sums{};
  };
};

// Lines of [outer, length, inner], with one step from neighbour to neighbour after the axis.
struct Neighbours {
  View outer;
  std::int64_t step, column;
};
std::optional<Neighbours> neighbours_of(const View& v, int axis) {
  Neighbours n{v, v.strides[axis], 0};
  std::vector<std::int64_t> sizes(v.shape.begin(), v.shape.begin() + axis);
  n.outer.shape = Shape(sizes);
  std::int64_t inner = 1;
  for (int d = v.shape.rank() - 1; d > axis; --d) {
    if (v.shape[d] == 1) continue;
    if (inner == 1) n.column = v.strides[d];
    if (v.strides[d] != n.column * inner) return {};
    inner *= v.shape[d];
  }
  return n;
}

// The index and src of a task as such lines, packed where they are not.
struct TaskLines {
  explicit TaskLines(const ScatterTask& t) {
    View of_src = t.src;
    of_src.shape = t.index.shape;
    const auto lines = [&](const View& v, BufferPtr& keep) {
      const auto as_given = neighbours_of(v, t.axis());
      return as_given ? *as_given : *neighbours_of(packed(t.gpu, v, keep, label_of(t.call)), t.axis());
    };
    index = lines(t.index, kept_index);
    src = lines(of_src, kept_src);
  }
  Neighbours index, src;

 private:
  BufferPtr kept_index, kept_src;
};

void ScatterTask::sums_from_firsts() const {
  const TaskLines lines(*this);
  gpu.clear(out.data, bytes_of(out));
  launch_elements(gpu, {index_text(index) + sum_text(out.dtype, dtype_of_sums(call)) + texts::sum_sought},
                  "sum_from_firsts", index.shape.numel(),
                  SoughtSumsArgs{.index = kernel_view(lines.index.outer),
                                 .src = kernel_view(lines.src.outer),
                                 .out = out.data,
                                 .length = index.shape[axis()],
                                 .inner = inner_of(index.shape, axis()),
                                 .size = out.shape[axis()],
                                 .index_step = lines.index.step,
                                 .src_step = lines.src.step,
                                 .index_column = lines.index.column,
                                 .src_column = lines.src.column,
                                 .slices = call.op == Op::index_zero_add,
                                 .complaints = check_index(mark, call, given, out.shape[axis()])});
}

void ScatterTask::fill_places(const ScatterPlan& plan, const View* base) const {
  const TaskLines lines(*this);
  BufferPtr keep;
  const std::string types =
      base ? bits_text(out.dtype) + "typedef T S;\nEBB S held(T x) { return x; }\nEBB T given(S x) { return x; }\n"
           : sum_text(out.dtype, dtype_of_sums(call)) +
                 "EBB S held(T x) { return (S)load(x); }\nEBB T given(S x) { return store((A)x); }\n";
  const std::string constants =
      fmt::format("constexpr bool kPuts = {};\nconstexpr int kLength = {};\n", base != nullptr, index.shape[axis()]);
  const void* const before = base ? packed(gpu, *base, keep, label_of(call)).data : nullptr;
  const bool aligned = (reinterpret_cast<std::uintptr_t>(before) | reinterpret_cast<std::uintptr_t>(out.data)) % 16 == 0;
  const std::int64_t threads = plan.threads, count = index.shape.numel() / index.shape[axis()];
  launch_blocks(gpu, {index_text(index) + types + constants + texts::fill_places, false, true}, "fill_places",
                ceil_div(count, threads),
                FillPlacesArgs{.index = kernel_view(lines.index.outer),
                               .src = kernel_view(lines.src.outer),
                               .out = out.data,
                               .base = before,
                               .inner = inner_of(index.shape, axis()),
                               .size = out.shape[axis()],
                               .index_step = lines.index.step,
                               .src_step = lines.src.step,
                               .index_column = lines.index.column,
                               .src_column = lines.src.column,
                               .slices = call.op == Op::index_zero_add,
                               .aligned = aligned,
                               .complaints = check_index(mark, call, given, out.shape[axis()])},
                plan.shared_bytes, static_cast<unsigned>(threads));
}

void ScatterTask::own_sums(const ScatterPlan& plan) const {
  const TaskLines lines(*this);
  const Neighbours &places = lines.index, &values = lines.src;
  const std::int64_t inner = inner_of(index.shape, axis()), tiles = (inner + plan.columns - 1) / plan.columns;
  const Pieces pieces(*this, plan);
  const DType sums = dtype_of_sums(call);
  launch_blocks(gpu, {index_text(index) + sum_text(out.dtype, sums) + texts::sum_places, false, true}, "sum_places",
                values.outer.shape.numel() * plan.pieces * tiles,
                PlaceSumsArgs{.index = kernel_view(places.outer),
                              .src = kernel_view(values.outer),
                              .out = out.data,
                              .parts = pieces.parts(),
                              .length = index.shape[axis()],
                              .inner = inner,
                              .size = out.shape[axis()],
                              .index_step = places.step,
                              .src_step = values.step,
                              .index_column = places.column,
                              .src_column = values.column,
                              .columns = plan.columns,
                              .tiles = tiles,
                              .piece = plan.piece,
                              .pieces = plan.pieces,
                              .slices = call.op == Op::index_zero_add,
                              .complaints = check_index(mark, call, given, out.shape[axis()])},
                plan.shared_bytes, static_cast<unsigned>(plan.threads));
  pieces.add();
}

// Slices before the axis a few at a time, so that digits take a bounded amount of memory.
void ScatterTask::exact_sums() const {
  const ScatterElementsArgs<void, void> e = element_args();
  const std::int64_t length = index.shape[axis()], inner = inner_of(index.shape, axis()), slice = length * inner,
                     places = out.shape[axis()] * inner, outer = index.shape.numel() / slice;
  constexpr auto kBytes = static_cast<std::int64_t>(kMostDigits * sizeof(u64));
  const std::int64_t slices = std::clamp<std::int64_t>(gpu.model().exact_bytes / (places * kBytes), 1, outer);
  BufferPtr kept_range, kept_digits, kept_specials;
  const View range = workspace(gpu, DType::i32, Shape{2}, kept_range, label_of(call)),
             digits = workspace(gpu, DType::i64, Shape{slices * places * kMostDigits}, kept_digits, label_of(call)),
             specials = workspace(gpu, DType::i32, Shape{slices * places}, kept_specials, label_of(call));
  ExactSumsArgs<void> args{.index = e.index,
                           .src = e.src,
                           .out = e.out,
                           .size = e.size,
                           .out_step = e.out_step,
                           .inner = e.inner,
                           .length = e.length,
                           .first = 0,
                           .count = 0,
                           .first_place = 0,
                           .places = 0,
                           .digit_bits = 62 - static_cast<i64>(std::bit_width(static_cast<std::uint64_t>(length))),
                           .range = elements<u32>(range),
                           .digits = elements<u64>(digits),
                           .specials = elements<u32>(specials),
                           .sums = out.data,
                           .complaints = e.complaints};
  const KernelSource source{index_text(index) + element_text(out.dtype) + texts::exact_sums};
  const auto blocks = [&](std::int64_t n, std::int64_t each) {
    return std::min<std::int64_t>((n + each * kThreads - 1) / (each * kThreads), 16 * gpu.multiprocessors());
  };
  gpu.clear(range.data, bytes_of(range));
  launch_blocks(gpu, source, "find_range", blocks(index.shape.numel(), 8), args);
  for (std::int64_t first = 0; first < outer; first += slices) {
    const std::int64_t some = std::min(slices, outer - first);
    args.first = first * slice, args.count = some * slice;
    args.first_place = first * places, args.places = some * places;
    launch_blocks(gpu, source, "clear_digits", blocks(args.places, 4), args);
    launch_blocks(gpu, source, "add_to_digits", (args.count + 4 * kThreads - 1) / (4 * kThreads), args);
    launch_elements(gpu, source, "round_sums", args.places, args);
  }
}

ScatterTask task_of(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const bool onto = call.op == Op::scatter;  // writes onto existing elements
  ScatterTask t{call,
                gpu,
                mark,
                at_least_1d(call.outputs[0]),
                at_least_1d(call.inputs[1]),
                at_least_1d(call.inputs[onto ? 2 : 0]),
                at_least_1d(call.inputs[1])};
  if (call.op == Op::index_zero_add) {
    t.index.shape = t.out.shape.with(t.axis(), t.given.shape.numel());
    t.index.strides = Strides{};
    t.index.strides[t.axis()] = t.given.strides[0];
  }
  return t;
}

}  // namespace

void run_scatter(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const ScatterTask t = task_of(call, gpu, mark);
  const View base = at_least_1d(call.inputs[0]);
  const ScatterPlan plan = t.plan();
  if (plan.kind == ScatterPlan::Kind::places) return t.fill_places(plan, &base);
  if (plan.kind == ScatterPlan::Kind::last_on_chip) {
    const ScatterArgs a = t.args();
    View first = base;
    first.shape = t.index.shape.with(t.axis(), 1);
    return launch_blocks(gpu, {index_text(t.index) + bits_text(t.out.dtype) + texts::put_last, false, true},
                         "put_last_of_line", ceil_div(a.index.n, plan.columns),
                         PutLastArgs<void>{.index = a.index,
                                           .src = a.src,
                                           .base = kernel_view(first),
                                           .out = t.out.data,
                                           .length = a.length,
                                           .size = a.size,
                                           .index_step = a.index_step,
                                           .src_step = a.src_step,
                                           .base_step = base.strides[t.axis()],
                                           .lines = plan.columns,
                                           .complaints = a.complaints},
                         plan.shared_bytes, static_cast<unsigned>(plan.threads));
  }
  const bool values = plan.kind == ScatterPlan::Kind::last_value;
  if (!values) copy_elements(gpu, t.out, base);
  if (!values && plan.kind != ScatterPlan::Kind::last_element)
    return t.lines(plan, bits_text(t.out.dtype) + kSameType, "to = x;");
  const std::int64_t n = t.index.shape.numel(), places = t.out.shape.numel();
  const bool narrow = !values && n < (std::int64_t{1} << 32) - 1, few = n < places / 4;
  BufferPtr keep;
  const View last = workspace(gpu, narrow ? DType::i32 : DType::i64, t.out.shape, keep, "scatter");
  ScatterElementsArgs<void, void> args = t.element_args();
  args.last = last.data;
  const KernelSource source = t.element_source(narrow ? "u32" : "u64");
  few ? launch_elements(gpu, source, "clear_last", n, args) : gpu.clear(last.data, bytes_of(last));
  launch_elements(gpu, source, values ? "find_last_value" : "find_last", n, args);
  if (!values) return launch_elements(gpu, source, "put_last", n, args);
  launch_elements(gpu, source, "put_last_values", places,
                  PutValuesArgs<void>{.base = kernel_view(base), .last = elements<u64>(last), .out = t.out.data});
}

namespace {

// Consecutive lines of an output are rows of one element: the elements are sorted by their places.
void add_long_lines(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& out, const View& index,
                    const View& src) {
  const int axis = axis_of(call), last = index.shape.rank() - 1;
  BufferPtr kept_rows, kept_src, kept_sums;
  const View rows = rows_of_lines(call, gpu, mark, index, axis, out.shape[axis], kept_rows);
  View given = src;
  given.shape = index.shape;
  const View to = with_axis_last(out, axis);
  const View sums = axis == last ? out : dense(to, out.dtype, kept_sums, gpu, "scatter_add");
  add_rows(gpu, {.rows = rows,
                 .g = packed(gpu, with_axis_last(given, axis), kept_src, "scatter_add"),
                 .out = sums,
                 .outer = 1,
                 .size = out.shape.numel(),
                 .inner = 1});
  if (axis != last) copy_elements(gpu, to, sums);
}

}  // namespace

void run_scatter_zero_add(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  using Kind = ScatterPlan::Kind;
  ScatterTask t = task_of(call, gpu, mark);
  const ScatterPlan plan = t.plan();
  const View out = t.out;
  const bool integers = out.dtype == DType::i64 || out.dtype == DType::i32;
  if (plan.kind == Kind::places) return t.fill_places(plan, nullptr);
  if (plan.kind == Kind::firsts) return t.sums_from_firsts();
  if (plan.kind == Kind::runs) return run_recurrence(call, gpu);
  if (plan.kind == Kind::own_sums) return t.own_sums(plan);
  if (plan.kind == Kind::exact) return t.exact_sums();
  if (plan.kind == Kind::sorted) return add_long_lines(call, gpu, mark, out, t.index, t.src);
  if (plan.kind == Kind::put || plan.kind == Kind::atomics || plan.kind == Kind::table) {
    const std::int64_t n = t.index.shape.numel();
    ScatterElementsArgs<void, void> args = t.element_args();
    KernelSource source = t.element_source(integers ? "T" : "u32");
    gpu.clear(out.data, bytes_of(out));
    if (plan.kind != Kind::table)
      return launch_elements(gpu, source, plan.kind == Kind::put ? "put_elements" : "add_integers", n, args);
    source.dynamic_shared = true;
    args.copies = plan.copies;
    return launch_blocks(gpu, source, "add_integers_in_shared",
                         std::min<std::int64_t>(n / (16 * kThreads) + 1, 4 * gpu.multiprocessors()), args,
                         plan.shared_bytes);
  }
  const DType sums = dtype_of_sums(call);
  const bool wide = sums != out.dtype;
  const std::string types =
      element_text(out.dtype) +
      (wide ? fmt::format("typedef {} O;\ntypedef T R;\nEBB R rounded(O x) {{ return store((A)x); }}\n",
                          sums == DType::f64 ? "f64" : "f32")
            : kSameType);
  const std::string update = wide                     ? "to += (O)load(x);"
                             : is_floating(out.dtype) ? "to += x;"
                                                      : "to = store(sum(load(to), load(x)));";
  BufferPtr keep;
  const bool in_memory = plan.kind != Kind::shared && plan.kind != Kind::warp_sums;
  if (in_memory && wide) t.out = dense(out, sums, keep, gpu, "scatter_add");
  if (in_memory || t.index.shape.numel() == 0) gpu.clear(t.out.data, bytes_of(t.out));
  t.lines(plan, types, update);
  if (t.out.data != out.data)
    launch_elements(gpu, {element_text(out.dtype) + texts::narrow}, "narrow", out.shape.numel(),
                    NarrowArgs<void>{.from = elements<f32>(t.out), .to = out.data, .n = out.shape.numel()});
}

void run_index_zero_add(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  if (plan_scatter(call, gpu.model()).kind != ScatterPlan::Kind::sorted) return run_scatter_zero_add(call, gpu, mark);
  const View &out = call.outputs[0], index = at_least_1d(call.inputs[1]);
  const int axis = axis_of(call);
  BufferPtr kept_rows, kept_g;
  const View rows = rows_of_lines(call, gpu, mark, index, 0, out.shape[axis], kept_rows);
  const View g = packed(gpu, call.inputs[0], kept_g, "index_add");
  std::int64_t outer = 1;
  for (int d = 0; d < axis; ++d) outer *= out.shape[d];
  add_rows(gpu, {.rows = rows,
                 .g = g,
                 .out = out,
                 .outer = outer,
                 .size = out.shape[axis],
                 .inner = inner_of(out.shape, axis),
                 .ascending = static_cast<IndexLines>(call.attrs.i[1]) == IndexLines::ascending});
}

}  // namespace ebb::cuda
