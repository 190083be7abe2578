// SPDX-License-Identifier: MIT
#include "ebb/ops/linear.h"

#include <cmath>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"
#include "ops/product.h"

namespace ebb {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require(weight.rank() == 2 && x.rank() >= 1 && x.size(-1) == weight.size(1),
          "linear: an input of shape {} and a weight of shape {} do not fit; the weight is [out, in]", x.shape(),
          weight.shape());
  require(!bias.defined() || (bias.rank() == 1 && bias.numel() == weight.size(0)),
          "linear: bias of shape {} does not fit {} outputs", bias.defined() ? bias.shape() : Shape{}, weight.size(0));
  const Tensor y = matmul(x, t(weight));
  return bias.defined() ? y + bias : y;
}

namespace {

// Integers stay integers: a fraction of them would be another dtype.
Tensor times(const char* op, const char* factor, const Tensor& x, double by) {
  if (by == 1) return x;
  if (is_floating(x.dtype())) return x * Scalar(by);
  require(by == std::trunc(by) && std::fabs(by) < 0x1p53, "{}: {} must be a whole number for {}, got {}", op, factor,
          name(x.dtype()), by);
  return x * Scalar(static_cast<std::int64_t>(by));
}

// Everything in f32 or f64 and rounded once, or in integers.
Tensor added(const char* op, int rank, const Tensor& input, const Tensor& a, const Tensor& b, double beta,
             double alpha) {
  require(a.rank() == rank && b.rank() == rank && a.size(0) * (rank - 2) == b.size(0) * (rank - 2),
          "{}: needs {} of {} axes, got shapes {} and {}", op, rank == 2 ? "matrices" : "equally many matrices", rank,
          a.shape(), b.shape());
  const DType dtype = promote(promote(a.dtype(), b.dtype()), input.dtype());
  const Tensor product = wide_matmul(a, b, dtype);
  require(broadcast_shapes(op, input.shape(), product.shape()) == product.shape(),
          "{}: an input of shape {} cannot be added to a product of shape {}", op, input.shape(), product.shape());
  const Tensor scaled = times(op, "alpha", product, alpha);
  if (beta == 0) return cast(scaled, dtype);
  return cast(times(op, "beta", cast(input, product.dtype()), beta) + scaled, dtype);
}

}  // namespace

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  return added("addmm", 2, input, a, b, beta, alpha);
}
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  return added("baddbmm", 3, input, a, b, beta, alpha);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keepdim) {
  const DType dtype = promote_real(promote(a.dtype(), b.dtype()));
  const Tensor u = widen(cast(a, dtype)), v = widen(cast(b, dtype));
  return cast(norm(u - v + eps, p, -1, keepdim), dtype);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t axis, double eps) {
  const DType dtype = promote_real(promote(a.dtype(), b.dtype()));
  const Shape shape = broadcast_shapes("cosine_similarity", a.shape(), b.shape());
  const int along = normalize_axis("cosine_similarity", axis, shape.rank());
  const Tensor u = expand(widen(cast(a, dtype)), shape), v = expand(widen(cast(b, dtype)), shape);
  return cast(sum(u * v, along) / (clamp(norm(u, 2, along), eps) * clamp(norm(v, 2, along), eps)), dtype);
}

Tensor trace(const Tensor& x) {
  require(x.rank() >= 2, "trace: needs matrices, got shape {}", x.shape());
  return sum(diagonal(x, 0, -2, -1), -1);
}

// a as [a₀, 1, a₁, 1, ...] times b as [1, b₀, 1, b₁, ...].
Tensor kron(const Tensor& a, const Tensor& b) {
  const int rank = std::max(a.rank(), b.rank());
  require(rank <= Shape::kMaxRank / 2, "kron: at most {} axes, got shapes {} and {}", Shape::kMaxRank / 2, a.shape(),
          b.shape());
  std::vector<std::int64_t> of_a, of_b, sizes;
  for (int k = 0; k < rank; ++k) {
    const int i = k - (rank - a.rank()), j = k - (rank - b.rank());
    const std::int64_t m = i < 0 ? 1 : a.shape()[i], n = j < 0 ? 1 : b.shape()[j];
    of_a.insert(of_a.end(), {m, 1});
    of_b.insert(of_b.end(), {1, n});
    sizes.push_back(m * n);
  }
  return reshape(reshape(a, of_a) * reshape(b, of_b), sizes);
}

}  // namespace ebb
