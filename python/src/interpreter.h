// SPDX-License-Identifier: MIT
#pragma once
#include <Python.h>

namespace ebb::python {

// Python objects are let go of with the interpreter lock, which the thread that frees a tensor may not have.
template <class F>
void with_interpreter(F&& f) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  f();
  PyGILState_Release(state);
}

}  // namespace ebb::python
