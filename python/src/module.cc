// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "bind.h"
#include "core/host_lock.h"
#include "core/stop.h"
#include "exceptions.h"
#include "graph/origin.h"

#ifdef Py_LIMITED_API
// Every CPython exports it, but the headers of the stable ABI leave it out: a version without it would leave this null.
extern "C" [[gnu::weak]] int PyGILState_Check(void);
#endif

namespace ebb::python {
namespace {

struct Doc {
  const char* name;
  const char* text;
};
constexpr Doc kDocs[] = {
#include "header_docs.inc"
};

#ifdef Py_LIMITED_API
bool holds_interpreter() { return PyGILState_Check ? PyGILState_Check() : PyGILState_GetThisThreadState() != nullptr; }
#else
bool holds_interpreter() { return PyGILState_Check(); }
#endif

// The interpreter lock as the library's host lock: whoever computes, or waits for a thread that does, lets go of it.
void* leave_interpreter() { return holds_interpreter() ? PyEval_SaveThread() : nullptr; }
void enter_interpreter(void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); }

// Ctrl-C: its handler runs here, in the main thread, and what it raises ends the computation.
void run_signal_handlers() {
  if (!Py_IsInitialized()) return;
  const nb::gil_scoped_acquire interpreter;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// "train.py:31": the innermost line outside this package.
std::string python_line() {
  if (!Py_IsInitialized() || !holds_interpreter()) return {};
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && !frame.is_none()) {
    const auto module = nb::cast<std::string>(nb::str(frame.attr("f_globals").attr("get")("__name__", "")));
    if (module != "ebb" && module.rfind("ebb.", 0) != 0)
      return nb::cast<std::string>(frame.attr("f_code").attr("co_filename")) + ":" +
             std::to_string(nb::cast<int>(frame.attr("f_lineno")));
    frame = frame.attr("f_back");
  }
  return {};
}

}  // namespace

PyObject* exception_of(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::index:
      return PyExc_IndexError;
    case Error::Kind::type:
      return PyExc_TypeError;
    case Error::Kind::memory:
      return PyExc_MemoryError;
    case Error::Kind::io:
      return PyExc_OSError;
    default:
      return PyExc_ValueError;
  }
}

const char* doc(const char* name) {
  const Doc* end = std::end(kDocs);
  const Doc* it = std::lower_bound(std::begin(kDocs), end, name,
                                   [](const Doc& d, const char* key) { return std::strcmp(d.name, key) < 0; });
  return it != end && std::strcmp(it->name, name) == 0 ? it->text : "";
}

}  // namespace ebb::python

NB_MODULE(_core, m) {
  using namespace ebb::python;
  m.doc() = "The compiled part of Ebb; use it through the package ebb.";
  m.attr("__version__") = EBB_VERSION;
  nb::set_leak_warnings(false);  // dtypes and the losses' defaults live as long as the interpreter
  ebb::set_host_lock({leave_interpreter, enter_interpreter});
  ebb::set_host_interrupt(run_signal_handlers);
  ebb::set_host_origin(python_line);
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const ebb::Error& e) {
      PyErr_SetString(exception_of(e.kind()), e.what());
    } catch (const std::bad_cast&) {  // an element of a list, or one of several forms of an argument
      PyErr_SetString(PyExc_TypeError,
                      "an argument has a type that the function does not take; help() shows those it does");
    }
  });
  bind_dtypes(m);
  TensorClass tensor(m, "Tensor", nb::type_slots(tensor_slots()), nb::is_weak_referenceable(),
                     "An immutable array of numbers. Shape and dtype are known at once; the numbers are computed when "
                     "somebody looks at them (float(x), x.numpy(), print(x), x.eval()).");
  const Api api{m, tensor};
  bind_tensor(api);
  bind_indexing(api);
  bind_exchange(api);
  bind_create(api);
  bind_elementwise(api);
  bind_reduce(api);
  bind_shape(api);
  bind_index(api);
  bind_linalg(api);
  bind_activation(api);
  bind_network(api);
  bind_composed(api);
  bind_elementwise_backward(api);
  bind_tensor_backward(api);
  bind_network_backward(api);
  bind_losses(api);
  bind_autograd(api);
  bind_compile(api);
  bind_gradcheck(api);
  bind_optim(api);
  bind_minimize(api);
  bind_nn(api);
  bind_models(api);
  bind_data(api);
  bind_distributed(api);
  bind_io(api);
  bind_device(api);
  bind_runtime(api);
}
