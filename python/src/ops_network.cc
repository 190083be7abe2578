// SPDX-License-Identifier: MIT
#include "options.h"

// Norms, convolutions, pools and attention.
namespace ebb::python {
namespace {

using Convolution = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&);
using Transposed = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvTransposeOptions&);

void bind_norms(const Api& api) {
  function(
      api, "layer_norm",
      [](const Tensor& x, const Shape& shape, const Tensor* weight, const Tensor* bias, double eps) {
        return layer_norm(x, shape, or_none(weight), or_none(bias), eps);
      },
      "x"_a, "normalized_shape"_a, "weight"_a.none() = nb::none(), "bias"_a.none() = nb::none(), "eps"_a = 1e-5);
  function(
      api, "rms_norm",
      [](const Tensor& x, const Shape& shape, const Tensor* weight, std::optional<double> eps) {
        return rms_norm(x, shape, or_none(weight), eps);
      },
      "x"_a, "normalized_shape"_a, "weight"_a.none() = nb::none(), "eps"_a.none() = nb::none());
  function(
      api, "batch_norm",
      [](const Tensor& x, const Tensor* mean, const Tensor* var, const Tensor* weight, const Tensor* bias,
         bool training, double momentum, double eps) {
        const BatchNormResult r = batch_norm(x, or_none(mean), or_none(var), or_none(weight), or_none(bias),
                                             {.training = training, .momentum = momentum, .eps = eps});
        return tuple_of(r.y, r.running_mean, r.running_var);
      },
      "x"_a, "running_mean"_a.none(), "running_var"_a.none(), "weight"_a.none() = nb::none(),
      "bias"_a.none() = nb::none(), "training"_a = false, "momentum"_a = 0.1, "eps"_a = 1e-5);
  function(
      api, "group_norm",
      [](const Tensor& x, std::int64_t groups, const Tensor* weight, const Tensor* bias, double eps) {
        return group_norm(x, groups, or_none(weight), or_none(bias), eps);
      },
      "x"_a, "groups"_a, "weight"_a.none() = nb::none(), "bias"_a.none() = nb::none(), "eps"_a = 1e-5);
  function(
      api, "instance_norm",
      [](const Tensor& x, const Tensor* weight, const Tensor* bias, double eps) {
        return instance_norm(x, or_none(weight), or_none(bias), eps);
      },
      "x"_a, "weight"_a.none() = nb::none(), "bias"_a.none() = nb::none(), "eps"_a = 1e-5);
  both(api, "normalize", normalize, "p"_a = 2.0, "axis"_a = 1, "eps"_a = 1e-12);
}

void bind_convolutions(const Api& api) {
  for (auto [name, f] : {std::pair<const char*, Convolution>{"conv2d", conv2d}, {"conv1d", conv1d}}) {
    function(
        api, name,
        [f = f](const Tensor& x, const Tensor& weight, const Tensor* bias, SizePair stride, Padding padding,
                SizePair dilation, std::int64_t groups) {
          return f(x, weight, or_none(bias),
                   {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
        },
        "x"_a, "weight"_a, "bias"_a.none() = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
        "groups"_a = 1);
  }
  for (auto [name, f] : {std::pair<const char*, Transposed>{"conv_transpose2d", conv_transpose2d},
                         {"conv_transpose1d", conv_transpose1d}}) {
    function(
        api, name,
        [f = f](const Tensor& x, const Tensor& weight, const Tensor* bias, SizePair stride, SizePair padding,
                SizePair output_padding, std::int64_t groups, SizePair dilation) {
          return f(x, weight, or_none(bias), transposed(stride, padding, output_padding, groups, dilation));
        },
        "x"_a, "weight"_a, "bias"_a.none() = nb::none(), "stride"_a = 1, "padding"_a = 0, "output_padding"_a = 0,
        "groups"_a = 1, "dilation"_a = 1);
  }
}

template <class Window, class F>
void bind_max_pool(const Api& api, const char* name, F f) {
  function(
      api, name,
      [f](const Tensor& x, Window window, std::optional<SizePair> stride, SizePair padding, SizePair dilation,
          bool ceil_mode) {
        return f(x, window,
                 MaxPoolOptions{.stride = stride, .padding = padding, .dilation = dilation, .ceil_mode = ceil_mode});
      },
      "x"_a, "kernel_size"_a, "stride"_a.none() = nb::none(), "padding"_a = 0, "dilation"_a = 1, "ceil_mode"_a = false);
}

template <class Window, class F>
void bind_avg_pool(const Api& api, const char* name, F f) {
  function(
      api, name,
      [f](const Tensor& x, Window window, std::optional<SizePair> stride, SizePair padding, bool ceil_mode,
          bool count_include_pad) { return f(x, window, avg_pool(stride, padding, ceil_mode, count_include_pad)); },
      "x"_a, "kernel_size"_a, "stride"_a.none() = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
      "count_include_pad"_a = true);
}

}  // namespace

void bind_network(const Api& api) {
  bind_norms(api);
  bind_convolutions(api);
  bind_max_pool<SizePair>(api, "max_pool2d", max_pool2d);
  bind_max_pool<std::int64_t>(api, "max_pool1d", max_pool1d);
  bind_max_pool<SizePair>(api, "max_pool2d_with_indices", max_pool2d_with_indices);
  bind_max_pool<std::int64_t>(api, "max_pool1d_with_indices", max_pool1d_with_indices);
  bind_avg_pool<SizePair>(api, "avg_pool2d", avg_pool2d);
  bind_avg_pool<std::int64_t>(api, "avg_pool1d", avg_pool1d);
  function(api, "adaptive_avg_pool2d", adaptive_avg_pool2d, "x"_a, "output_size"_a);
  function(api, "adaptive_avg_pool1d", adaptive_avg_pool1d, "x"_a, "output_size"_a);
  function(api, "adaptive_max_pool2d", adaptive_max_pool2d, "x"_a, "output_size"_a);
  function(api, "adaptive_max_pool1d", adaptive_max_pool1d, "x"_a, "output_size"_a);
  function(api, "adaptive_max_pool2d_with_indices", adaptive_max_pool2d_with_indices, "x"_a, "output_size"_a);
  function(api, "adaptive_max_pool1d_with_indices", adaptive_max_pool1d_with_indices, "x"_a, "output_size"_a);
  function(api, "global_avg_pool", global_avg_pool, "x"_a);
  function(api, "global_max_pool", global_max_pool, "x"_a);
  function(
      api, "scaled_dot_product_attention",
      [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* mask, bool causal, double dropout,
         std::optional<double> scale, const Tensor* documents) {
        return scaled_dot_product_attention(q, k, v,
                                            {.mask = or_none(mask),
                                             .causal = causal,
                                             .dropout = dropout,
                                             .scale = scale,
                                             .documents = or_none(documents)});
      },
      "q"_a, "k"_a, "v"_a, "mask"_a.none() = nb::none(), nb::kw_only(), "causal"_a = false, "dropout"_a = 0.0,
      "scale"_a.none() = nb::none(), "documents"_a.none() = nb::none());
}

}  // namespace ebb::python
