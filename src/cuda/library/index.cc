// gather, scatter and what is like them. Nothing is added by two threads: sums have the order of the index.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

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
  constexpr std::int64_t kPacks = 4;
  const RowLanes rows = lanes_for(inner, kPacks);
  const std::string text = view_text() + index_text(index) + unit_text(unit) + R"cuda(
struct Args {
  View x;  // the first elements of its slices
  const I* index;
  T* out;
  i64 index_step, x_step, size, length, inner, lane_bits, tiles;
  ErrorSlot* error;
  i64 step;
};
extern "C" __global__ void __launch_bounds__(256) gather_rows(const Args a) {
  const int lanes = 1 << a.lane_bits, lane = threadIdx.x & (lanes - 1);
  EACH(i, a.x.n * a.length * a.tiles << a.lane_bits) {
    const i64 task = i >> a.lane_bits, row = a.tiles == 1 ? task : quotient(task, a.tiles);
    const i64 outer = a.x.n == 1 ? 0 : quotient(row, a.length), token = row - outer * a.length;
    const i64 where = a.index[token * a.index_step];
    const i64 first = ((task - row * a.tiles) * 4 << a.lane_bits) + lane;
    if ((u64)where >= (u64)a.size) {
      if (first == 0) complain(a.error, a.step, token, 0, bits_of(where));
      continue;
    }
    const T* const from = (const T*)a.x.data + (a.x.n == 1 ? 0 : at(a.x, outer)) + where * a.x_step;
    T* const to = a.out + row * a.inner;
    must_be_aligned(from, sizeof(T));
    T part[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (first + k * lanes < a.inner) part[k] = from[first + k * lanes];
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (first + k * lanes < a.inner) put(to + first + k * lanes, part[k]);
    }
  }
}
)cuda";
  const std::int64_t length = index.shape.numel();
  Words words;
  words.add(slices).add(index.data).add(out.data).add(index.strides[0]).add(x_step).add(x.shape[axis]);
  words.add(length).add(inner).add(lane_bits(rows)).add(rows.tiles);
  add_index_check(words, mark, call, index, x.shape[axis]);
  if (out.shape.numel() > 0)
    launch_elements(gpu, text, "gather_rows", slices.shape.numel() * length * rows.tiles * rows.lanes, words);
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

