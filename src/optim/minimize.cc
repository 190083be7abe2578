// SPDX-License-Identifier: MIT
#include "ebb/optim/minimize.h"

#include <cmath>
#include <deque>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"

namespace ebb::optim {
namespace {

// A point of the search: value and gradient at a flat x, both computed.
struct Point {
  Tensor x, gradient;
  double value = 0;
};
using Oracle = std::function<Point(const Tensor& x)>;

double inner(const Tensor& a, const Tensor& b) { return sum(a * b).item(); }
double largest(const Tensor& g) { return g.numel() == 0 ? 0 : max(abs(g)).item(); }

// The minimum of the cubic through two values and slopes, kept away from the ends of the interval; its midpoint if
// there is none.
double cubic_minimum(double a, double fa, double ga, double b, double fb, double gb) {
  const double d1 = ga + gb - 3 * (fa - fb) / (a - b);
  const double inside = d1 * d1 - ga * gb;
  const double low = std::min(a, b), high = std::max(a, b), margin = 0.1 * (high - low);
  if (!(inside >= 0)) return (a + b) / 2;
  const double d2 = std::copysign(std::sqrt(inside), b - a);
  const double t = b - (b - a) * (gb + d2 - d1) / (gb - ga + 2 * d2);
  if (!std::isfinite(t)) return (a + b) / 2;
  return std::clamp(t, low + margin, high - margin);
}

// A step length that satisfies the strong Wolfe conditions: an interval that must contain one is found by
// extrapolation, then narrowed. The best point seen is returned if the evaluations run out.
class LineSearch {
 public:
  LineSearch(const Oracle& oracle, const Point& start, const Tensor& direction, const LbfgsOptions& o)
      : oracle_(oracle), start_(start), direction_(direction), o_(o), slope0_(inner(start.gradient, direction)) {}

  Point run(double length) {
    Trial before{0, start_, slope0_};
    for (int k = 0; k < 25; ++k) {
      Trial now = at(length);
      if (!std::isfinite(now.point.value)) {  // outside the function's domain: come back
        length = (before.length + length) / 2;
        continue;
      }
      if (too_high(now) || (k > 0 && now.point.value >= before.point.value)) return narrow(before, now);
      if (std::abs(now.slope) <= -o_.c2 * slope0_) return now.point;
      if (now.slope >= 0) return narrow(now, before);
      before = now;
      length *= 2;
    }
    return before.point;
  }

 private:
  struct Trial {
    double length;
    Point point;
    double slope;
  };
  Trial at(double length) const {
    Point p = oracle_((start_.x + length * direction_).eval());
    const double slope = inner(p.gradient, direction_);
    return {length, std::move(p), slope};
  }
  bool too_high(const Trial& t) const { return t.point.value > start_.value + o_.c1 * t.length * slope0_; }

  // `low` has the lowest value so far and descends towards `high`.
  Point narrow(Trial low, Trial high) const {
    for (int k = 0; k < 25 && std::abs(high.length - low.length) * std::abs(slope0_) > 1e-18; ++k) {
      const double t = cubic_minimum(low.length, low.point.value, low.slope, high.length, high.point.value, high.slope);
      Trial now = at(t);
      if (too_high(now) || !(now.point.value < low.point.value)) {
        high = std::move(now);
        continue;
      }
      if (std::abs(now.slope) <= -o_.c2 * slope0_) return now.point;
      if (now.slope * (high.length - low.length) >= 0) high = low;
      low = std::move(now);
    }
    return low.point;
  }

  const Oracle& oracle_;
  const Point& start_;
  const Tensor& direction_;
  const LbfgsOptions& o_;
  double slope0_;
};

// Pairs s = change of x, y = change of the gradient; computes −H·g without ever storing H.
class InverseHessian {
 public:
  explicit InverseHessian(int limit) : limit_(static_cast<std::size_t>(limit)) {}
  void add(const Tensor& s, const Tensor& y) {
    const double sy = inner(s, y);
    if (sy <= 1e-10 * inner(y, y)) return;  // the curvature along s is not positive enough to be useful
    if (pairs_.size() == limit_) pairs_.pop_front();
    pairs_.push_back({s, y, 1 / sy});
    scale_ = sy / inner(y, y);
  }
  bool empty() const { return pairs_.empty(); }
  void clear() { pairs_.clear(); }
  Tensor direction(const Tensor& g) const {
    Tensor q = g;
    std::vector<double> alpha(pairs_.size());
    for (std::size_t k = pairs_.size(); k-- > 0;) {
      alpha[k] = pairs_[k].rho * inner(pairs_[k].s, q);
      q = (q - alpha[k] * pairs_[k].y).eval();
    }
    if (!pairs_.empty()) q = scale_ * q;
    for (std::size_t k = 0; k < pairs_.size(); ++k) {
      const double beta = pairs_[k].rho * inner(pairs_[k].y, q);
      q = (q + (alpha[k] - beta) * pairs_[k].s).eval();
    }
    return (-q).eval();
  }

