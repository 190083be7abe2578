// SPDX-License-Identifier: MIT
// sort: one call that returns the order and the sorted elements. Sorting moves keys that encode the elements, so that
// none has to be looked up afterwards.
#include "calls/order.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/index_nodes.h"

namespace ebb {

std::pair<Tensor, Tensor> sort(const Tensor& x, std::int64_t axis, bool descending) {
  if (x.rank() == 0) return {x, argsort(x, axis, descending)};
  const int a = normalize_axis("sort", axis, x.rank());
  const Tensor numbers = x.dtype() == DType::bool_ ? cast(x, DType::u8) : x;
  Tensor call;
  {
    NoHistory off;
    call = make_call(Op::argsort, std::span(&numbers, 1), along_axis(a, ArgsortCall{descending, 0, 0, true}),
                     {{x.shape(), DType::i64}, {x.shape(), numbers.dtype()}});
  }
  const Tensor order = output_of(call, 0), sorted = output_of(call, 1);
  if (x.node()->history == 0) return {cast(sorted, x.dtype()), order};
  // d/dx: elements only move.
  const Tensor values = custom_function(
      [&](const std::vector<Tensor>&) { return sorted; },
      [a, order](const Tensor& grad, const Tensor&, const std::vector<Tensor>& in) {
        return std::vector<Tensor>{scatter_zero_add(grad, a, order, in[0].shape(), IndexLines::different)};
      },
      {x});
  return {values, order};
}

}  // namespace ebb
