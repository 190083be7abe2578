// SPDX-License-Identifier: MIT
#include "ebb/backward.h"
#include "options.h"

// The gradient rules of norms, convolutions, pools and attention. Results are tuples; None where there is no gradient.
namespace ebb::python {
namespace {

template <class Gradients>
nb::tuple three(const Gradients& g) {
  return tuple_of(g.input, g.weight, g.bias);
}

using ConvolutionBackward = ConvGradients (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&);
using TransposedBackward = ConvGradients (*)(const Tensor&, const Tensor&, const Tensor&, const ConvTransposeOptions&);

struct Resized {
  const char* name;
  Tensor (*f)(const Tensor&, const Shape&);
};
constexpr Resized kResized[] = {{"adaptive_avg_pool2d_backward", adaptive_avg_pool2d_backward},
                                {"adaptive_avg_pool1d_backward", adaptive_avg_pool1d_backward},
                                {"global_avg_pool_backward", global_avg_pool_backward}};

void bind_norms_backward(const Api& api) {
  function(
      api, "layer_norm_backward",
      [](const Tensor& grad, const Tensor& x, const Shape& shape, const Tensor* weight, double eps) {
        return three(layer_norm_backward(grad, x, shape, or_none(weight), eps));
      },
      "grad"_a, "x"_a, "normalized_shape"_a, "weight"_a.none() = nb::none(), "eps"_a = 1e-5);
  function(
      api, "rms_norm_backward",
      [](const Tensor& grad, const Tensor& x, const Shape& shape, const Tensor* weight, std::optional<double> eps) {
        return rms_norm_backward(grad, x, shape, or_none(weight), eps);
      },
      "grad"_a, "x"_a, "normalized_shape"_a, "weight"_a.none() = nb::none(), "eps"_a.none() = nb::none());
  function(
      api, "batch_norm_backward",
      [](const Tensor& grad, const Tensor& x, const Tensor* mean, const Tensor* var, const Tensor* weight,
         bool training, double momentum, double eps) {
        return three(batch_norm_backward(grad, x, or_none(mean), or_none(var), or_none(weight),
                                         {.training = training, .momentum = momentum, .eps = eps}));
      },
      "grad"_a, "x"_a, "running_mean"_a.none(), "running_var"_a.none(), "weight"_a.none() = nb::none(),
      "training"_a = false, "momentum"_a = 0.1, "eps"_a = 1e-5);
  function(
      api, "group_norm_backward",
      [](const Tensor& grad, const Tensor& x, std::int64_t groups, const Tensor* weight, double eps) {
        return three(group_norm_backward(grad, x, groups, or_none(weight), eps));
      },
      "grad"_a, "x"_a, "groups"_a, "weight"_a.none() = nb::none(), "eps"_a = 1e-5);
  function(
      api, "instance_norm_backward",
      [](const Tensor& grad, const Tensor& x, const Tensor* weight, double eps) {
        return three(instance_norm_backward(grad, x, or_none(weight), eps));
      },
      "grad"_a, "x"_a, "weight"_a.none() = nb::none(), "eps"_a = 1e-5);
  function(api, "normalize_backward", normalize_backward, "grad"_a, "x"_a, "p"_a = 2.0, "axis"_a = 1, "eps"_a = 1e-12);
}

template <class Window, class F>
void bind_avg_pool_backward(const Api& api, const char* name, F f) {
  function(
      api, name,
      [f](const Tensor& grad, const Shape& shape, Window window, std::optional<SizePair> stride, SizePair padding,
          bool ceil_mode, bool count_include_pad) {
        return f(grad, shape, window, avg_pool(stride, padding, ceil_mode, count_include_pad));
      },
      "grad"_a, "shape"_a, "kernel_size"_a, "stride"_a.none() = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
      "count_include_pad"_a = true);
}

}  // namespace

void bind_network_backward(const Api& api) {
  bind_norms_backward(api);
  for (auto [name, f] : {std::pair<const char*, ConvolutionBackward>{"conv2d_backward", conv2d_backward},
                         {"conv1d_backward", conv1d_backward}}) {
    function(
        api, name,
        [f = f](const Tensor& grad, const Tensor& x, const Tensor& weight, SizePair stride, Padding padding,
                SizePair dilation, std::int64_t groups) {
          return three(
              f(grad, x, weight, {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups}));
        },
        "grad"_a, "x"_a, "weight"_a, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1);
  }
  for (auto [name, f] :
       {std::pair<const char*, TransposedBackward>{"conv_transpose2d_backward", conv_transpose2d_backward},
        {"conv_transpose1d_backward", conv_transpose1d_backward}}) {
    function(
        api, name,
        [f = f](const Tensor& grad, const Tensor& x, const Tensor& weight, SizePair stride, SizePair padding,
                SizePair output_padding, std::int64_t groups, SizePair dilation) {
          return three(f(grad, x, weight, transposed(stride, padding, output_padding, groups, dilation)));
        },
        "grad"_a, "x"_a, "weight"_a, "stride"_a = 1, "padding"_a = 0, "output_padding"_a = 0, "groups"_a = 1,
        "dilation"_a = 1);
  }
  for (auto [name, f] :
       {std::pair{"max_pool2d_backward", &max_pool2d_backward}, {"max_pool1d_backward", max_pool1d_backward}})
    function(api, name, f, "grad"_a, "shape"_a, "indices"_a);
  bind_avg_pool_backward<SizePair>(api, "avg_pool2d_backward", avg_pool2d_backward);
  bind_avg_pool_backward<std::int64_t>(api, "avg_pool1d_backward", avg_pool1d_backward);
  for (const Resized& r : kResized) function(api, r.name, r.f, "grad"_a, "shape"_a);
  function(api, "global_max_pool_backward", global_max_pool_backward, "grad"_a, "x"_a);
  function(
      api, "scaled_dot_product_attention_backward",
      [](const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* mask, bool causal,
         double dropout, std::optional<double> scale, const Tensor* documents) {
        const AttentionGradients g = scaled_dot_product_attention_backward(grad, q, k, v,
                                                                           {.mask = or_none(mask),
                                                                            .causal = causal,
                                                                            .dropout = dropout,
                                                                            .scale = scale,
                                                                            .documents = or_none(documents)});
        return tuple_of(g.q, g.k, g.v);
      },
      "grad"_a, "q"_a, "k"_a, "v"_a, "mask"_a.none() = nb::none(), nb::kw_only(), "causal"_a = false, "dropout"_a = 0.0,
      "scale"_a.none() = nb::none(), "documents"_a.none() = nb::none());
}

}  // namespace ebb::python
