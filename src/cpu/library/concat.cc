// SPDX-License-Identifier: MIT
// cat and pad_zero: copies into parts of the result.
#include "cpu/library/copy.h"
#include "cpu/library/ops.h"

namespace ebb::cpu {
namespace {

// The part of `out` that starts at `start` along `axis` and is `size` long.
View part_of(const View& out, int axis, std::int64_t start, std::int64_t size) {
  View part = out;
  part.shape = out.shape.with(axis, size);
  part.data = element_at(out, start * out.strides[axis]);
  return part;
}

}  // namespace

void run_cat(const LibraryCall& call) {
  const int axis = static_cast<int>(call.attrs.i[0]);
  std::int64_t start = 0;
  for (const View& x : call.inputs) {
    copy_elements(part_of(call.outputs[0], axis, start, x.shape[axis]), x);
    start += x.shape[axis];
  }
}

void run_pad_zero(const LibraryCall& call) {
  const int axis = static_cast<int>(call.attrs.i[0]);
  const std::int64_t before = call.attrs.i[1], after = call.attrs.i[2];
  const View &x = call.inputs[0], &out = call.outputs[0];
  zero_elements(part_of(out, axis, 0, before));
  copy_elements(part_of(out, axis, before, x.shape[axis]), x);
  zero_elements(part_of(out, axis, before + x.shape[axis], after));
}

}  // namespace ebb::cpu
