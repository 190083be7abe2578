// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "casters.h"

namespace ebb::python {

// A Python object that C++ may copy and let go of on any thread.
template <class Object>
std::shared_ptr<Object> shared_object(Object object) {
  return {new Object(std::move(object)), [](Object* p) {
            if (!Py_IsInitialized()) return;
            const nb::gil_scoped_acquire interpreter;
            delete p;
          }};
}

}  // namespace ebb::python
