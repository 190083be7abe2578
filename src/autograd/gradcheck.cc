// SPDX-License-Identifier: MIT
#include "ebb/gradcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>

#include "core/format_error.h"
#include "core/random.h"
#include "ebb/ops.h"

namespace ebb {
namespace {

struct Tolerance {
  double rtol, atol;
};

Tolerance tolerance_of(DType dtype, const GradcheckOptions& o) {
  Tolerance t{1e-6, 1e-8};
  if (dtype == DType::f32) t = {1e-5, 1e-6};
  if (dtype == DType::f16) t = {1e-2, 1e-3};
  if (dtype == DType::bf16) t = {2e-2, 1e-2};
  if (o.rtol >= 0) t.rtol = o.rtol;
  if (o.atol >= 0) t.atol = o.atol;
  return t;
}

// Makes every evaluation of f draw the same random numbers: a different dropout mask would look like a wrong gradient.
class SameRandom {
 public:
  SameRandom() : start_(random_state()) {}
  void rewind() { random_state() = start_; }

 private:
  RandomState start_;
};

// Numbers in (−1.5, −0.5) or (0.5, 1.5): none so small that it hides an error.
Tensor random_cotangent(std::mt19937_64& generator, const Shape& shape, DType dtype) {
  std::vector<double> v(static_cast<std::size_t>(shape.numel()));
  for (double& x : v) {
    const double u = static_cast<double>(generator() >> 11) * 0x1p-53;
    x = u < 0.5 ? 2 * u - 1.5 : 2 * u - 0.5;
  }
  return cast(from_data(v, shape), dtype);
}

double dot(const std::vector<double>& cotangent, const std::vector<double>& above, const std::vector<double>& below) {
  double total = 0;
  for (std::size_t k = 0; k < cotangent.size(); ++k) total += cotangent[k] * (above[k] - below[k]);
  return total;
}

Tensor in_f64(const Tensor& x) { return is_floating(x.dtype()) ? cast(x, DType::f64).eval() : x; }

// d sum(f(xs)·cotangent) / d xs[which], all in f64.
std::vector<double> differences(const FunctionOfMany& f, const std::vector<Tensor>& xs, std::size_t which,
                                const std::vector<double>& cotangent, const GradcheckOptions& o) {
  const double relative = o.step > 0 ? o.step : std::cbrt(std::numeric_limits<double>::epsilon());
  std::vector<Tensor> moved;
  for (const Tensor& x : xs) moved.push_back(in_f64(x));
  const std::vector<double> at = moved[which].to_vector();
  SameRandom random;
  auto value_at = [&](std::size_t i, double x) {
    random.rewind();
    std::vector<double> v = at;
    v[i] = x;
    moved[which] = from_data(v, xs[which].shape()).to(xs[which].device());
    return f(moved).to_vector();
  };
  std::vector<double> slope(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double h = relative * std::max(1.0, std::abs(at[i]));
    const double above = at[i] + h, below = at[i] - h;  // rounded: x moved by their difference, not by 2h
    slope[i] = dot(cotangent, value_at(i, above), value_at(i, below)) / (above - below);
  }
  return slope;
}

std::vector<std::int64_t> position(const Shape& shape, std::int64_t linear) {
  std::vector<std::int64_t> p(static_cast<std::size_t>(shape.rank()));
  for (int d = shape.rank(); d-- > 0;) {
    p[static_cast<std::size_t>(d)] = linear % shape[d];
    linear /= shape[d];
  }
  return p;
}

// How far beyond its tolerance an element is: at most 1 passes. Equal infinities agree, a NaN agrees with nothing.
double badness(double analytic, double numeric, double tolerance) {
  if (analytic == numeric) return 0;
  const double r = std::abs(analytic - numeric) / tolerance;
  return std::isnan(r) ? std::numeric_limits<double>::infinity() : r;
}

GradcheckReport::Row compare(std::string input, const Tensor& x, const std::vector<double>& analytic,
                             const std::vector<double>& numeric, const GradcheckOptions& o) {
  GradcheckReport::Row row;
  row.input = std::move(input);
  row.dtype = x.dtype();
  row.shape = x.shape();
  const Tolerance t = tolerance_of(x.dtype(), o);
  double worst = -1;
  for (std::size_t i = 0; i < numeric.size(); ++i) {
    const double tolerance = t.atol + t.rtol * std::abs(numeric[i]);
    const double b = badness(analytic[i], numeric[i], tolerance);
    if (b <= worst) continue;
    worst = b;
    row.worst = position(x.shape(), static_cast<std::int64_t>(i));
    row.analytic = analytic[i];
    row.numeric = numeric[i];
    row.tolerance = tolerance;
  }
  row.passed = worst <= 1;
  return row;
}

// `last` is the name of the last input, if it is not one of the caller's.
GradcheckReport check(const FunctionOfMany& f, const std::vector<Tensor>& inputs, const GradcheckOptions& o,
                      const char* last) {
  std::vector<std::size_t> floating;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require(inputs[i].defined(), "check_gradients: input {} has no value", i);
    if (is_floating(inputs[i].dtype())) floating.push_back(i);
  }
  require(!floating.empty(), Error::Kind::type, "check_gradients: none of the {} inputs has a floating dtype",
          inputs.size());

