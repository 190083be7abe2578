// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "backend/backend.h"
#include "core/format_error.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "ops/build.h"
#include "ops/distance_nodes.h"

// cdist and pdist: a call for p = 1 and 2, of cdist if the device prefers it, else formulas.
namespace ebb {

Tensor distances_node(const std::vector<Tensor>& rows, const DistanceCall& call) {
  const Tensor& a = rows[0];
  const std::int64_t n = a.size(-2);
  const Shape shape = call.pairs ? Shape{pairs_before(n, n)} : Shape{a.size(0), n, rows[1].size(-2)};
  return make_node(Op::distances, a.dtype(), shape, rows, with_options(call), call.pairs ? "pdist" : "cdist");
}

Tensor distances_gradient_node(const Tensor& grad, const Tensor& distances, const std::vector<Tensor>& rows,
                               const DistanceCall& call) {
  std::vector<Tensor> inputs{grad, distances};
  inputs.insert(inputs.end(), rows.begin(), rows.end());
  return make_node(Op::distances_gradient, rows[0].dtype(), rows[0].shape(), inputs, with_options(call),
                   call.pairs ? "pdist" : "cdist");
}

// Pair t is (i, j) with i·(2n − 1 − i)/2 pairs before those of row i: solved for i. The root is exact where i begins.
PairIndex index_of_pairs(std::int64_t n) {
  const Tensor t = arange(pairs_before(n, n)), odd = full({}, Scalar(2 * n - 1), DType::i64);
  const Tensor root = sqrt(cast(odd * odd - 8 * t, DType::f64));
  const Tensor first = cast(floor((cast(odd, DType::f64) - root) / 2), DType::i64);
  return {first, t - floor_divide(first * (odd - first), full({}, Scalar(2), DType::i64)) + first + 1};
}

namespace {

bool is_called(const Tensor& x, double p) {
  if (p != 1 && p != 2) return false;
  return x.node()->homeless || backend_of(x.node()->device).calls_distances();
}

// |u − v|² = |u|² + |v|² − 2·u·v by one product of matrices in f64, where the product of two elements of f32 is exact.
// The loss by cancellation is then less than the rounding of the elements: rows closer than that, such as equal ones,
// have distance 0, with derivative 0. Rows that are not finite have no product; their distance from finite ones is
// infinite or NaN accordingly, and NaN from others.
Tensor euclidean_distances(const Tensor& a, const Tensor& b) {
  const Tensor u = cast(a, DType::f64), v = cast(b, DType::f64);
  const Tensor of_u = unsqueeze(sum(square(u), -1), -1), of_v = unsqueeze(sum(square(v), -1), -2);
  const Tensor both = of_u + of_v, squared = both - 2 * matmul(u, transpose(v, -2, -1));
  const double rounding = 0x1p-51 * std::sqrt(static_cast<double>(a.size(-1)));
  const Tensor apart = squared > rounding * both;  // false for NaN
  Tensor none;
  {
    NoHistory scope;
    const Tensor one_finite = logical_xor(isfinite(of_u), isfinite(of_v));
    none = where(isfinite(both), 0, where(one_finite, both, std::numeric_limits<double>::quiet_NaN()));
  }
  return where(apart, sqrt(where(apart, squared, 1)), none);
}

// One call for all matrices of a batch.
Tensor called_distances(const Tensor& u, const Tensor& v, double p) {
  const auto batch_of = [](const Tensor& x) { return Shape(x.shape().begin(), x.rank() - 2); };
  const Shape batch = broadcast_shapes("cdist", batch_of(u), batch_of(v));
  const auto with_batch = [&](std::int64_t rows, std::int64_t columns) {
    return batch.inserted(batch.rank(), rows).inserted(batch.rank() + 1, columns);
  };
  const auto merged = [&](const Tensor& x) {
    return reshape(broadcast_to(x, with_batch(x.size(-2), x.size(-1))), {batch.numel(), x.size(-2), x.size(-1)});
  };
  const Tensor d = distances_node({merged(u), merged(v)}, {.p = static_cast<std::int64_t>(p)});
  return reshape(d, with_batch(u.size(-2), v.size(-2)));
}

}  // namespace

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  require(a.rank() >= 2 && b.rank() >= 2 && a.size(-1) == b.size(-1),
          "cdist: needs rows of equal length, [..., m, k] and [..., n, k], got shapes {} and {}", a.shape(), b.shape());
  const DType dtype = promote_real(promote(a.dtype(), b.dtype()));
  const Tensor u = widen(cast(a, dtype)), v = widen(cast(b, dtype));
  if (is_called(u.node()->homeless ? v : u, p)) return cast(called_distances(u, v, p), dtype);
  if (p == 2 && dtype != DType::f64) return cast(euclidean_distances(u, v), dtype);
  return cast(norm(unsqueeze(u, -2) - unsqueeze(v, -3), p, -1), dtype);
}

Tensor pdist(const Tensor& x, double p) {
  require(x.rank() == 2 && p >= 0, "pdist: needs a matrix and p >= 0, got shape {} and p = {}", x.shape(), p);
  const Tensor rows = widen(as_real(x));
  Tensor d;
  if (p == 1 || p == 2) {  // on any device: a formula would gather both rows of every pair
    d = distances_node({rows}, {.p = static_cast<std::int64_t>(p), .pairs = true});
  } else {
    const auto [first, second] = index_of_pairs(rows.size(0));
    d = norm(index_select(rows, 0, first) - index_select(rows, 0, second), p, 1);
  }
  return cast(d, promote_real(x.dtype()));
}

}  // namespace ebb
