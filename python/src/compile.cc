// SPDX-License-Identifier: MIT
#include "ebb/compile.h"

#include <utility>

#include "bind.h"
#include "graph/node.h"
#include "shared_object.h"

namespace ebb::python {
namespace {

// A compiled function of tensors. The Python function is given with each call and not kept: it often refers to what
// keeps this object, and Python's collector does not see through C++.
class CompiledFunction {
 public:
  // f gets the inputs, when it is traced or has to be called itself, and gives a list of tensors and a function that
  // makes the result of such a list.
  nb::object operator()(const nb::callable& f, const std::vector<Tensor>& inputs) const {
    struct Running {
      const nb::callable* before;
      explicit Running(const nb::callable& f) : before(std::exchange(running, &f)) {}
      ~Running() { running = before; }
    } scope(f);
    std::vector<Tensor> results = compiled_(inputs);
    const auto make = std::static_pointer_cast<const nb::callable>(results.back().node()->extra->data);
    results.pop_back();
    return (*make)(results);
  }

 private:
  // How the result is made belongs to the trace, so it travels as the data of one more tensor of its results.
  static std::vector<Tensor> call(const std::vector<Tensor>& inputs) {
    const nb::gil_scoped_acquire interpreter;
    auto [results, make] =
        nb::cast<std::pair<std::vector<Tensor>, nb::callable>>((*running)(*nb::tuple(nb::cast(inputs))));
    Tensor carrier = make_data(DType::u8, Shape{}, BufferPtr::allocate(1, "compile"));
    carrier.node()->more().data = shared_object(std::move(make));
    results.push_back(std::move(carrier));
    return results;
  }

  static thread_local const nb::callable* running;  // the function of the innermost call

  FunctionToMany compiled_ = compile(FunctionToMany(call));
};
thread_local const nb::callable* CompiledFunction::running = nullptr;

}  // namespace

void bind_compile(const Api& api) {
  nb::class_<CompiledFunction>(api.module, "_CompiledFunction", "What ebb.compile calls.")
      .def(nb::init<>())
      .def("__call__", &CompiledFunction::operator(), "f"_a, "inputs"_a);
}

}  // namespace ebb::python
