// SPDX-License-Identifier: MIT
#include "nn_layers.h"

// Attention, transformers, recurrent networks, and first values of weights.
namespace ebb::python {
namespace {

constexpr DTypeObject kF32{DType::f32};

nn::AttentionCall attention_call(const Tensor* mask, bool causal, const Tensor* padding) {
  return {.mask = or_none(mask), .causal = causal, .key_padding_mask = or_none(padding)};
}

template <class Layer>
nb::class_<Layer> recurrent(nb::module_& m, const char* name, const char* doc) {
  auto cls = layer_class<Layer>(m, name, doc);
  cls.def(
      "__init__",
      [](Layer* self, std::int64_t in, std::int64_t hidden, std::int64_t num_layers, const std::string& nonlinearity,
         bool bias, bool batch_first, double dropout, bool bidirectional, std::int64_t proj_size, DType dtype) {
        if (nonlinearity != "tanh" && nonlinearity != "relu")
          throw Error("RNN: the nonlinearity is 'tanh' or 'relu', got '" + nonlinearity + "'");
        new (self) Layer(in, hidden,
                         {.bias = bias,
                          .relu = nonlinearity == "relu",
                          .num_layers = num_layers,
                          .bidirectional = bidirectional,
                          .dropout = dropout,
                          .batch_first = batch_first,
                          .proj_size = proj_size,
                          .dtype = dtype});
      },
      "input_size"_a, "hidden_size"_a, "num_layers"_a = 1, "nonlinearity"_a = "tanh", "bias"_a = true,
      "batch_first"_a = true, "dropout"_a = 0.0, "bidirectional"_a = false, "proj_size"_a = 0, nb::kw_only(),
      "dtype"_a = kF32);
  return cls;
}

nn::Fan fan_of(const std::string& mode) {
  if (mode != "fan_in" && mode != "fan_out")
    throw Error("kaiming: the mode is 'fan_in' or 'fan_out', got '" + mode + "'");
  return mode == "fan_in" ? nn::Fan::in : nn::Fan::out;
}

}  // namespace

void bind_sequence_layers(nb::module_& m) {
  auto attention = layer_class<nn::MultiheadAttention>(m, "MultiheadAttention",
                                                       "torch.nn.MultiheadAttention on [batch, time, width].");
  attention.def(
      "__init__",
      [](nn::MultiheadAttention* self, std::int64_t width, std::int64_t heads, double dropout, bool bias, DType dtype) {
        new (self) nn::MultiheadAttention(width, heads, {.bias = bias, .dropout = dropout, .dtype = dtype});
      },
      "embed_dim"_a, "num_heads"_a, "dropout"_a = 0.0, "bias"_a = true, nb::kw_only(), "dtype"_a = kF32);
  attention.def(
      "__call__",
      [](nn::MultiheadAttention& l, const Tensor& query, const Tensor* key, const Tensor* value, const Tensor* mask,
         bool causal, const Tensor* padding) {
        return l(query, key ? *key : query, value ? *value : key ? *key : query, attention_call(mask, causal, padding));
      },
      "query"_a, "key"_a.none() = nb::none(), "value"_a.none() = nb::none(), nb::kw_only(),
      "mask"_a.none() = nb::none(), "causal"_a = false, "key_padding_mask"_a.none() = nb::none());
  auto block =
      layer_class<nn::TransformerBlock>(m, "TransformerBlock", "A layer of a transformer on [batch, time, width].");
  block.def(
      "__init__",
      [](nn::TransformerBlock* self, std::int64_t width, std::int64_t heads, std::int64_t hidden, double dropout,
         bool norm_first, const std::string& activation, double eps, bool recompute_activation, DType dtype) {
        if (activation != "gelu" && activation != "relu")
          throw Error("TransformerBlock: the activation is 'gelu' or 'relu', got '" + activation + "'");
        new (self) nn::TransformerBlock(width, heads,
                                        {.hidden = hidden,
                                         .dropout = dropout,
                                         .norm_first = norm_first,
                                         .relu = activation == "relu",
                                         .recompute_activation = recompute_activation,
                                         .eps = eps,
                                         .dtype = dtype});
      },
      "d_model"_a, "nhead"_a, "dim_feedforward"_a = 0, "dropout"_a = 0.0, "norm_first"_a = true,
      "activation"_a = "gelu", "layer_norm_eps"_a = 1e-5, nb::kw_only(), "recompute_activation"_a = false,
      "dtype"_a = kF32);
  block.def(
      "__call__",
      [](nn::TransformerBlock& l, const Tensor& x, const Tensor* mask, bool causal, const Tensor* padding) {
        return l(x, attention_call(mask, causal, padding));
      },
      "x"_a, nb::kw_only(), "mask"_a.none() = nb::none(), "causal"_a = false, "key_padding_mask"_a.none() = nb::none());

  recurrent<nn::Rnn>(m, "Rnn", "torch.nn.RNN; batch first unless told otherwise. Gives (output, h).")
      .def(
          "__call__",
          [](nn::Rnn& l, const Tensor& x, const Tensor* h) {
            const nn::Sequence s = l(x, or_none(h));
            return tuple_of(s.output, s.h);
          },
          "x"_a, "h"_a.none() = nb::none());
  recurrent<nn::Gru>(m, "Gru", "torch.nn.GRU; batch first unless told otherwise. Gives (output, h).")
      .def(
          "__call__",
          [](nn::Gru& l, const Tensor& x, const Tensor* h) {
            const nn::Sequence s = l(x, or_none(h));
            return tuple_of(s.output, s.h);
          },
          "x"_a, "h"_a.none() = nb::none());
  recurrent<nn::Lstm>(m, "Lstm", "torch.nn.LSTM; batch first unless told otherwise. Gives (output, (h, c)).")
      .def(
          "__call__",
          [](nn::Lstm& l, const Tensor& x, std::optional<std::pair<Tensor, Tensor>> state) {
            const nn::Sequence s = state ? l(x, state->first, state->second) : l(x);
            return nb::make_tuple(s.output, tuple_of(s.h, s.c));
          },
          "x"_a, "state"_a.none() = nb::none());
}

void bind_init(nb::module_& m) {
  for (auto [name, f] : {std::pair<const char*, Tensor (*)(const Shape&, const nn::KaimingOptions&)>{
                             "kaiming_normal", nn::kaiming_normal},
                         {"kaiming_uniform", nn::kaiming_uniform}}) {
    m.def(
        name,
        [f = f](const Shape& shape, const std::string& mode, double gain, DType dtype) {
          return f(shape, {.fan = fan_of(mode), .gain = gain, .dtype = dtype});
        },
        doc(name), "shape"_a, "mode"_a = "fan_in", "gain"_a = nn::KaimingOptions{}.gain, "dtype"_a = kF32);
  }
  for (auto [name, f] :
       {std::pair<const char*, Tensor (*)(const Shape&, const nn::XavierOptions&)>{"xavier_normal", nn::xavier_normal},
        {"xavier_uniform", nn::xavier_uniform}}) {
    m.def(
        name,
        [f = f](const Shape& shape, double gain, DType dtype) { return f(shape, {.gain = gain, .dtype = dtype}); },
        doc(name), "shape"_a, "gain"_a = 1.0, "dtype"_a = kF32);
  }
  m.def("uniform", nn::uniform, doc("uniform"), "shape"_a, "low"_a = 0.0, "high"_a = 1.0, "dtype"_a = kF32);
  m.def("normal", nn::normal, doc("normal"), "shape"_a, "mean"_a = 0.0, "deviation"_a = 1.0, "dtype"_a = kF32);
  m.def("orthogonal", nn::orthogonal, doc("orthogonal"), "shape"_a, "gain"_a = 1.0, "dtype"_a = kF32);
  m.def(
      "truncated_normal",
      [](const Shape& shape, double mean, double deviation, double low, double high, DType dtype) {
        return nn::truncated_normal(shape,
                                    {.mean = mean, .deviation = deviation, .low = low, .high = high, .dtype = dtype});
      },
      doc("truncated_normal"), "shape"_a, "mean"_a = 0.0, "deviation"_a = 1.0, "low"_a = -2.0, "high"_a = 2.0,
      "dtype"_a = kF32);
  m.def(
      "fans",
      [](const Shape& shape) {
        const nn::Fans f = nn::fans(shape);
        return std::make_pair(f.in, f.out);
      },
      "shape"_a, "How many numbers an output is made of, and how many an input goes into.");
}

void bind_nn(const Api& api) {
  nb::module_ layers = api.module.def_submodule("_nn", "Layers with parameters.");
  bind_layers(layers);
  bind_sequence_layers(layers);
  bind_layer_arguments(layers);
  nb::module_ init = api.module.def_submodule("_init", "First values of weights.");
  bind_init(init);
}

}  // namespace ebb::python
