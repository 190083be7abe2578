// sparsemax_threshold and multilabel_hinges: a block per row.
#include <fmt/format.h>

#include "cuda/library/kernels.h"

namespace ebb::cuda {

// τ with Σ max(0, x − τ) = 1: what lies below the threshold of the sum so far is dropped until nothing does (Michelot,
// 1986). NaN is never dropped, and makes the threshold NaN.
void run_sparsemax_threshold(const LibraryCall& call, Gpu& gpu) {
  const View& x = call.inputs[0];
  const int axis = static_cast<int>(call.attrs.i[0]);
  View lines = x;
  lines.shape = x.shape.with(axis, 1);
  if (lines.shape.numel() == 0) return;
  const std::string text = view_text() + element_text(x.dtype) + R"cuda(
struct Args { View x; T* out; i64 length, step; };
extern "C" __global__ void __launch_bounds__(256) thresholds(const Args a) {
  __shared__ u64 shared[256];
  for (i64 line = blockIdx.x; line < a.x.n; line += gridDim.x) {
    const T* const x = (const T*)a.x.data + at(a.x, line);
    f64 top = -infinity();
    for (i64 i = threadIdx.x; i < a.length; i += 256) top = (f64)x[i * a.step] > top ? (f64)x[i * a.step] : top;
    top = over_block<Most>(top, shared);
    f64 low = -1, threshold = 0;
    for (i64 count = -1;;) {
      f64 sum = 0;
      i64 left = 0;
      for (i64 i = threadIdx.x; i < a.length; i += 256) {
        const f64 d = (f64)x[i * a.step] - top;
        if (d <= low) continue;
        sum += d;
        ++left;
      }
      sum = over_block<Plus>(sum, shared);
      left = over_block<Plus>(left, shared);
      if (left == count || left == 0) {
        if (left == 0) threshold = not_a_number();
        break;
      }
      count = left;
      threshold = low = (sum - 1) / (f64)left;
    }
    if (threadIdx.x == 0) a.out[line] = (T)(threshold + top);
  }
}
)cuda";
  launch_blocks(gpu, text, "thresholds", lines.shape.numel(),
                Words().add(lines).add(call.outputs[0].data).add(x.shape[axis]).add(x.strides[axis]));
}

// Σ over listed k and classes i that are not listed of max(0, 1 − x_{y_k} + x_i), and its gradient.
void run_multilabel_hinges(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const View &x = call.inputs[0], &target = call.inputs[1];
  const int last = x.shape.rank() - 1;
  const std::int64_t rows = last > 0 ? x.shape[0] : 1, classes = x.shape[last];
  if (rows == 0) return;
  const std::string text = view_text() + element_text(x.dtype) +
                           fmt::format("typedef {} I;\n", target.dtype == DType::i32 ? "i32" : "i64") + R"cuda(
struct Args {
  const T* x;
  const I* target;
  const A* scale;
  A* sums;
  T* gradient;
  u8* listed;
  i64 rows, classes, x_row, x_step, target_row, target_step, scale_step;
  ErrorSlot* error;
  i64 step;
};
extern "C" __global__ void __launch_bounds__(256) hinges(const Args a) {
  __shared__ u64 shared[256];
  for (i64 n = blockIdx.x; n < a.rows; n += gridDim.x) {
    const T* const x = a.x + n * a.x_row;
    const I* const list = a.target + n * a.target_row;
    u8* const listed = a.listed + n * a.classes;
    i64 length = a.classes;  // of the list, which ends at the first -1
    for (i64 k = threadIdx.x; k < a.classes; k += 256) {
      listed[k] = 0;
      if (list[k * a.target_step] == -1 && k < length) length = k;
    }
    length = over_block<Least>(length, shared);
    bool wrong = false;
    for (i64 k = threadIdx.x; k < length; k += 256) {
      const i64 y = list[k * a.target_step];
      if ((u64)y >= (u64)a.classes) {
        complain(a.error, a.step, n * a.classes + k, 0, bits_of(y));
        wrong = true;
      }
    }
    if (__syncthreads_or(wrong)) continue;
    for (i64 c = threadIdx.x; c < a.classes; c += 256) {
      bool found = false;
      for (i64 k = 0; k < length && !found; ++k) found = list[k * a.target_step] == c;
      listed[c] = found;
    }
    __syncthreads();
    const A scale = a.scale ? a.scale[n * a.scale_step] : (A)1;
    f64 total = 0;
    for (i64 c = threadIdx.x; c < a.classes; c += 256) {
      const A here = load(x[c * a.x_step]);
      i64 open = 0;
      if (listed[c]) {  // of each time it is listed
        for (i64 i = 0; a.gradient && i < a.classes; ++i) open -= !listed[i] && !(load(x[i * a.x_step]) + ((A)1 - here) <= 0);
        i64 times = 0;
        for (i64 k = 0; a.gradient && k < length; ++k) times += list[k * a.target_step] == c;
        open *= times;
      } else {
        for (i64 k = 0; k < length; ++k) {
          const A hinge = here + ((A)1 - load(x[list[k * a.target_step] * a.x_step]));
          if (hinge <= 0) continue;  // NaN is not
          total += (f64)hinge;
          ++open;
        }
      }
      if (a.gradient) a.gradient[n * a.classes + c] = store(open == 0 ? (A)0 : (A)open * scale);
    }
    total = over_block<Plus>(total, shared);
    if (threadIdx.x == 0) a.sums[n] = (A)total;
  }
}
)cuda";
  BufferPtr keep;
  const View listed = workspace(gpu, DType::u8, Shape{rows, classes}, keep, "multilabel_margin_loss");
  const bool slopes = call.outputs.size() > 1, scaled = call.inputs.size() > 2;
  Words words;
  words.add(x.data).add(target.data).add(scaled ? call.inputs[2].data : nullptr).add(call.outputs[0].data);
  words.add(slopes ? call.outputs[1].data : nullptr).add(listed.data).add(rows).add(classes);
  words.add(last > 0 ? x.strides[0] : 0).add(x.strides[last]);
  words.add(last > 0 ? target.strides[0] : 0).add(target.strides[last]);
  words.add(scaled && last > 0 ? call.inputs[2].strides[0] : 0);
  const std::uint64_t step = mark.add_step([=](int, std::int64_t position, std::uint64_t bits) {
    return Error(Error::Kind::index, fmt::format("multilabel_margin_loss: target[{}{}] = {} is outside [0, {})",
                                                 last > 0 ? fmt::format("{}, ", position / classes) : "",
                                                 position % classes, static_cast<std::int64_t>(bits), classes));
  });
  words.add(static_cast<const void*>(mark.slot())).add(static_cast<std::int64_t>(step));
  launch_blocks(gpu, text, "hinges", rows, words);
}

}  // namespace ebb::cuda
