// cat and pad_zero, argmax and argmin, cumsum and cumprod: work along one axis.
#include <fmt/format.h>

#include "core/format_error.h"
#include "cuda/library/kernels.h"
#include "cuda/runtime/copy.h"

namespace ebb::cuda {
namespace {

int axis_of(const LibraryCall& call) { return static_cast<int>(call.attrs.i[0]); }

// The part of v from `start` on along the axis, in the shape of `like`.
View part(const View& v, int axis, std::int64_t start, const Shape& shape) {
  View p = v;
  p.data = element_at(v, start * v.strides[axis]);
  p.shape = shape;
  return p;
}

}  // namespace

void run_cat(const LibraryCall& call, Gpu& gpu) {
  std::int64_t start = 0;
  const int axis = axis_of(call);
  // One dense piece behind the other: one launch, however many there are.
  bool dense = true;
  for (int d = 0; d < axis; ++d) dense &= call.outputs[0].shape[d] == 1;
  for (const View& x : call.inputs) dense &= is_contiguous(x.shape, x.strides);
  if (dense) {
    std::vector<CopyCall> copies;
    auto* to = static_cast<std::byte*>(call.outputs[0].data);
    for (const View& x : call.inputs) {
      const std::size_t bytes = static_cast<std::size_t>(x.shape.numel()) * size_of(x.dtype);
      if (bytes) copies.push_back({to, x.data, bytes});
      to += bytes;
    }
    return copy_bytes(gpu, copies);
  }
  for (const View& x : call.inputs) {
    copy_elements(gpu, part(call.outputs[0], axis, start, x.shape), x);
    start += x.shape[axis];
  }
}

void run_pad_zero(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  gpu.clear(out.data, static_cast<std::size_t>(out.shape.numel()) * size_of(out.dtype));
  copy_elements(gpu, part(out, axis_of(call), call.attrs.i[1], x.shape), x);
}

// A block a line: the first of the best, and NaN is best.
void run_arg(const LibraryCall& call, Gpu& gpu) {
  const View x = at_least_1d(call.inputs[0]);
  const int axis = axis_of(call);
  const Shape lines = x.shape.with(axis, 1);
  require(x.shape[axis] > 0 || lines.numel() == 0, "{}: axis {} of {} is empty and has no such element", label_of(call),
          axis, x.shape);
  if (lines.numel() == 0) return;
  const std::string text = view_text() + element_text(x.dtype) +
                           fmt::format("EBB bool beats(A x, A best) {{ return {}x {} best; }}\n",
                                       is_floating(x.dtype) ? "best != best ? false : x != x ? true : " : "",
                                       call.op == Op::argmax ? ">" : "<") +
                           R"cuda(
struct Args { View x; i64* out; i64 length, step; };
extern "C" __global__ void __launch_bounds__(256) best_of_lines(const Args a) {
  __shared__ A values[256];
  __shared__ i64 places[256];
  for (i64 line = blockIdx.x; line < a.x.n; line += gridDim.x) {
    const T* const x = (const T*)a.x.data + at(a.x, line);
    i64 place = threadIdx.x < a.length ? (i64)threadIdx.x : -1;
    A best = place < 0 ? (A)0 : load(x[place * a.step]);
    for (i64 i = (i64)threadIdx.x + 256; i < a.length; i += 256) {
      const A y = load(x[i * a.step]);
      if (beats(y, best)) best = y, place = i;
    }
    __syncthreads();
    values[threadIdx.x] = best;
    places[threadIdx.x] = place;
    for (int half = 128; half; half >>= 1) {
      __syncthreads();
      if ((int)threadIdx.x < half && places[threadIdx.x + half] >= 0) {
        const A y = values[threadIdx.x + half];
        const i64 other = places[threadIdx.x + half], mine = places[threadIdx.x];
        const bool better = mine < 0 || beats(y, values[threadIdx.x]);
        if (better || (!beats(values[threadIdx.x], y) && other < mine)) values[threadIdx.x] = y, places[threadIdx.x] = other;
      }
    }
    if (threadIdx.x == 0) a.out[line] = places[0];
  }
}
)cuda";
  View first = x;
  first.shape = lines;
  launch_blocks(gpu, text, "best_of_lines", lines.numel(),
                Words().add(first).add(call.outputs[0].data).add(x.shape[axis]).add(x.strides[axis]));
}

// A thread a line. Floats are accumulated in f64 and each result is rounded once; integers wrap.
void run_scan(const LibraryCall& call, Gpu& gpu) {
  const View x = at_least_1d(call.inputs[0]), out = at_least_1d(call.outputs[0]);
  if (x.shape.numel() == 0) return;
  const int axis = axis_of(call);
  const bool adds = call.op == Op::cumsum, real = is_floating(x.dtype);
  const std::string text =
      view_text() + element_text(x.dtype) +
      fmt::format("typedef {} S;\nEBB S next(S a, S b) {{ return {}; }}\nEBB T narrow(S x) {{ return {}; }}\n",
                  real ? "f64" : "A", real ? (adds ? "a + b" : "a * b") : (adds ? "sum(a, b)" : "product(a, b)"),
                  is_half(x.dtype) ? "store(to_odd(x))" : "store((A)x)") +
      R"cuda(
struct Args { View x, out; i64 length, x_step, out_step, start; };
extern "C" __global__ void __launch_bounds__(256) scan(const Args a) {
  EACH(line, a.x.n) {
    const T* const x = (const T*)a.x.data + at(a.x, line);
    T* const out = (T*)a.out.data + at(a.out, line);
    S value = (S)a.start;
    for (i64 i = 0; i < a.length; ++i) {
      value = next(value, (S)load(x[i * a.x_step]));
      out[i * a.out_step] = narrow(value);
    }
  }
}
)cuda";
  View lines = x, results = out;
  lines.shape = results.shape = x.shape.with(axis, 1);
  launch_elements(gpu, odd_text() + text, "scan", lines.shape.numel(),
                  Words()
                      .add(lines)
                      .add(results)
                      .add(x.shape[axis])
                      .add(x.strides[axis])
                      .add(out.strides[axis])
                      .add(std::int64_t{adds ? 0 : 1}));
}

}  // namespace ebb::cuda