  SameRandom random;
  std::mt19937_64 generator(o.seed);
  std::vector<Tensor> at;
  for (std::size_t i : floating) at.push_back(inputs[i]);
  auto with = [&](const std::vector<Tensor>& moved) {
    std::vector<Tensor> all = inputs;
    for (std::size_t k = 0; k < floating.size(); ++k) all[floating[k]] = moved[k];
    return f(all);
  };
  std::vector<double> weights;
  const std::vector<Tensor> analytic = grad(FunctionOfMany([&](const std::vector<Tensor>& xs) {
    random.rewind();
    const Tensor y = with(xs);
    const Tensor cotangent = random_cotangent(generator, y.shape(), y.dtype()).to(y.device());
    weights = cotangent.to_vector();
    // In f64: the check must not fail because of summation in half precision.
    return sum(cast(y, DType::f64) * cast(cotangent, DType::f64));
  }))(at);

  GradcheckReport report;
  for (std::size_t k = 0; k < floating.size(); ++k) {
    random.rewind();
    const bool is_last = last != nullptr && k + 1 == floating.size();
    report.rows.push_back(compare(is_last ? last : fmt::format("input {}", floating[k]), at[k], analytic[k].to_vector(),
                                  differences(f, inputs, floating[k], weights, o), o));
  }
  random.rewind();
  return report;
}

void require_passed(const char* what, const GradcheckReport& report) {
  require(report.passed(), "{}: the gradient differs from central differences\n{}", what, report.str());
}

FunctionOfMany of_many(const Function& f) {
  return [f](const std::vector<Tensor>& xs) { return f(xs[0]); };
}

}  // namespace

bool GradcheckReport::passed() const {
  return std::all_of(rows.begin(), rows.end(), [](const Row& r) { return r.passed; });
}

