// SPDX-License-Identifier: MIT
#include "ebb/nn/init.h"

#include <cmath>
#include <numbers>

#include "core/format_error.h"
#include "ebb/ops.h"

namespace ebb::nn {
namespace {

double fan_of(const Shape& shape, Fan fan) {
  const Fans f = fans(shape);
  return static_cast<double>(std::max<std::int64_t>(1, fan == Fan::in ? f.in : f.out));
}

double both_fans(const Shape& shape) {
  const Fans f = fans(shape);
  return static_cast<double>(std::max<std::int64_t>(1, f.in + f.out));
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// x with normal_cdf(x) = p, in [low, high]: bisection of a monotone function, then Newton's method. Called once per
// model.
double normal_quantile(double p, double low, double high) {
  double a = low, b = high;
  for (int k = 0; k < 12; ++k) {
    const double middle = (a + b) / 2;
    (normal_cdf(middle) < p ? a : b) = middle;
  }
  double x = (a + b) / 2;
  for (int k = 0; k < 4; ++k) {
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    x = std::clamp(x - (normal_cdf(x) - p) / density, a, b);
  }
  return x;
}

}  // namespace

Fans fans(const Shape& shape) {
  require(shape.rank() >= 2, "init: fans need at least two dimensions, [out, in, ...], got shape {}", shape);
  std::int64_t kernel = 1;
  for (int k = 2; k < shape.rank(); ++k) kernel *= shape[k];
  return {shape[1] * kernel, shape[0] * kernel};
}

Tensor uniform(const Shape& shape, double low, double high, DType dtype) {
  return low + (high - low) * rand(shape, dtype);
}
Tensor normal(const Shape& shape, double mean, double deviation, DType dtype) {
  return mean + deviation * randn(shape, dtype);
}

Tensor kaiming_normal(const Shape& shape, const KaimingOptions& o) {
  return normal(shape, 0, o.gain / std::sqrt(fan_of(shape, o.fan)), o.dtype);
}
Tensor kaiming_uniform(const Shape& shape, const KaimingOptions& o) {
  const double bound = o.gain * std::sqrt(3 / fan_of(shape, o.fan));
  return uniform(shape, -bound, bound, o.dtype);
}
Tensor xavier_normal(const Shape& shape, const XavierOptions& o) {
  return normal(shape, 0, o.gain * std::sqrt(2 / both_fans(shape)), o.dtype);
}
Tensor xavier_uniform(const Shape& shape, const XavierOptions& o) {
  const double bound = o.gain * std::sqrt(6 / both_fans(shape));
  return uniform(shape, -bound, bound, o.dtype);
}

// A = Q·R with R's diagonal positive, for A normal, makes Q uniform. R = Lᵀ where L·Lᵀ = AᵀA, hence Qᵀ = L⁻¹·Aᵀ; doing
// it a second time removes the rounding errors of the first.
Tensor orthogonal(const Shape& shape, double gain, DType dtype) {
  require(shape.rank() >= 2, "init: orthogonal needs at least two dimensions, got shape {}", shape);
  const std::int64_t rows = shape[0], columns = rows == 0 ? 0 : shape.numel() / rows;
  const std::int64_t tall = std::max(rows, columns), wide = std::min(rows, columns);
  if (wide == 0) return zeros(shape, dtype);
  Tensor q = t(randn({tall, wide}, DType::f64));  // [wide, tall]: the rows become orthogonal
  for (int round = 0; round < 2; ++round) q = triangular_solve(cholesky(matmul(q, t(q))), q).eval();
  if (rows > columns) q = t(q);
  return cast(gain * reshape(q, shape), dtype);
}

Tensor truncated_normal(const Shape& shape, const TruncatedNormalOptions& o) {
  require(o.deviation > 0, "init: the standard deviation of truncated_normal must be positive, got {}", o.deviation);
  require(o.low < o.high, "init: truncated_normal needs low < high, got {} and {}", o.low, o.high);
  const double a = (o.low - o.mean) / o.deviation, b = (o.high - o.mean) / o.deviation;
  const double from = normal_cdf(a), to = normal_cdf(b);
  require(to > from, "init: [{}, {}] is too far from the mean {} for truncated_normal", o.low, o.high, o.mean);
  std::vector<double> values = rand(shape, DType::f64).to_vector();
  for (double& x : values) x = o.mean + o.deviation * normal_quantile(from + (to - from) * x, a, b);
  return cast(from_data(values, shape), o.dtype);
}

}  // namespace ebb::nn
