// SPDX-License-Identifier: MIT
#pragma once
#include "bind.h"

namespace ebb::python {

PyObject* exception_of(Error::Kind kind);  // the class of Python's exceptions that an Error becomes

}  // namespace ebb::python
