// SPDX-License-Identifier: MIT
// Reductions of what only repeats, or has one number placed in it.
#include <utility>

#include "schedule/simplifier.h"

namespace ebb {

std::int32_t Simplifier::add_reduce(Value v) {
  const std::int32_t in = v.inputs[0];
  const Shape& from = at(in).shape;
  std::uint32_t axes = 0;
  for (int d = 0; d < from.rank(); ++d) {
    if ((v.attrs.axes >> d & 1) && from[d] != 1) axes |= 1u << d;
  }
  v.attrs.axes = axes;
  if (axes == 0) return in;  // nothing is reduced, and reduced axes keep size 1
  // A row with one number placed in it sums to that number.
  if (v.op == Op::sum && at(in).op == Op::place && axes == 1u << at(in).attrs.i[0]) return at(in).inputs[0];
  // Over axes along which the input only repeats, a sum is a product and a maximum the thing itself.
  if (at(in).op == Op::expand && from.numel() > 0 && v.op != Op::prod) {
    const Value& e = at(in);
    const Shape& inner = at(e.inputs[0]).shape;
    const int lead = from.rank() - inner.rank();
    std::uint32_t repeated = 0;
    double times = 1;
    for (int d = 0; d < from.rank(); ++d) {
      if ((axes >> d & 1) && (d < lead || inner[d - lead] == 1)) {
        repeated |= 1u << d;
        times *= static_cast<double>(from[d]);
      }
    }
    if (repeated) {
      std::vector<std::int64_t> sizes(from.begin(), from.end());
      for (int d = 0; d < from.rank(); ++d) {
        if (repeated >> d & 1) sizes[d] = 1;
      }
      Value smaller;
      smaller.op = Op::expand;
      smaller.dtype = e.dtype;
      smaller.shape = Shape(sizes);
      smaller.inputs = {e.inputs[0]};
      std::int32_t rest = add_view(std::move(smaller));
      if (axes != repeated) {
        Value r = v;
        r.inputs = {rest};
        r.attrs.axes = axes & ~repeated;
        r.node = -1;
        rest = add_reduce(std::move(r));
      }
      if (v.op != Op::sum) return rest;
      Value product;
      product.op = Op::mul;
      product.dtype = v.dtype;
      product.shape = v.shape;
      product.inputs = {rest, uniform(literal(times, v.dtype), v.shape)};
      return add_elementwise(std::move(product));
    }
  }
  const std::int32_t turned = reduced_as_it_lies(v);
  return turned >= 0 ? turned : intern(std::move(v));
}

}  // namespace ebb
