// SPDX-License-Identifier: MIT
// Newton's method without ever storing a Hessian: each step solves H·d = −g by conjugate gradients, which need only
// products H·v; hvp computes those for about the price of two gradients.
#include <cmath>
#include <cstdio>

#include "ebb/ebb.h"

using namespace ebb;

namespace {

// Rosenbrock's valley in n dimensions: Σ 100·(x_{i+1} − x_i²)² + (1 − x_i)², minimal at (1, ..., 1).
Tensor rosenbrock(const Tensor& x) {
  const Tensor here = x.slice(0, 0, -1), next = x.slice(0, 1, x.size(0));
  return sum(100.0 * square(next - square(here)) + square(1.0 - here));
}

// d with H·d ≈ −g. Stops early where the curvature is not positive, as Newton-CG does.
Tensor newton_direction(const Tensor& x, const Tensor& g, int* products) {
  Tensor d = zeros_like(g), r = -g, p = r;
  double rr = dot(r, r).item();
  const double enough = rr * std::min(0.25, std::sqrt(rr));
  for (int k = 0; k < 2 * static_cast<int>(g.numel()) && rr > enough; ++k, ++*products) {
    const Tensor hp = hvp(rosenbrock, x, p);
    const double curvature = dot(p, hp).item();
    if (curvature <= 0) return k == 0 ? -g : d;
    const double a = rr / curvature;
    d = d + a * p;
    r = (r - a * hp).eval();
    const double rr_new = dot(r, r).item();
    p = (r + rr_new / rr * p).eval();
    rr = rr_new;
  }
  return d.eval();
}

}  // namespace

int main() {
  const std::int64_t n = 20;
  Tensor x = full({n}, -0.5, DType::f64);
  const auto value_and_gradient = value_and_grad(rosenbrock);
  std::puts("step          f        |gradient|   products H·v");
  for (int step = 0; step < 100; ++step) {
    auto [f, g] = value_and_gradient(x);
    const double fx = f.item(), size = norm(g).item();
    int products = 0;
    if (size > 1e-9) {
      const Tensor d = newton_direction(x, g, &products);
      const double slope = dot(g, d).item();
      double t = 1;  // halved until the value falls
      while (t > 1e-10 && rosenbrock(x + t * d).item() > fx + 1e-4 * t * slope) t /= 2;
      x = (x + t * d).eval();
    }
    if (step % 5 == 0 || size <= 1e-9) std::printf("%4d   %.6e   %.3e   %d\n", step, fx, size, products);
    if (size <= 1e-9) break;
  }
  const double distance = max(abs(x - 1.0)).item();
  std::printf("\nlargest distance from (1, ..., 1): %.1e\n", distance);
  return distance < 1e-8 ? 0 : 1;
}
