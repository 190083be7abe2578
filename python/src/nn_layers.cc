#include "nn_layers.h"

namespace ebb::python {
namespace {

constexpr DTypeObject kF32{DType::f32};

template <class Layer>
void callable(nb::class_<Layer>& cls) {
  cls.def(
      "__call__", [](Layer& l, const Tensor& x) { return l(x); }, "x"_a);
}

void bind_norms(nb::module_& m) {
  auto layer_norm = layer_class<nn::LayerNorm>(m, "LayerNorm", "torch.nn.LayerNorm");
  layer_norm.def(
      "__init__",
      [](nn::LayerNorm* self, const Shape& shape, double eps, bool affine, bool bias, DType dtype) {
        new (self) nn::LayerNorm(shape, {.eps = eps, .affine = affine, .bias = bias, .dtype = dtype});
      },
      "normalized_shape"_a, "eps"_a = 1e-5, "elementwise_affine"_a = true, "bias"_a = true, nb::kw_only(),
      "dtype"_a = kF32);
  callable(layer_norm);
  auto rms = layer_class<nn::RMSNorm>(m, "RMSNorm", "torch.nn.RMSNorm");
  rms.def(
      "__init__",
      [](nn::RMSNorm* self, const Shape& shape, std::optional<double> eps, bool affine, DType dtype) {
        new (self) nn::RMSNorm(shape, {.eps = eps, .affine = affine, .dtype = dtype});
      },
      "normalized_shape"_a, "eps"_a.none() = nb::none(), "elementwise_affine"_a = true, nb::kw_only(),
      "dtype"_a = kF32);
  callable(rms);
  auto batch = layer_class<nn::BatchNorm>(m, "BatchNorm", "torch.nn.BatchNorm1d and 2d: each channel over the batch.");
  batch.def(
      "__init__",
      [](nn::BatchNorm* self, std::int64_t channels, double eps, std::optional<double> momentum, bool affine,
         bool track, DType dtype) {
        new (self) nn::BatchNorm(
            channels,
            {.eps = eps, .momentum = momentum, .affine = affine, .track_running_stats = track, .dtype = dtype});
      },
      "num_features"_a, "eps"_a = 1e-5, "momentum"_a.none() = 0.1, "affine"_a = true, "track_running_stats"_a = true,
      nb::kw_only(), "dtype"_a = kF32);
  callable(batch);
  auto instance = layer_class<nn::InstanceNorm>(m, "InstanceNorm", "torch.nn.InstanceNorm1d and 2d.");
  instance.def(
      "__init__",
      [](nn::InstanceNorm* self, std::int64_t channels, double eps, std::optional<double> momentum, bool affine,
         bool track, DType dtype) {
        new (self) nn::InstanceNorm(
            channels,
            {.eps = eps, .momentum = momentum, .affine = affine, .track_running_stats = track, .dtype = dtype});
      },
      "num_features"_a, "eps"_a = 1e-5, "momentum"_a.none() = 0.1, "affine"_a = false, "track_running_stats"_a = false,
      nb::kw_only(), "dtype"_a = kF32);
  callable(instance);
  auto group = layer_class<nn::GroupNorm>(m, "GroupNorm", "torch.nn.GroupNorm");
  group.def(
      "__init__",
      [](nn::GroupNorm* self, std::int64_t groups, std::int64_t channels, double eps, bool affine, DType dtype) {
        new (self) nn::GroupNorm(groups, channels, {.eps = eps, .affine = affine, .dtype = dtype});
      },
      "num_groups"_a, "num_channels"_a, "eps"_a = 1e-5, "affine"_a = true, nb::kw_only(), "dtype"_a = kF32);
  callable(group);
}

template <class Layer, class Kernel>
void bind_convolution(nb::module_& m, const char* name, const char* doc) {
  auto cls = layer_class<Layer>(m, name, doc);
  cls.def(
      "__init__",
      [](Layer* self, std::int64_t in, std::int64_t out, Kernel kernel, SizePair stride, Padding padding,
         SizePair dilation, std::int64_t groups, bool bias, DType dtype) {
        new (self) Layer(in, out, kernel,
                         {.stride = stride,
                          .padding = padding,
                          .dilation = dilation,
                          .groups = groups,
                          .bias = bias,
                          .dtype = dtype});
      },
      "in_channels"_a, "out_channels"_a, "kernel_size"_a, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
      "groups"_a = 1, "bias"_a = true, nb::kw_only(), "dtype"_a = kF32);
  callable(cls);
}

template <class Layer, class Kernel>
void bind_transposed(nb::module_& m, const char* name, const char* doc) {
  auto cls = layer_class<Layer>(m, name, doc);
  cls.def(
      "__init__",
      [](Layer* self, std::int64_t in, std::int64_t out, Kernel kernel, SizePair stride, SizePair padding,
         SizePair output_padding, std::int64_t groups, bool bias, SizePair dilation, DType dtype) {
        new (self) Layer(in, out, kernel,
                         {.stride = stride,
                          .padding = padding,
                          .output_padding = output_padding,
                          .groups = groups,
                          .dilation = dilation,
                          .bias = bias,
                          .dtype = dtype});
      },
      "in_channels"_a, "out_channels"_a, "kernel_size"_a, "stride"_a = 1, "padding"_a = 0, "output_padding"_a = 0,
      "groups"_a = 1, "bias"_a = true, "dilation"_a = 1, nb::kw_only(), "dtype"_a = kF32);
  callable(cls);
}

}  // namespace

void bind_layers(nb::module_& m) {
  auto linear = layer_class<nn::Linear>(m, "Linear", "x·Wᵀ + b. Weight and bias begin uniform in ±1/√in.");
  linear.def(
      "__init__",
      [](nn::Linear* self, std::int64_t in, std::int64_t out, bool bias, DType dtype) {
        new (self) nn::Linear(in, out, {.bias = bias, .dtype = dtype});
      },
      "in_features"_a, "out_features"_a, "bias"_a = true, nb::kw_only(), "dtype"_a = kF32);
  callable(linear);
  auto embedding = layer_class<nn::Embedding>(m, "Embedding", "Rows of a table by index; the table begins normal.");
  embedding.def(
      "__init__",
      [](nn::Embedding* self, std::int64_t count, std::int64_t width, std::optional<std::int64_t> padding,
         DType dtype) { new (self) nn::Embedding(count, width, {.padding_index = padding, .dtype = dtype}); },
      "num_embeddings"_a, "embedding_dim"_a, "padding_idx"_a.none() = nb::none(), nb::kw_only(), "dtype"_a = kF32);
  callable(embedding);
  auto dropout = layer_class<nn::Dropout>(m, "Dropout", "Drops elements with probability p while training.");
  dropout.def(nb::init<double>(), "p"_a = 0.5);
  callable(dropout);
  auto prelu = layer_class<nn::Prelu>(m, "Prelu", "torch.nn.PReLU: slopes that are learned.");
  prelu.def(
      "__init__",
      [](nn::Prelu* self, std::int64_t channels, double slope, DType dtype) {
        new (self) nn::Prelu(channels, slope, dtype);
      },
      "num_parameters"_a = 1, "init"_a = 0.25, nb::kw_only(), "dtype"_a = kF32);
  callable(prelu);
  bind_norms(m);
  bind_convolution<nn::Conv2d, SizePair>(m, "Conv2d", "torch.nn.Conv2d");
  bind_convolution<nn::Conv1d, std::int64_t>(m, "Conv1d", "torch.nn.Conv1d");
  bind_transposed<nn::ConvTranspose2d, SizePair>(m, "ConvTranspose2d", "torch.nn.ConvTranspose2d");
  bind_transposed<nn::ConvTranspose1d, std::int64_t>(m, "ConvTranspose1d", "torch.nn.ConvTranspose1d");
}

}  // namespace ebb::python
