// SPDX-License-Identifier: MIT
#include <array>
#include <string>

#include "bind.h"

namespace ebb::python {
namespace {

std::array<PyObject*, kDTypeCount> objects{};  // alive as long as the interpreter

struct Alias {
  const char* name;
  DType dtype;
};
// The names of the array API, NumPy and PyTorch beside Ebb's own.
constexpr Alias kAliases[] = {{"float64", DType::f64},   {"float32", DType::f32}, {"float16", DType::f16},
                              {"bfloat16", DType::bf16}, {"int64", DType::i64},   {"int32", DType::i32},
                              {"uint8", DType::u8},      {"bool_", DType::bool_}, {"double", DType::f64},
                              {"float", DType::f32},     {"half", DType::f16}};

bool from_text(std::string_view text, DType& out) noexcept {
  if (text.starts_with("torch.")) text.remove_prefix(6);
  for (int d = 0; d < kDTypeCount; ++d) {
    if (text == name(static_cast<DType>(d))) {
      out = static_cast<DType>(d);
      return true;
    }
  }
  for (const Alias& a : kAliases) {
    if (text == a.name) {
      out = a.dtype;
      return true;
    }
  }
  return false;
}

}  // namespace

nb::handle dtype_object(DType dtype) { return objects[static_cast<std::size_t>(dtype)]; }

bool dtype_from_object(nb::handle source, DType& out) noexcept {
  for (int d = 0; d < kDTypeCount; ++d) {
    if (source.ptr() == objects[static_cast<std::size_t>(d)]) {
      out = static_cast<DType>(d);
      return true;
    }
  }
  if (source.is_none()) return false;
  if (source.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) return out = DType::f32, true;
  if (source.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) return out = DType::i64, true;
  if (source.ptr() == reinterpret_cast<PyObject*>(&PyBool_Type)) return out = DType::bool_, true;
  try {
    if (nb::isinstance<nb::str>(source)) return from_text(nb::cast<std::string>(source), out);
    // numpy.dtype('float32') has a name, numpy.float32 is a class, torch.float32 prints as its name.
    if (nb::hasattr(source, "name")) return from_text(nb::cast<std::string>(source.attr("name")), out);
    if (PyType_Check(source.ptr())) return from_text(nb::cast<std::string>(source.attr("__name__")), out);
    return from_text(nb::cast<std::string>(nb::str(source)), out);
  } catch (...) {
    PyErr_Clear();
    return false;
  }
}

bool scalar_from_object(nb::handle source, Scalar& out) noexcept {
  PyObject* o = source.ptr();
  if (PyFloat_Check(o)) {
    out = Scalar(PyFloat_AsDouble(o));
    return true;
  }
  if (PyBool_Check(o)) {
    out = Scalar(o == Py_True);
    return true;
  }
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow != 0) return false;
    out = Scalar(v);
    return true;
  }
  return false;
}

bool integers_from_object(nb::handle source, std::vector<std::int64_t>& out) noexcept {
  out.clear();
  const auto add = [&out](PyObject* o) {
    if (PyFloat_Check(o) || !PyIndex_Check(o)) return false;
    const Py_ssize_t v = PyNumber_AsSsize_t(o, PyExc_OverflowError);
    if (v == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    out.push_back(v);
    return true;
  };
  if (tensor_in(source)) return false;
  if (PyIndex_Check(source.ptr())) return add(source.ptr());
  if (!PySequence_Check(source.ptr()) || PyUnicode_Check(source.ptr())) return false;
  PyObject* items = PySequence_Tuple(source.ptr());
  if (!items) {
    PyErr_Clear();
    return false;
  }
  bool ok = true;
  for (Py_ssize_t i = 0; ok && i < PyTuple_Size(items); ++i) ok = add(PyTuple_GetItem(items, i));
  Py_DECREF(items);
  return ok;
}

void bind_dtypes(nb::module_& m) {
  nb::class_<DTypeObject> cls(m, "DType", "The type of a tensor's elements: ebb.f32, ebb.i64, ebb.bool_, ...");
  cls.def_prop_ro("name", [](const DTypeObject& d) { return std::string(name(d.value)); })
      .def_prop_ro(
          "itemsize", [](const DTypeObject& d) { return size_of(d.value); }, "Bytes of one element.")
      .def_prop_ro("is_floating", [](const DTypeObject& d) { return is_floating(d.value); })
      .def("__repr__", [](const DTypeObject& d) { return "ebb." + std::string(name(d.value)); })
      .def("__str__", [](const DTypeObject& d) { return std::string(name(d.value)); })
      .def("__hash__", [](const DTypeObject& d) { return static_cast<int>(d.value); })
      .def(
          "__eq__",
          [](const DTypeObject& d, nb::handle other) {
            DType o{};
            return dtype_from_object(other, o) && o == d.value;
          },
          nb::arg("other").none());
  m.def(
      "dtype", [](const std::string& name) { return dtype_from_name(name); }, "name"_a, "The dtype of that name.");
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    nb::object object = nb::cast(DTypeObject{dtype});
    objects[static_cast<std::size_t>(d)] = object.inc_ref().ptr();
    m.attr(dtype == DType::bool_ ? "bool_" : std::string(name(dtype)).c_str()) = object;
  }
  for (const Alias& a : kAliases) {
    if (std::string_view(a.name) != "float") m.attr(a.name) = dtype_object(a.dtype);
  }
  m.def(
      "promote_types", [](DType a, DType b) { return promote(a, b); }, "a"_a, "b"_a,
      "The common dtype of two operands.");
}

}  // namespace ebb::python
