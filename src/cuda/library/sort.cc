// argsort: runs of doubling length are merged; each element finds its place in the other run by bisection. Stable.
#include <fmt/format.h>

#include <utility>

#include "cuda/library/kernels.h"

namespace ebb::cuda {

void run_argsort(const LibraryCall& call, Gpu& gpu) {
  argsort(gpu, at_least_1d(call.inputs[0]), static_cast<int>(call.attrs.i[0]), call.attrs.i[1] != 0,
          at_least_1d(call.outputs[0]));
}

void argsort(Gpu& gpu, const View& x, int axis, bool descending, const View& out) {
  if (x.shape.numel() == 0) return;
  // NaN is above all numbers, and -0 is 0.
  const std::string text =
      view_text() + element_text(x.dtype) +
      fmt::format("EBB bool rises(A a, A b) {{ return {}; }}\nEBB bool before(A a, A b) {{ return {}; }}\n",
                  is_floating(x.dtype) ? "a < b || (b != b && a == a)" : "a < b",
                  descending ? "rises(b, a)" : "rises(a, b)") +
      R"cuda(
struct Args { View x, out; const i64* from; i64* to; i64 length, x_step, out_step, run; };
extern "C" __global__ void __launch_bounds__(256) begin(const Args a) {
  EACH(i, a.x.n * a.length) a.to[i] = i - quotient(i, a.length) * a.length;
}
extern "C" __global__ void __launch_bounds__(256) merge(const Args a) {
  EACH(i, a.x.n * a.length) {
    const i64 line = quotient(i, a.length), at_line = i - line * a.length;
    const T* const x = (const T*)a.x.data + at(a.x, line);
    const i64* const from = a.from + line * a.length;
    const i64 mine = at_line / a.run, other = mine ^ 1, pair = mine / 2 * 2 * a.run;
    const i64 start = other * a.run;
    const i64 me = from[at_line];
    const A key = load(x[me * a.x_step]);
    // How many of the other run come before: those that are less, and of the left run also those that are equal.
    i64 low = start < a.length ? start : a.length, high = start + a.run < a.length ? start + a.run : a.length;
    const i64 first = low;
    while (low < high) {
      const i64 middle = low + (high - low) / 2;
      const A y = load(x[from[middle] * a.x_step]);
      if (mine & 1 ? !before(key, y) : before(y, key)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    a.to[line * a.length + pair + (at_line - mine * a.run) + (low - first)] = me;
  }
}
extern "C" __global__ void __launch_bounds__(256) end(const Args a) {
  EACH(i, a.x.n * a.length) {
    const i64 line = quotient(i, a.length);
    ((i64*)a.out.data)[at(a.out, line) + (i - line * a.length) * a.out_step] = a.from[i];
  }
}
)cuda";
  const std::int64_t n = x.shape.numel(), length = x.shape[axis];
  BufferPtr one, two;
  void* from = dense(x, DType::i64, one, gpu, "argsort").data;
  void* to = dense(x, DType::i64, two, gpu, "argsort").data;
  View lines = x, results = out;
  lines.shape = results.shape = x.shape.with(axis, 1);
  const auto words = [&](std::int64_t run) {
    Words w;
    w.add(lines).add(results).add(from).add(to).add(length).add(x.strides[axis]).add(out.strides[axis]).add(run);
    return w;
  };
  launch_elements(gpu, text, "begin", n, words(0));
  std::swap(from, to);
  for (std::int64_t run = 1; run < length; run *= 2) {
    launch_elements(gpu, text, "merge", n, words(run));
    std::swap(from, to);
  }
  launch_elements(gpu, text, "end", n, words(0));
}

}  // namespace ebb::cuda
