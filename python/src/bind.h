// SPDX-License-Identifier: MIT
#pragma once
#include "casters.h"

// Each family of functions has a file that binds it. Functions of a tensor are bound twice: ebb.exp(x) and x.exp().
namespace ebb::python {

using TensorClass = nb::class_<Tensor>;

struct Api {
  nb::module_& module;
  TensorClass& tensor;
};

const char* doc(const char* name);  // what the public headers say about a function; "" where they say nothing

template <class F, class... Extra>
void function(const Api& api, const char* name, F f, const Extra&... extra) {
  api.module.def(name, f, doc(name), extra...);
}

template <class F, class... Extra>
void method(const Api& api, const char* name, F f, const Extra&... extra) {
  api.tensor.def(name, f, doc(name), extra...);
}

template <class F, class... Extra>
void both(const Api& api, const char* name, F f, const Extra&... extra) {
  api.module.def(name, f, doc(name), nb::arg("x"), extra...);
  api.tensor.def(name, f, doc(name), extra...);
}

// An argument that may be left out, and a result that may be missing.
inline Tensor or_none(const Tensor* t) { return t ? *t : Tensor(); }
inline nb::object or_none(const Tensor& t) { return t.defined() ? nb::cast(t) : nb::none(); }
template <class... Tensors>
nb::tuple tuple_of(const Tensors&... t) {
  return nb::make_tuple(or_none(t)...);
}

nb::object item(const Tensor& x);      // a Python number
Device device_from(nb::handle given);  // a name, an ebb.device, a torch.device
inline Device device_or_default(nb::handle given) { return given.is_none() ? default_device() : device_from(given); }

void bind_dtypes(nb::module_& m);
void bind_tensor(const Api& api);
void bind_indexing(const Api& api);
void bind_exchange(const Api& api);
void bind_create(const Api& api);
void bind_elementwise(const Api& api);
void bind_reduce(const Api& api);
void bind_shape(const Api& api);
void bind_index(const Api& api);
void bind_linalg(const Api& api);
void bind_activation(const Api& api);
void bind_network(const Api& api);
void bind_composed(const Api& api);
void bind_elementwise_backward(const Api& api);
void bind_tensor_backward(const Api& api);
void bind_network_backward(const Api& api);
void bind_losses(const Api& api);
void bind_autograd(const Api& api);
void bind_compile(const Api& api);
void bind_gradcheck(const Api& api);
void bind_optim(const Api& api);
void bind_minimize(const Api& api);
void bind_nn(const Api& api);
void bind_models(const Api& api);
void bind_data(const Api& api);
void bind_distributed(const Api& api);
void bind_io(const Api& api);
void bind_device(const Api& api);
void bind_runtime(const Api& api);

PyType_Slot* tensor_slots();  // the buffer protocol

}  // namespace ebb::python
