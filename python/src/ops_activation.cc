// SPDX-License-Identifier: MIT
#include "bind.h"

namespace ebb::python {
namespace {

struct Plain {
  const char* name;
  Tensor (*f)(const Tensor&);
};
constexpr Plain kPlain[] = {{"sigmoid", sigmoid},
                            {"log_sigmoid", log_sigmoid},
                            {"logsigmoid", log_sigmoid},
                            {"relu", relu},
                            {"relu6", relu6},
                            {"hardsigmoid", hardsigmoid},
                            {"hardswish", hardswish},
                            {"selu", selu},
                            {"silu", silu},
                            {"mish", mish},
                            {"softsign", softsign},
                            {"tanhshrink", tanhshrink}};

struct WithNumber {
  const char *name, *parameter;
  double otherwise;
  Tensor (*f)(const Tensor&, double);
};
constexpr WithNumber kWithNumber[] = {{"softplus", "beta", 1, softplus},
                                      {"leaky_relu", "negative_slope", 0.01, leaky_relu},
                                      {"hardshrink", "lambd", 0.5, hardshrink},
                                      {"softshrink", "lambd", 0.5, softshrink},
                                      {"elu", "alpha", 1, elu},
                                      {"celu", "alpha", 1, celu}};

struct Along {
  const char* name;
  Tensor (*f)(const Tensor&, int);
};
constexpr Along kAlong[] = {{"softmax", softmax}, {"log_softmax", log_softmax},
                            {"glu", glu},         {"swiglu", swiglu},
                            {"geglu", geglu},     {"reglu", reglu}};

}  // namespace

GeluForm gelu_form(const std::string& approximate) {
  if (approximate == "none") return GeluForm::exact;
  if (approximate == "tanh") return GeluForm::tanh;
  throw Error("gelu: approximate is 'none' or 'tanh', got '" + approximate + "'");
}

void bind_activation(const Api& api) {
  for (const Plain& p : kPlain) both(api, p.name, p.f);
  for (const WithNumber& w : kWithNumber) both(api, w.name, w.f, nb::arg(w.parameter) = w.otherwise);
  for (const Along& a : kAlong) both(api, a.name, a.f, "axis"_a = -1);
  both(api, "logit", logit, "eps"_a.none() = nb::none());
  function(api, "prelu", prelu, "x"_a, "weight"_a);
  function(api, "hardtanh", hardtanh, "x"_a, "min_val"_a = -1.0, "max_val"_a = 1.0);
  function(api, "threshold", threshold, "x"_a, "threshold"_a, "value"_a);
  both(
      api, "gelu", [](const Tensor& x, const std::string& approximate) { return gelu(x, gelu_form(approximate)); },
      "approximate"_a = "none");
  function(
      api, "gumbel_softmax",
      [](const Tensor& logits, double tau, bool hard, int axis) {
        return gumbel_softmax(logits, {.tau = tau, .hard = hard, .axis = axis});
      },
      "logits"_a, "tau"_a = 1.0, "hard"_a = false, nb::kw_only(), "axis"_a = -1);
  function(api, "dropout", dropout, "x"_a, "p"_a = 0.5, "training"_a = true);
}

}  // namespace ebb::python
