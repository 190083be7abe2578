// gather, scatter and what is like them. Nothing is added by two threads: sums have the order of the index.
#include <fmt/format.h>

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

std::int64_t inner_of(const Shape& shape, int axis) {
  std::int64_t n = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) n *= shape[d];
  return n;
}

// What scatter and its sums do to the lines of the index along the axis: a thread a line, in order.
// `body` has `to` (a reference to the element of the output) and `x` (the element of src).
void scatter_lines(const LibraryCall& call, Gpu& gpu, RunMark& mark, const View& out, const View& index,
                   const View& src, const std::string& types, const std::string& body) {
  const int axis = axis_of(call);
  const Shape lines = index.shape.with(axis, 1);
  const std::string text = view_text() + index_text(index) + types + R"cuda(
struct Args {
  View index, src, out;
  i64 length, inner, size, index_step, src_step, out_step;
  ErrorSlot* error;
  i64 step;
};
extern "C" __global__ void __launch_bounds__(256) scatter(const Args a) {
  EACH(line, a.index.n) {
    const I* const index = (const I*)a.index.data + at(a.index, line);
    const T* const src = (const T*)a.src.data + at(a.src, line);
    O* const out = (O*)a.out.data + at(a.out, line);
    const i64 outer = quotient(line, a.inner);
    for (i64 i = 0; i < a.length; ++i) {
      const i64 where = index[i * a.index_step];
      if ((u64)where >= (u64)a.size) {
        complain(a.error, a.step, (outer * a.length + i) * a.inner + line - outer * a.inner, 0, bits_of(where));
        continue;
      }
      O& to = out[where * a.out_step];
      const T x = src[i * a.src_step];
      )cuda" + body + R"cuda(
    }
  }
}
)cuda";
  const auto of_lines = [&](const View& v) {
    View l = v;
    l.shape = lines;
    return l;
  };
  Words words;
  words.add(of_lines(index)).add(of_lines(src)).add(of_lines(out));
  words.add(index.shape[axis]).add(inner_of(index.shape, axis)).add(out.shape[axis]);
  words.add(index.strides[axis]).add(src.strides[axis]).add(out.strides[axis]);
  add_index_check(words, mark, call, index, out.shape[axis]);
  if (index.shape.numel() > 0) launch_elements(gpu, text, "scatter", lines.numel(), words);
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

}  // namespace

void run_gather(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  View x = at_least_1d(call.inputs[0]), out = at_least_1d(call.outputs[0]);
  const View given = at_least_1d(call.inputs[1]);
  const int axis = axis_of(call);
  const bool select = call.op == Op::index_select;  // one index for a whole slice
  const std::size_t unit = select ? widen_slices(x, out, axis) : size_of(x.dtype);
  View index = given;
  if (select) {
    index.shape = out.shape;
    index.strides = Strides{};
    index.strides[axis] = given.strides[0];
  }
  const std::string text = view_text() + index_text(index) + unit_text(unit) + R"cuda(
struct Args {
  View index, x;
  T* out;
  i64 x_step, size, inner, length;  // inner 0: the position is the element's
  ErrorSlot* error;
  i64 step;
};
extern "C" __global__ void __launch_bounds__(256) gather(const Args a) {
  EACH(i, a.index.n) {
    const i64 where = ((const I*)a.index.data)[at(a.index, i)];
    if ((u64)where < (u64)a.size) {
      put(a.out + i, ((const T*)a.x.data)[at(a.x, i) + where * a.x_step]);
    } else {
      const i64 outer = a.inner ? quotient(i, a.inner) : 0;
      complain(a.error, a.step, a.inner ? outer - quotient(outer, a.length) * a.length : i, 0, bits_of(where));
    }
  }
}
)cuda";
  Words words;
  words.add(index).add(beside(x, index.shape, axis)).add(out.data);
  words.add(x.strides[axis]).add(x.shape[axis]);
  words.add(select ? inner_of(out.shape, axis) : 0).add(out.shape[axis]);
  add_index_check(words, mark, call, given, x.shape[axis]);
  launch_elements(gpu, text, "gather", out.shape.numel(), words);
}

void run_scatter(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const View base = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]);
  const View src = at_least_1d(call.inputs[2]), out = at_least_1d(call.outputs[0]);
  copy_elements(gpu, out, base);
  scatter_lines(call, gpu, mark, out, index, src, bits_text(out.dtype) + "typedef T O;\n", "to = x;");
}

