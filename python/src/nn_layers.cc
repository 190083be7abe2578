// SPDX-License-Identifier: MIT
#include "nn_layers.h"

#include "ebb/device.h"

// Layers with the arguments of torch.nn's, in its order.
namespace ebb::python {
namespace {

template <class Layer>
void callable(nb::class_<Layer>& cls) {
  cls.def(
      "__call__", [](Layer& l, const Tensor& x) { return l(x); }, "input"_a);
}

// Where a layer's tensors are (None: in the host's memory) and what they hold (None: f32).
using Place = nb::object;
using Numbers = std::optional<DType>;
DType or_f32(Numbers dtype) { return dtype.value_or(DType::f32); }
template <class Layer>
void put(Layer* layer, const Place& device) {
  if (!device.is_none()) move_to(*layer, device_from_name(nb::str(device).c_str()));
}

template <class Layer, class Options>
void bind_channel_norm(nb::module_& m, const char* name, const char* doc) {
  constexpr Options defaults;
  auto cls = layer_class<Layer>(m, name, doc);
  cls.def(
      "__init__",
      [](Layer* self, std::int64_t channels, double eps, std::optional<double> momentum, bool affine, bool track,
         const Place& device, Numbers dtype, bool bias) {
        new (self) Layer(channels, {.eps = eps,
                                    .momentum = momentum,
                                    .affine = affine,
                                    .bias = bias,
                                    .track_running_stats = track,
                                    .dtype = or_f32(dtype)});
        put(self, device);
      },
      "num_features"_a, "eps"_a = defaults.eps, "momentum"_a.none() = *defaults.momentum, "affine"_a = defaults.affine,
      "track_running_stats"_a = defaults.track_running_stats, "device"_a.none() = nb::none(),
      "dtype"_a.none() = nb::none(), nb::kw_only(), "bias"_a = true);
  callable(cls);
}

void bind_norm_layers(nb::module_& m) {
  auto layer_norm = layer_class<nn::LayerNorm>(m, "LayerNorm", "torch.nn.LayerNorm");
  layer_norm.def(
      "__init__",
      [](nn::LayerNorm* self, const Shape& shape, double eps, bool affine, bool bias, const Place& device,
         Numbers dtype) {
        new (self) nn::LayerNorm(shape, {.eps = eps, .affine = affine, .bias = bias, .dtype = or_f32(dtype)});
        put(self, device);
      },
      "normalized_shape"_a, "eps"_a = 1e-5, "elementwise_affine"_a = true, "bias"_a = true,
      "device"_a.none() = nb::none(), "dtype"_a.none() = nb::none());
  callable(layer_norm);
  auto rms = layer_class<nn::RMSNorm>(m, "RMSNorm", "torch.nn.RMSNorm");
  rms.def(
      "__init__",
      [](nn::RMSNorm* self, const Shape& shape, std::optional<double> eps, bool affine, const Place& device,
         Numbers dtype) {
        new (self) nn::RMSNorm(shape, {.eps = eps, .affine = affine, .dtype = or_f32(dtype)});
        put(self, device);
      },
      "normalized_shape"_a, "eps"_a.none() = nb::none(), "elementwise_affine"_a = true, "device"_a.none() = nb::none(),
      "dtype"_a.none() = nb::none());
  callable(rms);
  bind_channel_norm<nn::BatchNorm, nn::BatchNormLayerOptions>(
      m, "BatchNorm", "torch.nn.BatchNorm1d and 2d: each channel over the batch.");
  bind_channel_norm<nn::InstanceNorm, nn::InstanceNormOptions>(m, "InstanceNorm", "torch.nn.InstanceNorm1d and 2d.");
  auto group = layer_class<nn::GroupNorm>(m, "GroupNorm", "torch.nn.GroupNorm");
  group.def(
      "__init__",
      [](nn::GroupNorm* self, std::int64_t groups, std::int64_t channels, double eps, bool affine, const Place& device,
         Numbers dtype, bool bias) {
        new (self)
            nn::GroupNorm(groups, channels, {.eps = eps, .affine = affine, .bias = bias, .dtype = or_f32(dtype)});
        put(self, device);
      },
      "num_groups"_a, "num_channels"_a, "eps"_a = 1e-5, "affine"_a = true, "device"_a.none() = nb::none(),
      "dtype"_a.none() = nb::none(), nb::kw_only(), "bias"_a = true);
  callable(group);
}

}  // namespace

void bind_layers(nb::module_& m) {
  auto linear = layer_class<nn::Linear>(m, "Linear", "x·Wᵀ + b. Weight and bias begin uniform in ±1/√in.");
  linear.def(
      "__init__",
      [](nn::Linear* self, std::int64_t in, std::int64_t out, bool bias, const Place& device, Numbers dtype, bool fp8) {
        new (self) nn::Linear(in, out, {.bias = bias, .dtype = or_f32(dtype), .fp8 = fp8});
        put(self, device);
      },
      "in_features"_a, "out_features"_a, "bias"_a = true, "device"_a.none() = nb::none(), "dtype"_a.none() = nb::none(),
      nb::kw_only(), "fp8"_a = false);
  linear.def_rw("fp8", &nn::Linear::fp8, "Whether its product is that of fp8_linear.");
  callable(linear);
  auto embedding = layer_class<nn::Embedding>(m, "Embedding", "Rows of a table by index; the table begins normal.");
  embedding.def(
      "__init__",
      [](nn::Embedding* self, std::int64_t count, std::int64_t width, std::optional<std::int64_t> padding,
         std::optional<double> max_norm, double /*norm_type*/, bool by_frequency, bool /*sparse*/, const Tensor* weight,
         bool frozen, const Place& device, Numbers dtype) {
        if (max_norm || by_frequency || frozen)
          throw Error(
              "Embedding: there is no max_norm, scale_grad_by_freq or _freeze; renormalise weight between steps");
        new (self) nn::Embedding(count, width, {.padding_index = padding, .dtype = or_f32(dtype)});
        if (weight) self->weight = variable(*weight);
        put(self, device);
      },
      "num_embeddings"_a, "embedding_dim"_a, "padding_idx"_a.none() = nb::none(), "max_norm"_a.none() = nb::none(),
      "norm_type"_a = 2.0, "scale_grad_by_freq"_a = false, "sparse"_a = false, "_weight"_a.none() = nb::none(),
      "_freeze"_a = false, "device"_a.none() = nb::none(), "dtype"_a.none() = nb::none());
  callable(embedding);
  auto dropout = layer_class<nn::Dropout>(m, "Dropout", "Drops elements with probability p while training.");
  dropout.def(
      "__init__", [](nn::Dropout* self, double p, bool /*inplace*/) { new (self) nn::Dropout(p); }, "p"_a = 0.5,
      "inplace"_a = false);
  callable(dropout);
  auto prelu = layer_class<nn::Prelu>(m, "Prelu", "torch.nn.PReLU: slopes that are learned.");
  prelu.def(
      "__init__",
      [](nn::Prelu* self, std::int64_t channels, double slope, const Place& device, Numbers dtype) {
        new (self) nn::Prelu(channels, slope, or_f32(dtype));
        put(self, device);
      },
      "num_parameters"_a = 1, "init"_a = 0.25, "device"_a.none() = nb::none(), "dtype"_a.none() = nb::none());
  callable(prelu);
  bind_norm_layers(m);
}

}  // namespace ebb::python
