// SPDX-License-Identifier: MIT
#include "cpu/tile/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/focal_by_hand.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "cpu/tile/math-inl.h"
#include "worker/by_hand.h"

HWY_BEFORE_NAMESPACE();
namespace bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace math = ebb::cpu::HWY_NAMESPACE;

// z = x where y is 1 and −x where it is 0, q = sigmoid(z), r = 1 − q:
//   loss = −α·r²·log q        d loss/dx = ±α·r²·(2q·log q − r), from dq/dz = q·r
// One exp, one log and one division an element; everything stays in registers. Vectors with an extreme logit take the
// functions' full range, the others their plain case, as Ebb's own loops do.
float focal_part(const float* x, const float* y, std::size_t n, float alpha, float scale, float* grad) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f), a = hn::Set(d, alpha), s = hn::Set(d, alpha * scale);
  const std::size_t lanes = hn::Lanes(d);
  auto total = hn::Zero(d);
  const auto step = [&](auto vx, auto vy, auto& gradient) HWY_ATTR {
    const auto positive = hn::Gt(vy, half);
    const auto z = hn::IfThenElse(positive, vx, hn::Neg(vx));
    const auto minus_z = hn::Neg(z);
    const bool plain = hn::AllTrue(d, math::exp_is_normal(d, minus_z));
    const auto e = HWY_LIKELY(plain) ? math::exp_normal(d, minus_z) : math::exp(d, minus_z);
    const auto q = hn::Div(one, hn::Add(one, e));
    const auto r = hn::Sub(one, q), r2 = hn::Mul(r, r),
               log_q = HWY_LIKELY(plain) ? math::log_normal(d, q) : math::log(d, q);
    const auto g = hn::Mul(hn::Mul(s, r2), hn::MulSub(hn::Add(q, q), log_q, r));
    gradient = hn::IfThenElse(positive, g, hn::Neg(g));
    return hn::Mul(r2, log_q);
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto gradient = hn::Zero(d);
    total = hn::NegMulAdd(a, step(hn::LoadU(d, x + i), hn::LoadU(d, y + i), gradient), total);
    if (grad) hn::StoreU(gradient, d, grad + i);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, total));
  for (; i < n; ++i) {
    auto gradient = hn::Zero(d);
    sum -= alpha * hn::GetLane(step(hn::Set(d, x[i]), hn::Set(d, y[i]), gradient));
    if (grad) grad[i] = hn::GetLane(gradient);
  }
  return sum;
}

}  // namespace bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bench {
namespace {
HWY_EXPORT(focal_part);
}

float focal_by_hand(const float* x, const float* y, std::int64_t n, float alpha, float* grad) {
  constexpr std::int64_t kPart = 1 << 15;
  const std::int64_t parts = (n + kPart - 1) / kPart;
  std::vector<float> sums(static_cast<std::size_t>(parts));
  const auto part = HWY_DYNAMIC_DISPATCH(focal_part);
  ebb::parallel_for(parts, [&](std::int64_t k) {
    const std::int64_t start = k * kPart, length = std::min(kPart, n - start);
    sums[static_cast<std::size_t>(k)] = part(x + start, y + start, static_cast<std::size_t>(length), alpha,
                                             1.0f / static_cast<float>(n), grad ? grad + start : nullptr);
  });
  double total = 0;
  for (float sum : sums) total += sum;
  return static_cast<float>(total / static_cast<double>(n));
}

}  // namespace bench
#endif
