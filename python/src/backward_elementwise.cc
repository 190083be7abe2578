// SPDX-License-Identifier: MIT
#include "ebb/backward.h"
#include "options.h"

// The gradient rules of arithmetic, functions of one number and activations.
namespace ebb::python {
namespace {

struct OfGrad {
  const char* name;
  Tensor (*f)(const Tensor&);
};
constexpr OfGrad kOfGrad[] = {{"neg_backward", neg_backward},     {"sign_backward", sign_backward},
                              {"floor_backward", floor_backward}, {"ceil_backward", ceil_backward},
                              {"round_backward", round_backward}, {"trunc_backward", trunc_backward},
                              {"frac_backward", frac_backward}};

// y: the result of the operation, x: its operand.
struct OfOne {
  const char *name, *operand;
  Tensor (*f)(const Tensor&, const Tensor&);
};
constexpr OfOne kOfOne[] = {{"reciprocal_backward", "y", reciprocal_backward},
                            {"square_backward", "x", square_backward},
                            {"abs_backward", "x", abs_backward},
                            {"exp_backward", "y", exp_backward},
                            {"exp2_backward", "y", exp2_backward},
                            {"expm1_backward", "x", expm1_backward},
                            {"rsqrt_backward", "y", rsqrt_backward},
                            {"cbrt_backward", "y", cbrt_backward},
                            {"sin_backward", "x", sin_backward},
                            {"cos_backward", "x", cos_backward},
                            {"tan_backward", "y", tan_backward},
                            {"asin_backward", "x", asin_backward},
                            {"acos_backward", "x", acos_backward},
                            {"atan_backward", "x", atan_backward},
                            {"sinh_backward", "x", sinh_backward},
                            {"cosh_backward", "x", cosh_backward},
                            {"tanh_backward", "y", tanh_backward},
                            {"asinh_backward", "x", asinh_backward},
                            {"acosh_backward", "x", acosh_backward},
                            {"atanh_backward", "x", atanh_backward},
                            {"erf_backward", "x", erf_backward},
                            {"erfc_backward", "x", erfc_backward},
                            {"lgamma_backward", "x", lgamma_backward},
                            {"digamma_backward", "x", digamma_backward},
                            {"sigmoid_backward", "y", sigmoid_backward},
                            {"log_sigmoid_backward", "x", log_sigmoid_backward},
                            {"relu_backward", "x", relu_backward},
                            {"relu6_backward", "x", relu6_backward},
                            {"hardsigmoid_backward", "x", hardsigmoid_backward},
                            {"hardswish_backward", "x", hardswish_backward},
                            {"selu_backward", "x", selu_backward},
                            {"silu_backward", "x", silu_backward},
                            {"mish_backward", "x", mish_backward},
                            {"softsign_backward", "x", softsign_backward},
                            {"tanhshrink_backward", "x", tanhshrink_backward}};

struct WithPole {
  const char *name, *operand;
  Tensor (*f)(const Tensor&, const Tensor&, double);
};
constexpr WithPole kWithPole[] = {{"log_backward", "x", log_backward},
                                  {"log2_backward", "x", log2_backward},
                                  {"log10_backward", "x", log10_backward},
                                  {"log1p_backward", "x", log1p_backward},
                                  {"sqrt_backward", "y", sqrt_backward}};

struct OfTwoBackward {
  const char *name, *first, *second;
  TensorPair (*f)(const Tensor&, const Tensor&, const Tensor&);
};
constexpr OfTwoBackward kOfTwoBackward[] = {{"add_backward", "a", "b", add_backward},
                                            {"sub_backward", "a", "b", sub_backward},
                                            {"mul_backward", "a", "b", mul_backward},
                                            {"floor_divide_backward", "a", "b", floor_divide_backward},
                                            {"remainder_backward", "a", "b", remainder_backward},
                                            {"maximum_backward", "a", "b", maximum_backward},
                                            {"minimum_backward", "a", "b", minimum_backward},
                                            {"atan2_backward", "y", "x", atan2_backward},
                                            {"hypot_backward", "a", "b", hypot_backward},
                                            {"xlogy_backward", "x", "y", xlogy_backward},
                                            {"prelu_backward", "x", "weight", prelu_backward}};

struct OfThree {
  const char *name, *first, *second, *third;
  TensorTriple (*f)(const Tensor&, const Tensor&, const Tensor&, const Tensor&);
};
constexpr OfThree kOfThree[] = {{"fma_backward", "x", "m", "a", fma_backward},
                                {"affine_backward", "x", "m", "a", affine_backward},
                                {"lerp_backward", "start", "end", "weight", lerp_backward}};

struct WithNumberBackward {
  const char *name, *parameter;
  double otherwise;
  Tensor (*f)(const Tensor&, const Tensor&, TensorOrScalar);
};
constexpr WithNumberBackward kWithNumberBackward[] = {
    {"softplus_backward", "beta", 1, softplus_backward},
    {"leaky_relu_backward", "negative_slope", 0.01, leaky_relu_backward},
    {"hardshrink_backward", "lambd", 0.5, hardshrink_backward},
    {"softshrink_backward", "lambd", 0.5, softshrink_backward},
    {"elu_backward", "alpha", 1, elu_backward},
    {"celu_backward", "alpha", 1, celu_backward}};

struct AlongBackward {
  const char *name, *operand;
  Tensor (*f)(const Tensor&, const Tensor&, int);
};
constexpr AlongBackward kAlongBackward[] = {
    {"softmax_backward", "y", softmax_backward}, {"log_softmax_backward", "y", log_softmax_backward},
    {"glu_backward", "x", glu_backward},         {"swiglu_backward", "x", swiglu_backward},
    {"geglu_backward", "x", geglu_backward},     {"reglu_backward", "x", reglu_backward}};

}  // namespace

void bind_elementwise_backward(const Api& api) {
  for (const OfGrad& r : kOfGrad) function(api, r.name, r.f, "grad"_a);
  for (const OfOne& r : kOfOne) function(api, r.name, r.f, "grad"_a, nb::arg(r.operand));
  for (const WithPole& r : kWithPole) function(api, r.name, r.f, "grad"_a, nb::arg(r.operand), "eps"_a = 0.0);
  for (const OfTwoBackward& r : kOfTwoBackward)
    function(api, r.name, r.f, "grad"_a, nb::arg(r.first), nb::arg(r.second));
  for (const OfThree& r : kOfThree)
    function(api, r.name, r.f, "grad"_a, nb::arg(r.first), nb::arg(r.second), nb::arg(r.third));
  for (const WithNumberBackward& r : kWithNumberBackward)
    function(api, r.name, r.f, "grad"_a, "x"_a, nb::arg(r.parameter) = r.otherwise);
  for (const AlongBackward& r : kAlongBackward) function(api, r.name, r.f, "grad"_a, nb::arg(r.operand), "axis"_a = -1);
  function(api, "div_backward", div_backward, "grad"_a, "a"_a, "b"_a, "eps"_a = 0.0);
  function(
      api, "pow_backward",
      [](const Tensor& grad, const Tensor& base, TensorOrScalar exponent) -> nb::object {
        if (!exponent.is_tensor()) return nb::cast(pow_backward(grad, base, exponent.scalar()));
        return nb::cast(pow_backward(grad, base, exponent.tensor()));
      },
      "grad"_a, "base"_a, "exponent"_a);
  function(api, "polygamma_backward", polygamma_backward, "grad"_a, "n"_a, "x"_a);
  function(api, "cast_backward", cast_backward, "grad"_a, "dtype"_a);
  function(api, "where_backward", where_backward, "grad"_a, "mask"_a, "a"_a, "b"_a);
  function(api, "masked_fill_backward", masked_fill_backward, "grad"_a, "mask"_a, "x"_a);
  function(api, "clamp_backward", clamp_backward, "grad"_a, "x"_a, "lo"_a.none() = nb::none(),
           "hi"_a.none() = nb::none());
  function(api, "logit_backward", logit_backward, "grad"_a, "x"_a, "eps"_a.none() = nb::none());
  function(api, "hardtanh_backward", hardtanh_backward, "grad"_a, "x"_a, "min_val"_a = -1.0, "max_val"_a = 1.0);
  function(api, "threshold_backward", threshold_backward, "grad"_a, "x"_a, "threshold"_a);
  function(
      api, "gelu_backward",
      [](const Tensor& grad, const Tensor& x, const std::string& approximate) {
        return gelu_backward(grad, x, gelu_form(approximate));
      },
      "grad"_a, "x"_a, "approximate"_a = "none");
  function(
      api, "gumbel_softmax_backward",
      [](const Tensor& grad, const Tensor& y, double tau, bool hard, int axis) {
        return gumbel_softmax_backward(grad, y, {.tau = tau, .hard = hard, .axis = axis});
      },
      "grad"_a, "y"_a, "tau"_a = 1.0, "hard"_a = false, nb::kw_only(), "axis"_a = -1);
  function(api, "dropout_backward", dropout_backward, "grad"_a, "mask"_a, "p"_a);
}

}  // namespace ebb::python