// Tokens are sorted by their rows, and those of a row are added in order. A row belongs to a group of lanes, each with
// some packs of its columns; of rows with many tokens every thread has one column, and more loads in flight. f32 is
// added in f64, halves in f32.
void run_index_zero_add(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const View &out = call.outputs[0], index = at_least_1d(call.inputs[1]);
  const int axis = axis_of(call);
  BufferPtr keep;
  const View g = packed(gpu, call.inputs[0], keep, "index_add");
  std::int64_t outer = 1;
  for (int d = 0; d < axis; ++d) outer *= out.shape[d];
  const std::int64_t inner = inner_of(out.shape, axis), tokens = index.shape.numel(), size = out.shape[axis];
  constexpr std::int64_t kMany = 16;
  const auto each = static_cast<std::int64_t>(16 / size_of(out.dtype));
  const bool wide = inner % each == 0 &&
                    (reinterpret_cast<std::uintptr_t>(g.data) | reinterpret_cast<std::uintptr_t>(out.data)) % 16 == 0;
  const RowLanes rows = lanes_for(wide ? inner / each : inner, size_of(out.dtype) > 1 ? 4 : 2);
  const std::string text =
      view_text() + index_text(index) + element_text(out.dtype) +
      fmt::format("typedef {} S;\nEBB S plus(S total, T x) {{ return {}; }}\n", out.dtype == DType::f32 ? "f64" : "A",
                  is_floating(out.dtype) ? "total + (S)load(x)" : "sum(total, load(x))") +
      fmt::format("constexpr int kMany = {}, kPacks = {}, kEach = {};\nconstexpr bool kWide = {};\n", kMany, rows.packs,
                  wide ? each : 1, wide) +
      fmt::format("EBB void narrow(Pack<T, kEach>& to, int j, S x) {{ {}; }}\n",
                  wide && out.dtype == DType::bf16  ? "to.set_bf16(j, x)"
                  : wide && out.dtype == DType::f16 ? "to.set_f16(j, x)"
                                                    : "to.set(j, store((A)x))") +
      R"cuda(
struct alignas(16) Range { i64 begin, end; };
struct Args {
  const I* index;
  const T* g;
  T* out;
  const i64* order;  // of the tokens, sorted by their rows
  Range* ranges;     // per row: its tokens in this order
  i64* many;         // rows with more than kMany tokens, and how many those are
  u32* many_rows;
  i64 tokens, index_step, outer, size, inner, lane_bits, tiles, many_blocks;
  ErrorSlot* error;
  i64 step;
};
extern "C" __global__ void __launch_bounds__(256) find_rows(const Args a) {
  EACH(p, a.tokens) {
    const auto row_of = [&](i64 q) { return (i64)a.index[a.order[q] * a.index_step]; };
    const i64 row = row_of(p);
    if ((u64)row >= (u64)a.size) {
      complain(a.error, a.step, a.order[p], 0, bits_of(row));
      continue;
    }
    if (p == 0 || row_of(p - 1) != row) {
      a.ranges[row].begin = p;
      if (p + kMany < a.tokens && row_of(p + kMany) == row) a.many[atomicAdd(a.many_rows, 1u)] = row;
    }
    if (p + 1 == a.tokens || row_of(p + 1) != row) a.ranges[row].end = p + 1;
  }
}
EBB void add_many(const Args& a) {
  const i64 rows = *a.many_rows;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < a.outer * rows * a.inner; i += a.many_blocks * 256) {
    const i64 line = quotient(i, a.inner), outer = quotient(line, rows), row = a.many[line - outer * rows];
    const T* const g = a.g + outer * a.tokens * a.inner + (i - line * a.inner);
    const Range range = a.ranges[row];
    S total = 0;
    for (i64 p = range.begin; p < range.end; p += kMany) {  // so many loads in flight, added in order
      T part[kMany];
#pragma unroll
      for (int k = 0; k < kMany; ++k) {
        if (p + k < range.end) part[k] = g[a.order[p + k] * a.inner];
      }
#pragma unroll
      for (int k = 0; k < kMany; ++k) {
        if (p + k < range.end) total = plus(total, part[k]);
      }
    }
    a.out[(outer * a.size + row) * a.inner + (i - line * a.inner)] = store((A)total);
  }
}
extern "C" __global__ void __launch_bounds__(256) add_rows(const Args a) {
  if (blockIdx.x < a.many_blocks) return add_many(a);
  typedef Pack<T, kEach> Columns;
  constexpr int kAhead = kPacks > 2 ? 2 : 4;  // tokens
  const int lanes = 1 << a.lane_bits;
  const i64 threads = a.outer * a.size * a.tiles << a.lane_bits;
  for (i64 i = (blockIdx.x - a.many_blocks) * 256 + threadIdx.x; i < threads; i += (gridDim.x - a.many_blocks) * 256) {
    const i64 task = i >> a.lane_bits, line = a.tiles == 1 ? task : quotient(task, a.tiles);
    const i64 outer = a.outer == 1 ? 0 : quotient(line, a.size);
    const Range range = a.ranges[line - outer * a.size];
    if (range.end - range.begin > kMany) continue;
    const i64 first = ((task - line * a.tiles) * kPacks * lanes + (threadIdx.x & (lanes - 1))) * kEach;
    const auto at_pack = [&](int k) { return first + k * lanes * kEach; };
    T* const to = a.out + line * a.inner;
    if (range.begin == range.end) {
      Columns zeros;
#pragma unroll
      for (int k = 0; k < (int)(sizeof(zeros.w) / 4); ++k) zeros.w[k] = 0;
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        if (at_pack(k) < a.inner) store_pack<kEach>(to + at_pack(k), zeros, kWide, kEach, false);
      }
      continue;
    }
    const T* const g = a.g + outer * a.tokens * a.inner;
    S total[kPacks][kEach];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) total[k][j] = 0;
    }
    for (i64 p = range.begin; p < range.end; p += kAhead) {
      Columns part[kAhead][kPacks];
#pragma unroll
      for (int t = 0; t < kAhead; ++t) {
        if (p + t >= range.end) continue;
        const T* const from = g + a.order[p + t] * a.inner;
#pragma unroll
        for (int k = 0; k < kPacks; ++k) {
          if (at_pack(k) < a.inner) part[t][k] = load_pack<kEach>(from + at_pack(k), kWide, kEach);
        }
      }
#pragma unroll
      for (int t = 0; t < kAhead; ++t) {
        if (p + t >= range.end) continue;
#pragma unroll
        for (int k = 0; k < kPacks; ++k) {
#pragma unroll
          for (int j = 0; j < kEach; ++j) total[k][j] = plus(total[k][j], part[t][k].at(j));
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      Columns sums;
#pragma unroll
      for (int j = 0; j < kEach; ++j) narrow(sums, j, total[k][j]);
      if (at_pack(k) < a.inner) store_pack<kEach>(to + at_pack(k), sums, kWide, kEach, false);
    }
  }
}
)cuda";
  BufferPtr kept_order, kept_ranges, kept_many;
  const View order = workspace(gpu, DType::i64, Shape{tokens}, kept_order, "index_add");
  const View ranges = workspace(gpu, DType::i64, Shape{2 * size + 1}, kept_ranges, "index_add");
  const View many = workspace(gpu, DType::i64, Shape{tokens / kMany}, kept_many, "index_add");
  argsort(gpu, index, 0, false, order);
  gpu.clear(ranges.data, bytes_of(ranges));
  const auto blocks_for = [](std::int64_t threads) { return (threads + kThreads - 1) / kThreads; };
  const std::int64_t most_of_many = many.shape.numel() * outer * inner;
  const std::int64_t many_blocks = std::min<std::int64_t>(blocks_for(most_of_many), 4 * gpu.multiprocessors());
  Words words;
  words.add(index.data).add(g.data).add(out.data).add(order.data).add(ranges.data).add(many.data);
  words.add(element_at(ranges, 2 * size));
  words.add(tokens).add(index.strides[0]).add(outer).add(size).add(inner).add(lane_bits(rows)).add(rows.tiles);
  words.add(many_blocks);
  add_index_check(words, mark, call, index, size);
  launch_elements(gpu, text, "find_rows", tokens, words);
  if (out.shape.numel() > 0)
    launch_blocks(gpu, text, "add_rows", many_blocks + blocks_for(outer * size * rows.tiles * rows.lanes), words);
}

}  // namespace ebb::cuda