 private:
  struct Pair {
    Tensor s, y;
    double rho;
  };
  std::deque<Pair> pairs_;
  std::size_t limit_;
  double scale_ = 1;
};

Minimum lbfgs(const Oracle& counted, const Tensor& x0, const LbfgsOptions& o) {
  require(o.history > 0, "minimize_lbfgs: history must be positive, got {}", o.history);
  Minimum result;
  const Oracle oracle = [&](const Tensor& x) {
    ++result.evaluations;
    return counted(x);
  };
  Point here = oracle(x0);
  InverseHessian curvature(o.history);
  for (; result.iterations < o.max_iterations; ++result.iterations) {
    if (largest(here.gradient) <= o.tolerance) break;
    Tensor d = curvature.direction(here.gradient);
    if (inner(d, here.gradient) >= 0) {  // rounding has spoilt it
      curvature.clear();
      d = (-here.gradient).eval();
    }
    // Without a history the size of the gradient says nothing about the distance to go.
    const double first = curvature.empty() ? std::min(1.0, 1 / sum(abs(here.gradient)).item()) : 1;
    Point next = LineSearch(oracle, here, d, o).run(first);
    curvature.add((next.x - here.x).eval(), (next.gradient - here.gradient).eval());
    const double change = here.value - next.value;
    here = std::move(next);
    if (std::abs(change) <= o.change_tolerance * std::max(1.0, std::abs(here.value))) break;
  }
  result.x = here.x;
  result.value = here.value;
  result.gradient_norm = largest(here.gradient);
  result.converged = result.iterations < o.max_iterations;
  return result;
}

Oracle oracle_of(const Function& f) {
  return [pair = value_and_grad(f)](const Tensor& x) {
    auto [value, gradient] = pair(x);
    eval({value, gradient});
    return Point{x, gradient, value.item()};
  };
}

}  // namespace

Minimum minimize_lbfgs(const Function& f, const Tensor& x, const LbfgsOptions& options) {
  return lbfgs(oracle_of(f), stop_gradient(x), options);
}

Minimum minimize_lbfgs(const std::function<Tensor()>& loss, const Parameters& parameters, const LbfgsOptions& options) {
  require(!parameters.empty(), "minimize_lbfgs: there are no parameters");
  const auto place = [&](const Tensor& flat) {
    std::int64_t at = 0;
    for (const Parameter& p : parameters) {
      const std::int64_t n = p.tensor->numel();
      *p.tensor = variable(cast(reshape(narrow(flat, 0, at, n), p.tensor->shape()), p.tensor->dtype()));
      at += n;
    }
  };
  const auto joined = [&](const auto& part) {
    std::vector<Tensor> flat;
    for (const Parameter& p : parameters) flat.push_back(reshape(widen(part(*p.tensor)), {-1}));
    return cat(flat);
  };
  const Oracle oracle = [&](const Tensor& x) {
    place(x);
    const Tensor value = loss();
    const Gradients g = backward(value);
    const Tensor gradient = joined([&](const Tensor& p) { return g[p]; });
    eval({value, gradient});
    return Point{x, gradient, value.item()};
  };
  Minimum m = lbfgs(oracle, joined([](const Tensor& p) { return stop_gradient(p); }).eval(), options);
  place(m.x);
  return m;
}

namespace {

// d with H·d ≈ −g (Nocedal and Wright, algorithm 7.1).
Tensor newton_direction(const Function& f, const Tensor& x, const Tensor& g, int limit, Minimum& count) {
  Tensor d = zeros_like(g), r = (-g).eval(), p = r;
  double rr = inner(r, r);
  const double enough = rr * std::min(0.25, std::sqrt(rr));  // of ‖r‖²: superlinear convergence
  for (int k = 0; k < limit && rr > enough; ++k) {
    const Tensor hp = hvp(f, x, p).eval();
    ++count.products;
    const double curvature = inner(p, hp);
    if (curvature <= 0) return k == 0 ? r : d;
    const double a = rr / curvature;
    d = (d + a * p).eval();
    r = (r - a * hp).eval();
    const double next = inner(r, r);
    p = (r + (next / rr) * p).eval();
    rr = next;
  }
  return d.eval();
}

}  // namespace

Minimum minimize_newton_cg(const Function& f, const Tensor& start, const NewtonCgOptions& o) {
  Minimum result;
  const Oracle oracle = oracle_of(f);
  Point here = oracle(stop_gradient(start));
  ++result.evaluations;
  const int limit =
      o.max_products > 0 ? o.max_products : static_cast<int>(std::min<std::int64_t>(2 * start.numel(), 1 << 20));
  for (; result.iterations < o.max_iterations; ++result.iterations) {
    if (largest(here.gradient) <= o.tolerance) break;
    const Tensor d = newton_direction(f, here.x, here.gradient, limit, result);
    const double slope = inner(here.gradient, d);
    double length = 1;
    Point next;
    for (; length > 1e-12; length /= 2) {
      next = oracle((here.x + length * d).eval());
      ++result.evaluations;
      if (next.value <= here.value + o.c1 * length * slope) break;
    }
    if (length <= 1e-12) break;  // no further down in this precision
    here = std::move(next);
  }
  result.x = here.x;
  result.value = here.value;
  result.gradient_norm = largest(here.gradient);
  result.converged = result.gradient_norm <= o.tolerance;
  return result;
}

}  // namespace ebb::optim
