// SPDX-License-Identifier: MIT
#include "ebb/autograd.h"

#include "bind.h"
#include "ebb/second_order.h"
#include "shared_object.h"

namespace ebb::python {
namespace {

CustomRule rule_from(nb::callable f) {
  return
      [f = shared_object(std::move(f))](const Tensor& grad, const Tensor& output, const std::vector<Tensor>& inputs) {
        const nb::gil_scoped_acquire interpreter;
        nb::object result = (*f)(grad, output, nb::tuple(nb::cast(inputs)));
        if (tensor_in(result)) result = nb::make_tuple(result);
        std::vector<Tensor> cotangents;
        for (nb::handle h : result) cotangents.push_back(h.is_none() ? Tensor() : nb::cast<Tensor>(h));
        return cotangents;
      };
}

// The tensors a function is called with, one after the other.
std::vector<Tensor> tensors_in(const char* op, const nb::args& inputs) {
  std::vector<Tensor> tensors;
  for (nb::handle h : inputs) {
    Tensor converted;
    if (const Tensor* t = tensor_in(h)) {
      tensors.push_back(*t);
    } else if (is_array_like(h) && nb::try_cast(h, converted)) {
      tensors.push_back(converted);
    } else {
      throw Error(Error::Kind::type, std::string(op) + ": input " + std::to_string(tensors.size()) +
                                         " is not a tensor but a " + nb::cast<std::string>(h.type().attr("__name__")) +
                                         "; give the tensors one by one, f(x, y), not in a list");
    }
  }
  return tensors;
}

// A function of several tensors, called with each as an argument.
FunctionOfMany many_from(nb::callable f) {
  return [f = shared_object(std::move(f))](const std::vector<Tensor>& inputs) {
    const nb::gil_scoped_acquire interpreter;
    return nb::cast<Tensor>((*f)(*nb::tuple(nb::cast(inputs))));
  };
}

void bind_gradients(const Api& api) {
  nb::class_<Gradients>(api.module, "Gradients", "The gradients of one backward pass, by variable: g[w].")
      .def(nb::init<std::vector<std::pair<Tensor, Tensor>>>(), "pairs"_a)
      .def("__getitem__", &Gradients::operator[], "variable"_a,
           "The gradient with respect to this variable; zeros where the loss does not depend on it.")
      .def("__contains__", &Gradients::contains, "variable"_a)
      .def("__len__", [](const Gradients& g) { return g.all().size(); })
      .def(
          "items", [](const Gradients& g) { return g.all(); }, "Pairs of variables and gradients.")
      .def("__repr__",
           [](const Gradients& g) { return "<ebb.Gradients of " + std::to_string(g.all().size()) + " variables>"; });
  function(api, "variable", variable, "x"_a);
  function(api, "stop_gradient", stop_gradient, "x"_a);
  const auto run = [](const Tensor& loss, const Tensor* grad, bool keep_history, bool create_graph) {
    return backward(loss, {.keep_history = keep_history, .create_graph = create_graph, .grad = or_none(grad)});
  };
  function(api, "backward", run, "loss"_a, "grad"_a.none() = nb::none(), nb::kw_only(), "keep_history"_a = false,
           "create_graph"_a = false);
  method(api, "backward", run, "grad"_a.none() = nb::none(), nb::kw_only(), "keep_history"_a = false,
         "create_graph"_a = false);
}

}  // namespace

void bind_autograd(const Api& api) {
  bind_gradients(api);
  nb::module_& m = api.module;
  m.def("_value_and_grad",
        [](nb::callable f, const std::vector<Tensor>& xs) { return value_and_grad(many_from(std::move(f)))(xs); });
  function(api, "vjp", vjp, "f"_a, "x"_a);
  function(api, "jvp", jvp, "f"_a, "x"_a, "v"_a);
  function(api, "jacobian", jacobian, "f"_a, "x"_a);
  function(api, "hvp", hvp, "f"_a, "x"_a, "v"_a);
  function(api, "hessian", hessian, "f"_a, "x"_a);
  function(api, "diagonal_hessian", diagonal_hessian, "f"_a, "x"_a, "samples"_a = 0);
  function(api, "fisher_diagonal", fisher_diagonal, "f"_a, "x"_a);
  function(api, "gauss_newton_product", gauss_newton_product, "model"_a, "loss"_a, "x"_a, "v"_a);
  function(
      api, "checkpoint",
      [](nb::callable f, nb::args inputs) {
        return checkpoint(many_from(std::move(f)), tensors_in("checkpoint", inputs));
      },
      "f"_a, "inputs"_a);
  function(api, "checkpoint_sequential", checkpoint_sequential, "layers"_a, "segments"_a, "x"_a);
  m.def(
      "custom_function",
      [](nb::callable forward, nb::callable rule, nb::args inputs) {
        return custom_function(many_from(std::move(forward)), rule_from(std::move(rule)),
                               tensors_in("custom_function", inputs));
      },
      "forward"_a, "rule"_a, "inputs"_a,
      "forward(*inputs), differentiated by rule(grad, output, inputs) instead of by its own operations. The rule gives "
      "the cotangents of the inputs, one each, None for none.");
}

}  // namespace ebb::python
