// SPDX-License-Identifier: MIT
#include "nn_layers.h"

// The arguments a layer was made with, as far as it still knows them: what repr() prints.
namespace ebb::python {
namespace {

nb::object sizes_of(const Shape& s) {
  nb::list sizes;
  for (std::int64_t n : s) sizes.append(n);
  return nb::tuple(sizes);
}
nb::dict norm_arguments(const nn::ChannelNorm& l) {
  nb::dict d;
  d["num_features"] = l.channels;
  d["eps"] = l.eps;
  d["momentum"] = l.momentum;
  d["affine"] = l.weight.defined();
  if (l.weight.defined() && !l.bias.defined()) d["bias"] = false;
  d["track_running_stats"] = l.running_mean.value.defined();
  return d;
}

nb::dict recurrent_arguments(const nn::Recurrent& l) {
  nb::dict d;
  d["input_size"] = l.in;
  d["hidden_size"] = l.hidden;
  d["num_layers"] = static_cast<std::int64_t>(l.weights.size()) / (l.bidirectional ? 2 : 1);
  d["bias"] = l.weights[0].bias_ih.defined();
  d["batch_first"] = l.batch_first;
  d["dropout"] = l.dropout.p;
  d["bidirectional"] = l.bidirectional;
  if (l.out != l.hidden) d["proj_size"] = l.out;
  return d;
}

}  // namespace

void bind_layer_arguments(nb::module_& m) {
  m.def("_arguments", [](const nn::Linear& l) {
    nb::dict d;
    d["in_features"] = l.weight.size(1);
    d["out_features"] = l.weight.size(0);
    d["bias"] = l.bias.defined();
    if (l.fp8) d["fp8"] = true;
    return d;
  });
  m.def("_arguments", [](const nn::Embedding& l) {
    nb::dict d;
    d["num_embeddings"] = l.weight.size(0);
    d["embedding_dim"] = l.weight.size(1);
    if (l.padding_index) d["padding_idx"] = *l.padding_index;
    return d;
  });
  m.def("_arguments", [](const nn::Dropout& l) {
    nb::dict d;
    d["p"] = l.p;
    return d;
  });
  m.def("_arguments", [](const nn::Prelu& l) {
    nb::dict d;
    d["num_parameters"] = l.weight.numel();
    return d;
  });
  m.def("_arguments", [](const nn::LayerNorm& l) {
    nb::dict d;
    d["normalized_shape"] = sizes_of(l.normalized_shape);
    d["eps"] = l.eps;
    d["elementwise_affine"] = l.weight.defined();
    if (l.weight.defined() && !l.bias.defined()) d["bias"] = false;
    return d;
  });
  m.def("_arguments", [](const nn::RMSNorm& l) {
    nb::dict d;
    d["normalized_shape"] = sizes_of(l.normalized_shape);
    d["eps"] = l.eps;
    d["elementwise_affine"] = l.weight.defined();
    return d;
  });
  m.def("_arguments", [](const nn::GroupNorm& l) {
    nb::dict d;
    d["num_groups"] = l.groups;
    d["num_channels"] = l.channels;
    d["eps"] = l.eps;
    d["affine"] = l.weight.defined();
    if (l.weight.defined() && !l.bias.defined()) d["bias"] = false;
    return d;
  });
  m.def("_arguments", [](const nn::BatchNorm& l) { return norm_arguments(l); });
  m.def("_arguments", [](const nn::InstanceNorm& l) { return norm_arguments(l); });
  m.def("_arguments", [](const nn::Rnn& l) {
    nb::dict d = recurrent_arguments(l);
    if (l.use_relu) d["nonlinearity"] = "relu";
    return d;
  });
  m.def("_arguments", [](const nn::Lstm& l) { return recurrent_arguments(l); });
  m.def("_arguments", [](const nn::Gru& l) { return recurrent_arguments(l); });
  m.def("_arguments", [](const nn::MultiheadAttention& l) {
    nb::dict d;
    d["embed_dim"] = l.in_proj_weight.size(1);
    d["num_heads"] = l.heads;
    d["dropout"] = l.dropout.p;
    d["bias"] = l.in_proj_bias.defined();
    return d;
  });
  m.def("_arguments", [](const nn::TransformerBlock& l) {
    nb::dict d;
    d["d_model"] = l.self_attn.in_proj_weight.size(1);
    d["nhead"] = l.self_attn.heads;
    d["dim_feedforward"] = l.linear1.weight.size(0);
    d["dropout"] = l.dropout.p;
    d["norm_first"] = l.norm_first;
    d["activation"] = l.use_relu ? "relu" : "gelu";
    d["layer_norm_eps"] = l.norm1.eps;
    if (l.recompute_activation) d["recompute_activation"] = true;
    return d;
  });
}

}  // namespace ebb::python
