// SPDX-License-Identifier: MIT
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ebb/ops.h"
#include "ebb/tensor.h"

namespace nb = nanobind;
using namespace nanobind::literals;

// Python's counterparts of Ebb's small types: numbers, tuples, names. Tensor itself is a class.
namespace ebb::python {

// The dtype as Python sees it; there is one object a dtype.
struct DTypeObject {
  DType value;
};
nb::handle dtype_object(DType dtype);
bool dtype_from_object(nb::handle source, DType& out) noexcept;  // ebb.f32, "f32", "float32", numpy.float32, float

bool scalar_from_object(nb::handle source, Scalar& out) noexcept;                       // bool, int, float
bool integers_from_object(nb::handle source, std::vector<std::int64_t>& out) noexcept;  // 3, (2, 3), [2, 3]

// An object that holds numbers: it has __dlpack__ or the buffer protocol.
struct ArrayLike {
  nb::object object;
};
bool is_array_like(nb::handle source) noexcept;
Tensor tensor_from_array(nb::handle array);           // without a copy where possible
const Tensor* tensor_in(nb::handle source) noexcept;  // null where the object is not an ebb.Tensor

}  // namespace ebb::python

namespace nanobind::detail {

template <>
struct type_caster<ebb::python::ArrayLike> {
  NB_TYPE_CASTER(ebb::python::ArrayLike, const_name("typing.Any"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    if (!ebb::python::is_array_like(source)) return false;
    value.object = borrow(source);
    return true;
  }
};

template <>
struct type_caster<ebb::DType> {
  NB_TYPE_CASTER(ebb::DType, const_name("DType"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    return ebb::python::dtype_from_object(source, value);
  }
  static handle from_cpp(ebb::DType dtype, rv_policy, cleanup_list*) noexcept {
    return ebb::python::dtype_object(dtype).inc_ref();
  }
};

template <>
struct type_caster<ebb::Scalar> {
  NB_TYPE_CASTER(ebb::Scalar, const_name("float"))
  type_caster() : value(0) {}
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    return ebb::python::scalar_from_object(source, value);
  }
};

// A tensor, an array, or a number. None stands for "left out" where an argument says so.
template <>
struct type_caster<ebb::TensorOrScalar> {
  NB_TYPE_CASTER(ebb::TensorOrScalar, const_name("Tensor | float"))
  ebb::Tensor converted;
  bool from_python(handle source, uint32_t flags, cleanup_list*) noexcept {
    if (const ebb::Tensor* t = ebb::python::tensor_in(source)) {
      value = ebb::TensorOrScalar(*t);
      return true;
    }
    ebb::Scalar number(0);
    if (ebb::python::scalar_from_object(source, number)) {
      value = ebb::TensorOrScalar(number);
      return true;
    }
    if (source.is_none()) {
      value = ebb::TensorOrScalar();
      return true;
    }
    if (!(flags & (uint32_t)cast_flags::convert) || !ebb::python::is_array_like(source)) return false;
    try {
      converted = ebb::python::tensor_from_array(source);
    } catch (...) {
      PyErr_Clear();
      return false;
    }
    value = ebb::TensorOrScalar(converted);
    return true;
  }
};

// The sizes are read here and checked when the function is called: its Error says what is wrong with them.
template <>
struct type_caster<ebb::Shape> {
  using Value = ebb::Shape;
  static constexpr auto Name = const_name("int | collections.abc.Sequence[int]");
  template <class T>
  using Cast = movable_cast_t<T>;
  template <class T>
  static constexpr bool can_cast() {
    return true;
  }
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    return ebb::python::integers_from_object(source, sizes);
  }
  static handle from_cpp(const ebb::Shape& shape, rv_policy, cleanup_list*) noexcept {
    PyObject* tuple = PyTuple_New(shape.rank());
    for (int i = 0; tuple && i < shape.rank(); ++i) PyTuple_SetItem(tuple, i, PyLong_FromLongLong(shape[i]));
    return tuple;
  }
  explicit operator ebb::Shape*() { return &(value = ebb::Shape(sizes)); }
  explicit operator ebb::Shape&() { return value = ebb::Shape(sizes); }
  explicit operator ebb::Shape&&() { return std::move(value = ebb::Shape(sizes)); }
  std::vector<std::int64_t> sizes;
  ebb::Shape value;
};

template <>
struct type_caster<ebb::Axes> {
  NB_TYPE_CASTER(ebb::Axes, const_name("int | collections.abc.Sequence[int] | None"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    std::vector<std::int64_t> axes;
    if (!source.is_none() && !ebb::python::integers_from_object(source, axes)) return false;
    value = ebb::Axes(std::move(axes));
    return true;
  }
};

template <>
struct type_caster<ebb::Sizes> {
  NB_TYPE_CASTER(ebb::Sizes, const_name("int | collections.abc.Sequence[int]"))
  type_caster() : value(std::vector<std::int64_t>{}) {}
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    std::vector<std::int64_t> sizes;
    if (!ebb::python::integers_from_object(source, sizes)) return false;
    value = ebb::Sizes(std::move(sizes));
    return true;
  }
};

template <>
struct type_caster<ebb::SizePair> {
  NB_TYPE_CASTER(ebb::SizePair, const_name("int | tuple[int, int]"))
  type_caster() : value(0) {}
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    std::vector<std::int64_t> sizes;
    if (!ebb::python::integers_from_object(source, sizes) || sizes.empty() || sizes.size() > 2) return false;
    value = ebb::SizePair(sizes.front(), sizes.back());
    return true;
  }
};

template <>
struct type_caster<ebb::Padding> {
  NB_TYPE_CASTER(ebb::Padding, const_name("int | tuple[int, int] | str"))
  type_caster() : value(0) {}
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    if (PyUnicode_Check(source.ptr())) {
      const bool same = PyUnicode_CompareWithASCIIString(source.ptr(), "same") == 0;
      if (!same && PyUnicode_CompareWithASCIIString(source.ptr(), "valid") != 0) return false;
      value = ebb::Padding(same ? ebb::kSame : ebb::kValid);
      return true;
    }
    std::vector<std::int64_t> sizes;
    if (!ebb::python::integers_from_object(source, sizes) || sizes.empty() || sizes.size() > 2) return false;
    value = ebb::Padding(sizes.front(), sizes.back());
    return true;
  }
};

}  // namespace nanobind::detail