std::string GradcheckReport::str() const {
  std::vector<std::vector<std::string>> cells{
      {"", "dtype", "shape", "worst at", "analytic", "numeric", "difference", "tolerance", ""}};
  for (const Row& r : rows) {
    cells.push_back({r.input, std::string(name(r.dtype)), r.shape.str(), fmt::format("[{}]", fmt::join(r.worst, ", ")),
                     fmt::format("{:.9g}", r.analytic), fmt::format("{:.9g}", r.numeric),
                     fmt::format("{:.2e}", std::abs(r.analytic - r.numeric)), fmt::format("{:.2e}", r.tolerance),
                     r.passed ? "passed" : "FAILED"});
  }
  std::vector<std::size_t> width(cells[0].size());
  for (const auto& line : cells) {
    for (std::size_t c = 0; c < line.size(); ++c) width[c] = std::max(width[c], line[c].size());
  }
  std::string text;
  for (const auto& line : cells) {
    std::string row;
    for (std::size_t c = 0; c < line.size(); ++c) {
      // Text is left-aligned, numbers right-aligned.
      row += c >= 4 && c <= 7 ? fmt::format("{:>{}}  ", line[c], width[c]) : fmt::format("{:<{}}  ", line[c], width[c]);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

std::ostream& operator<<(std::ostream& os, const GradcheckReport& report) { return os << report.str(); }

Tensor numerical_gradient(const Function& f, const Tensor& x, const Tensor& cotangent, const GradcheckOptions& o) {
  require(is_floating(x.dtype()), Error::Kind::type, "numerical_gradient: a tensor of {} has no gradient", x.dtype());
  std::vector<double> weights{1};
  if (cotangent.defined()) weights = cast(cotangent, DType::f64).to_vector();
  SameRandom random;
  const Shape shape = f(in_f64(x)).shape();
  random.rewind();
  require(cotangent.defined() ? cotangent.shape() == shape : shape.numel() == 1,
          "numerical_gradient: f gives shape {}; give one element or a cotangent of that shape", shape);
  return from_data(differences(of_many(f), {x}, 0, weights, o), x.shape()).to(x.device());
}

GradcheckReport check_gradients(const FunctionOfMany& f, const std::vector<Tensor>& inputs, const GradcheckOptions& o) {
  return check(f, inputs, o, nullptr);
}
GradcheckReport check_gradients(const Function& f, const Tensor& x, const GradcheckOptions& o) {
  return check_gradients(of_many(f), {x}, o);
}

// The gradient of sum(f(xs)·u) times fixed random weights is one number that depends on xs and on u.
GradcheckReport check_second_gradients(const FunctionOfMany& f, const std::vector<Tensor>& inputs,
                                       const GradcheckOptions& o) {
  SameRandom random;
  std::mt19937_64 generator(o.seed + 1);
  const Tensor y = f(inputs);
  random.rewind();
  std::vector<Tensor> all = inputs;
  all.push_back(random_cotangent(generator, y.shape(), y.dtype()).to(y.device()).eval());
  std::vector<std::size_t> floating;
  std::vector<Tensor> weights;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    floating.push_back(i);
    weights.push_back(random_cotangent(generator, inputs[i].shape(), DType::f64).to(inputs[i].device()).eval());
  }
  const FunctionOfMany weighted_gradient = [=](const std::vector<Tensor>& xs) {
    std::vector<Tensor> at;
    for (std::size_t i : floating) at.push_back(xs[i]);
    const std::vector<Tensor> g = grad(FunctionOfMany([&](const std::vector<Tensor>& moved) {
      std::vector<Tensor> operands(xs.begin(), xs.end() - 1);
      for (std::size_t k = 0; k < floating.size(); ++k) operands[floating[k]] = moved[k];
      return sum(cast(f(operands), DType::f64) * cast(xs.back(), DType::f64));
    }))(at);
    Tensor total = zeros(Shape{}, DType::f64);
    for (std::size_t k = 0; k < g.size(); ++k) total = total + sum(cast(g[k], DType::f64) * weights[k]);
    return total;
  };
  return check(weighted_gradient, all, o, "cotangent");
}
GradcheckReport check_second_gradients(const Function& f, const Tensor& x, const GradcheckOptions& o) {
  return check_second_gradients(of_many(f), {x}, o);
}

void require_gradients(const FunctionOfMany& f, const std::vector<Tensor>& inputs, const GradcheckOptions& o) {
  require_passed("check_gradients", check_gradients(f, inputs, o));
}
void require_gradients(const Function& f, const Tensor& x, const GradcheckOptions& o) {
  require_gradients(of_many(f), {x}, o);
}
void require_second_gradients(const FunctionOfMany& f, const std::vector<Tensor>& inputs, const GradcheckOptions& o) {
  require_passed("check_second_gradients", check_second_gradients(f, inputs, o));
}
void require_second_gradients(const Function& f, const Tensor& x, const GradcheckOptions& o) {
  require_second_gradients(of_many(f), {x}, o);
}

}  // namespace ebb
