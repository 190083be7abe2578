// cat and pad_zero, argmax and argmin, cumsum and cumprod: work along one axis.
#include <fmt/format.h>

#include "core/format_error.h"
#include "cuda/kernels/args/lines.h"
#include "cuda/kernels/texts.h"
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

void run_arg(const LibraryCall& call, Gpu& gpu) {
  const View x = at_least_1d(call.inputs[0]);
  const int axis = axis_of(call);
  const Shape lines = x.shape.with(axis, 1);
  require(x.shape[axis] > 0 || lines.numel() == 0, "{}: axis {} of {} is empty and has no such element", label_of(call),
          axis, x.shape);
  if (lines.numel() == 0) return;
  const std::string types = element_text(x.dtype) + fmt::format("constexpr bool kFloating = {}, kLargest = {};\n",
                                                                is_floating(x.dtype), call.op == Op::argmax);
  View first = x;
  first.shape = lines;
  launch_blocks(gpu, {types + texts::best_of_lines}, "best_of_lines", lines.numel(),
                BestArgs{.x = kernel_view(first),
                         .out = elements<i64>(call.outputs[0]),
                         .length = x.shape[axis],
                         .step = x.strides[axis]});
}

void run_scan(const LibraryCall& call, Gpu& gpu) {
  const View x = at_least_1d(call.inputs[0]), out = at_least_1d(call.outputs[0]);
  if (x.shape.numel() == 0) return;
  const int axis = axis_of(call);
  const bool adds = call.op == Op::cumsum, real = is_floating(x.dtype);
  const std::string types =
      element_text(x.dtype) + fmt::format("typedef {} S;\nconstexpr bool kAdds = {}, kFloating = {}, kHalf = {};\n",
                                          real ? "f64" : "A", adds, real, is_half(x.dtype));
  View lines = x, results = out;
  lines.shape = results.shape = x.shape.with(axis, 1);
  launch_elements(gpu, {types + texts::scan}, "scan", lines.shape.numel(),
                  ScanArgs{.x = kernel_view(lines),
                           .out = kernel_view(results),
                           .length = x.shape[axis],
                           .x_step = x.strides[axis],
                           .out_step = out.strides[axis],
                           .start = adds ? 0 : 1});
}

}  // namespace ebb::cuda
