// SPDX-License-Identifier: MIT
#pragma once
#include "bind.h"
#include "ebb/nn.h"

// The interface of a layer with state for ebb.nn.Module: its members by name, and a place to put new ones.
namespace ebb::python {

template <class Layer>
std::pair<std::vector<Parameter>, std::vector<Parameter>> members_of(Layer& layer) {
  return {parameters(layer), buffers(layer)};
}

inline nb::list named(const std::vector<Parameter>& all) {
  nb::list list;
  for (const Parameter& p : all) list.append(nb::make_tuple(p.name, *p.tensor));
  return list;
}

template <class Layer>
nb::class_<Layer> layer_class(nb::module_& m, const char* name, const char* doc) {
  nb::class_<Layer> cls(m, name, doc);
  cls.def("_members",
          [](Layer& l) {
            const auto [trained, kept] = members_of(l);
            return nb::make_tuple(named(trained), named(kept));
          })
      .def("_assign",
           [](Layer& l, const std::string& name, const Tensor& value) {
             auto [trained, kept] = members_of(l);
             trained.insert(trained.end(), kept.begin(), kept.end());
             for (const Parameter& p : trained) {
               if (p.name == name) {
                 *p.tensor = value;
                 return true;
               }
             }
             return false;
           })
      .def("_set_training", [](Layer& l, bool on) { set_training(l, on); })
      .def_prop_ro(
          "training",
          [](Layer& l) {
            bool training = true;  // as layers are made; those without a mode keep it
            each_member(l, "", [&](const std::string&, auto& member) {
              if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, nn::Training>) training = member.on;
            });
            return training;
          },
          "Whether the layer is in training, or (after eval()) in use.")
      .def("__getattr__",
           [](Layer& l, const std::string& name) {
             auto [trained, kept] = members_of(l);
             trained.insert(trained.end(), kept.begin(), kept.end());
             for (const Parameter& p : trained) {
               if (p.name == name) return *p.tensor;
             }
             throw nb::attribute_error(("the layer has no member '" + name + "'").c_str());
           })
      .def("__copy__", [](const Layer& l) { return Layer(l); })
      .def(
          "__deepcopy__", [](const Layer& l, nb::handle) { return Layer(l); }, "memo"_a);
  return cls;
}

void bind_layers(nb::module_& m);
void bind_sequence_layers(nb::module_& m);
void bind_layer_arguments(nb::module_& m);
void bind_init(nb::module_& m);

}  // namespace ebb::python