// Halves are added in f32 and rounded at the end.
void run_scatter_zero_add(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const View src = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]), out = at_least_1d(call.outputs[0]);
  const std::string types = element_text(out.dtype);
  if (!is_half(out.dtype)) {
    gpu.clear(out.data, bytes_of(out));
    scatter_lines(call, gpu, mark, out, index, src, types + "typedef T O;\n",
                  is_floating(out.dtype) ? "to += x;" : "to = store(sum(load(to), load(x)));");
    return;
  }
  BufferPtr keep;
  const View sums = dense(out, DType::f32, keep, gpu, "scatter_add");
  gpu.clear(sums.data, bytes_of(sums));
  scatter_lines(call, gpu, mark, sums, index, src, types + "typedef f32 O;\n", "to += load(x);");
  const std::string text = view_text() + types + R"cuda(
struct Args { const f32* from; T* to; i64 n; };
extern "C" __global__ void __launch_bounds__(256) narrow(const Args a) { EACH(i, a.n) a.to[i] = store(a.from[i]); }
)cuda";
  launch_elements(gpu, text, "narrow", out.shape.numel(), Words().add(sums.data).add(out.data).add(out.shape.numel()));
}

// A block makes 256 columns of a row of the result: tokens are sorted by their rows, and those of its own are added in
// order. f32 is added in f64, halves in f32.
void run_index_zero_add(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const View &out = call.outputs[0], index = at_least_1d(call.inputs[1]);
  const int axis = axis_of(call);
  BufferPtr keep;
  const View g = packed(gpu, call.inputs[0], keep, "index_add");
  const char* const sum_type = out.dtype == DType::f32 ? "f64" : "A";
  const char* const add = is_floating(out.dtype) ? "total + (S)load(x)" : "sum(total, load(x))";
  const std::string text = view_text() + index_text(index) + element_text(out.dtype) +
                           fmt::format("typedef {} S;\nEBB S plus(S total, T x) {{ return {}; }}\n", sum_type, add) +
                           R"cuda(
struct Args {
  const I* index;
  const T* g;
  T* out;
  const i64* order;  // of the tokens, sorted by their rows
  i64* begin;        // per row: the first of its tokens in this order, and the end of them
  i64* end;
  i64 tokens, index_step, outer, size, inner, tiles;
  ErrorSlot* error;
  i64 step;
};
extern "C" __global__ void __launch_bounds__(256) find_rows(const Args a) {
  EACH(p, a.tokens) {
    const i64 t = a.order[p], row = a.index[t * a.index_step];
    if ((u64)row >= (u64)a.size) {
      complain(a.error, a.step, t, 0, bits_of(row));
      continue;
    }
    if (p == 0 || (i64)a.index[a.order[p - 1] * a.index_step] != row) a.begin[row] = p;
    if (p + 1 == a.tokens || (i64)a.index[a.order[p + 1] * a.index_step] != row) a.end[row] = p + 1;
  }
}
extern "C" __global__ void __launch_bounds__(256) add_rows(const Args a) {
  for (i64 task = blockIdx.x; task < a.outer * a.size * a.tiles; task += gridDim.x) {
    const i64 line = quotient(task, a.tiles), tile = task - line * a.tiles;
    const i64 outer = quotient(line, a.size), row = line - outer * a.size;
    const i64 column = tile * 256 + threadIdx.x;
    if (column >= a.inner) continue;
    const i64 end = a.end[row];
    const auto given = [&](i64 p) { return a.g[(outer * a.tokens + a.order[p]) * a.inner + column]; };
    S total = 0;
    i64 p = a.begin[row];
    for (; p + 8 <= end; p += 8) {  // eight loads in flight, added in order
      T part[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) part[k] = given(p + k);
#pragma unroll
      for (int k = 0; k < 8; ++k) total = plus(total, part[k]);
    }
    for (; p < end; ++p) total = plus(total, given(p));
    a.out[line * a.inner + column] = store((A)total);
  }
}
)cuda";
  std::int64_t outer = 1;
  for (int d = 0; d < axis; ++d) outer *= out.shape[d];
  const std::int64_t inner = inner_of(out.shape, axis), tiles = (inner + kThreads - 1) / kThreads;
  const std::int64_t tokens = index.shape.numel(), size = out.shape[axis];
  BufferPtr kept_order, kept_begin, kept_end;
  const View order = workspace(gpu, DType::i64, Shape{tokens}, kept_order, "index_add");
  const View begin = workspace(gpu, DType::i64, Shape{size}, kept_begin, "index_add");
  const View end = workspace(gpu, DType::i64, Shape{size}, kept_end, "index_add");
  argsort(gpu, index, 0, false, order);
  for (const View* v : {&begin, &end}) gpu.clear(v->data, static_cast<std::size_t>(size) * size_of(DType::i64));
  Words words;
  words.add(index.data).add(g.data).add(out.data).add(order.data).add(begin.data).add(end.data);
  words.add(tokens).add(index.strides[0]).add(outer).add(size).add(inner).add(tiles);
  add_index_check(words, mark, call, index, size);
  launch_elements(gpu, text, "find_rows", tokens, words);
  launch_blocks(gpu, text, "add_rows", outer * size * tiles, words);
}

}  // namespace ebb::cuda
