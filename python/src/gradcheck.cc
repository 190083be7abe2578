// SPDX-License-Identifier: MIT
#include "ebb/gradcheck.h"

#include "bind.h"

namespace ebb::python {
namespace {

using Check = GradcheckReport (*)(const FunctionOfMany&, const std::vector<Tensor>&, const GradcheckOptions&);

GradcheckOptions options(double rtol, double atol, double step, std::uint64_t seed) {
  return {.rtol = rtol, .atol = atol, .step = step, .seed = seed};
}

// f takes the inputs as arguments.
FunctionOfMany spread(nb::callable f) {
  return [f = std::move(f)](const std::vector<Tensor>& xs) { return nb::cast<Tensor>(f(*nb::tuple(nb::cast(xs)))); };
}
std::vector<Tensor> inputs_in(nb::handle h) {
  if (const Tensor* t = tensor_in(h)) return {*t};
  return nb::cast<std::vector<Tensor>>(h);
}

}  // namespace

void bind_gradcheck(const Api& api) {
  using Row = GradcheckReport::Row;
  nb::class_<Row>(api.module, "GradcheckRow",
                  "One input that was differentiated, with the element furthest from passing.")
      .def_ro("input", &Row::input)
      .def_ro("dtype", &Row::dtype)
      .def_ro("shape", &Row::shape)
      .def_ro("worst", &Row::worst)
      .def_ro("analytic", &Row::analytic)
      .def_ro("numeric", &Row::numeric)
      .def_ro("tolerance", &Row::tolerance)
      .def_ro("passed", &Row::passed);
  nb::class_<GradcheckReport>(api.module, "GradcheckReport",
                              "Gradients held against central differences; true where all pass.")
      .def_ro("rows", &GradcheckReport::rows)
      .def_prop_ro("passed", &GradcheckReport::passed)
      .def("__bool__", &GradcheckReport::passed)
      .def("__str__", &GradcheckReport::str)
      .def("__repr__", &GradcheckReport::str);
  for (auto [name, check] : {std::pair<const char*, Check>{"check_gradients", check_gradients},
                             {"check_second_gradients", check_second_gradients}}) {
    function(
        api, name,
        [check = check](nb::callable f, nb::handle inputs, double rtol, double atol, double step, std::uint64_t seed) {
          return check(spread(std::move(f)), inputs_in(inputs), options(rtol, atol, step, seed));
        },
        "f"_a, "inputs"_a, nb::kw_only(), "rtol"_a = -1.0, "atol"_a = -1.0, "step"_a = 0.0, "seed"_a = 0);
  }
  function(
      api, "numerical_gradient",
      [](const Function& f, const Tensor& x, const Tensor* cotangent, double step, std::uint64_t seed) {
        return numerical_gradient(f, x, or_none(cotangent), options(-1, -1, step, seed));
      },
      "f"_a, "x"_a, "cotangent"_a.none() = nb::none(), nb::kw_only(), "step"_a = 0.0, "seed"_a = 0);
}

}  // namespace ebb::python
