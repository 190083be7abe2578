// SPDX-License-Identifier: MIT
#include "calls/fp8_product.h"

#include <fmt/format.h>

#include "core/format_error.h"
#include "ebb/ops/fp8.h"

namespace ebb {
namespace {

// A factor x has an error δ(x) ≤ u·|x| + t·max|x|, where u is half a unit in the last place and t comes from numbers
// below the least one: half of that, times a scale of less than max|x| / (largest / 2).
//   Σ|(a+δa)(b+δb) − ab| ≤ (u+v+uv)·Σ|ab| + t(1+v)·max|a|·Σ|b| + s(1+u)·max|b|·Σ|a| + k·s·t·max|a|·max|b|
// and k·s·t·max|a|·max|b| ≤ k·s·t·max|a|·Σ|b|.
Fp8ErrorBound bound_of(const Fp8Format& a, const Fp8Format& b, std::int64_t k, DType result) {
  const auto tiny = [](const Fp8Format& f) { return f.least() / f.largest(); };
  const double u = a.roundoff(), v = b.roundoff(), t = tiny(a), s = tiny(b), n = static_cast<double>(k);
  const double summing = n * 0x1p-18, rounding = result == DType::bf16  ? 0x1p-8
                                                 : result == DType::f16 ? 0x1p-11
                                                                        : 0x1p-23;
  const double grows = (1 + summing) * (1 + rounding);
  return {(1 + u) * (1 + v) * grows - 1, t * (1 + v + n * s) * grows, s * (1 + u) * grows};
}

}  // namespace

Fp8ErrorBound fp8_error_bound(std::int64_t k, DType result, bool gradient) {
  require(k >= 0, "fp8_error_bound: a sum has no {} products", k);
  return bound_of(fp8_format(gradient), kE4M3, k, result);
}

std::string describe_error(const Fp8Product& p, std::int64_t k, DType result) {
  const auto name = [](bool e5m2) { return e5m2 ? "e5m2" : "e4m3"; };
  const Fp8ErrorBound e = bound_of(fp8_format(p.left_e5m2), fp8_format(p.right_e5m2), k, result);
  return fmt::format("{} x {}, error <= {:.3f} sum|ab| + {:.1e} max|a| sum|b| + {:.1e} max|b| sum|a|",
                     name(p.left_e5m2), name(p.right_e5m2), e.products, e.left, e.right);
}

}  // namespace ebb
