// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ebb/autograd.h"
#include "ebb/ops/elementwise.h"

// A model is a plain value: a struct with tensors, layers and a call operator that names its members once.
//
//   struct Mlp {
//     nn::Linear first{784, 256}, second{256, 10};
//     Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
//     template <class V> void visit(V&& v) { v("first", first); v("second", second); }
//   };
//
// The type of a member determines its role: a Tensor is trained (an undefined one is skipped), an nn::Buffer is saved
// but not trained, an nn::Training is the mode, and layers, vectors, arrays, tuples and optionals of these are visited
// recursively. Names are joined with dots: "first.weight", "blocks.3.norm.bias". Copying a model copies handles, so it
// costs nothing.
namespace ebb {

namespace nn {

// State other than parameters, for example running statistics.
struct Buffer {
  Tensor value;
};

// Layers that behave differently in training (dropout, batch norm) have one of these; set_training() finds it.
struct Training {
  bool on = true;
};

}  // namespace nn

// A reference to a parameter. Valid as long as the model lives and does not move.
struct Parameter {
  std::string name;
  Tensor* tensor;
};
using Parameters = std::vector<Parameter>;

namespace detail {
void load_state_dict(const Parameters& parameters, const Parameters& buffers,
                     const std::map<std::string, Tensor>& tensors);
template <class T>
struct is_sequence : std::false_type {};
template <class T>
struct is_sequence<std::vector<T>> : std::true_type {};
template <class T, std::size_t n>
struct is_sequence<std::array<T, n>> : std::true_type {};
template <class T>
struct is_tuple : std::false_type {};
template <class... T>
struct is_tuple<std::tuple<T...>> : std::true_type {};
template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
struct AnyMember {
  template <class T>
  void operator()(const char*, T&) const {}
};
}  // namespace detail

// Calls f(name, member) for every Tensor, Buffer and Training of the model; other members are visited recursively.
template <class Model, class F>
void each_member(Model& model, const std::string& name, F&& f) {
  const auto inside = [&](const std::string& part) {
    std::string whole = name;
    if (!whole.empty()) whole += '.';
    return whole += part;
  };
  if constexpr (std::is_same_v<Model, Tensor> || std::is_same_v<Model, nn::Buffer> ||
                std::is_same_v<Model, nn::Training>) {
    f(name, model);
  } else if constexpr (detail::is_sequence<Model>::value) {
    std::size_t k = 0;
    for (auto& item : model) each_member(item, inside(std::to_string(k++)), f);
  } else if constexpr (detail::is_tuple<Model>::value) {
    std::size_t k = 0;
    std::apply([&](auto&... item) { (each_member(item, inside(std::to_string(k++)), f), ...); }, model);
  } else if constexpr (detail::is_optional<Model>::value) {
    if (model) each_member(*model, name, f);
  } else if constexpr (requires { model.visit(detail::AnyMember{}); }) {
    model.visit([&](const char* part, auto& member) { each_member(member, inside(part), f); });
  }
  // Anything else has no parameters.
}

// All trainable parameters, in the order in which the model names them.
template <class Model>
requires(!std::same_as<std::remove_cv_t<Model>, Parameters>) Parameters parameters(Model& model) {
  Parameters all;
  each_member(model, "", [&](const std::string& name, auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Tensor>) {
      if (member.defined()) all.push_back({name, &member});
    }
  });
  return all;
}
inline const Parameters& parameters(const Parameters& all) { return all; }

// Saved but not trained.
template <class Model>
requires(!std::same_as<std::remove_cv_t<Model>, Parameters>) Parameters buffers(Model& model) {
  Parameters all;
  each_member(model, "", [&](const std::string& name, auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, nn::Buffer>) {
      if (member.value.defined()) all.push_back({name, &member.value});
    }
  });
  return all;
}
inline Parameters buffers(const Parameters&) { return {}; }

// Saved state: parameters and buffers.
template <class Model>
Parameters state(Model& model) {
  Parameters all;
  each_member(model, "", [&](const std::string& name, auto& member) {
    using Member = std::remove_cvref_t<decltype(member)>;
    if constexpr (std::is_same_v<Member, Tensor>) {
      if (member.defined()) all.push_back({name, &member});
    } else if constexpr (std::is_same_v<Member, nn::Buffer>) {
      if (member.value.defined()) all.push_back({name, &member.value});
    }
  });
  return all;
}

// Parameters and buffers by name, for files: io::save_safetensors("net.safetensors", state_dict(net)).
template <class Model>
std::map<std::string, Tensor> state_dict(const Model& model) {
  Model copy = model;
  std::map<std::string, Tensor> tensors;
  for (const Parameter& p : state(copy)) tensors.emplace(p.name, *p.tensor);
  return tensors;
}

// The reverse: load_state_dict(net, io::load_safetensors("net.safetensors")). Every tensor must be there, with its
// shape, and no other; it is cast to the dtype that the model has, and moved to its device. Parameters start a new
// history.
template <class Model>
void load_state_dict(Model& model, const std::map<std::string, Tensor>& tensors) {
  detail::load_state_dict(parameters(model), buffers(model), tensors);
}

// Training (true, the initial mode) or evaluation.
template <class Model>
void set_training(Model& model, bool on) {
  each_member(model, "", [&](const std::string&, auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, nn::Training>) member.on = on;
  });
}

std::int64_t count_elements(const Parameters& parameters);
template <class Model>
std::int64_t parameter_count(Model& model) {
  return count_elements(parameters(model));
}

// A copy whose parameters are those of `model` cast to dtype, as operations: gradients reach the originals, in their
// own dtype. This is how mixed precision computes in f16 or bf16 and keeps f32 weights. Buffers are not cast; where
// calling the copy updates them (running statistics), copy them back with take_buffers.
template <class Model>
Model cast_parameters(const Model& model, DType dtype) {
  Model copy = model;
  for (Parameter& p : parameters(copy)) *p.tensor = cast(*p.tensor, dtype);
  return copy;
}

// Moves parameters and buffers to a device. Parameters start a new history there.
template <class Model>
void move_to(Model& model, Device device) {
  for (const Parameter& p : state(model)) {
    const Tensor moved = p.tensor->to(device);
    *p.tensor = p.tensor->requires_grad() ? variable(moved) : moved;
  }
}

// Copies the buffers of a copy of the model back into it.
template <class Model>
void take_buffers(Model& model, Model copy) {
  const Parameters mine = buffers(model), theirs = buffers(copy);
  for (std::size_t k = 0; k < mine.size(); ++k) *mine[k].tensor = *theirs[k].tensor;
}

}  // namespace ebb
