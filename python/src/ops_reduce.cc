// SPDX-License-Identifier: MIT
#include "bind.h"

namespace ebb::python {
namespace {

struct Reduction {
  const char* name;
  Tensor (*f)(const Tensor&, const Axes&, bool);
};
constexpr Reduction kReductions[] = {{"sum", sum}, {"mean", mean}, {"prod", prod},
                                     {"max", max}, {"min", min},   {"logsumexp", logsumexp}};
constexpr Reduction kTests[] = {{"any", any}, {"all", all}};

struct Position {
  const char* name;
  Tensor (*f)(const Tensor&, std::optional<std::int64_t>, bool);
};
constexpr Position kPositions[] = {{"argmax", argmax}, {"argmin", argmin}, {"median", median}};

}  // namespace

void bind_reduce(const Api& api) {
  for (const Reduction& r : kReductions) both(api, r.name, r.f, "axis"_a.none() = nb::none(), "keepdim"_a = false);
  for (const Reduction& t : kTests)  // () names no axis; for numbers it names all, both as in PyTorch
    both(
        api, t.name,
        [f = t.f](const Tensor& x, std::optional<Axes> axis, bool keepdim) {
          return axis && axis->empty() ? cast(x, DType::bool_) : f(x, axis.value_or(Axes()), keepdim);
        },
        "axis"_a.none() = nb::none(), "keepdim"_a = false);
  for (const Position& p : kPositions) both(api, p.name, p.f, "axis"_a.none() = nb::none(), "keepdim"_a = false);
  for (auto [name, f] : {std::pair{"var", &var}, {"stddev", stddev}, {"std", stddev}}) {
    api.module.def(name, f, doc("var"), "x"_a, "axis"_a.none() = nb::none(), "keepdim"_a = false, "correction"_a = 1.0);
    api.tensor.def(name, f, doc("var"), "axis"_a.none() = nb::none(), "keepdim"_a = false, "correction"_a = 1.0);
  }
  both(api, "norm", norm, "p"_a = 2.0, "axis"_a.none() = nb::none(), "keepdim"_a = false);
  both(api, "cumsum", cumsum, "axis"_a);
  both(api, "cumprod", cumprod, "axis"_a);
  both(
      api, "quantile",
      [](const Tensor& x, double q, std::optional<std::int64_t> axis, bool keepdim) {
        return quantile(x, q, axis, keepdim);
      },
      "q"_a, "axis"_a.none() = nb::none(), "keepdim"_a = false);
  both(
      api, "quantile",
      [](const Tensor& x, const std::vector<double>& q, std::optional<std::int64_t> axis, bool keepdim) {
        return quantile(x, q, axis, keepdim);
      },
      "q"_a, "axis"_a.none() = nb::none(), "keepdim"_a = false);
}

}  // namespace ebb::python
