// SPDX-License-Identifier: MIT
#include <algorithm>
#include <mutex>
#include <set>

#include "bind.h"
#include "core/format_error.h"
#include "ebb/autograd.h"
#include "ebb/ops.h"
#include "ops/build.h"

namespace ebb::python {
namespace {

// A number of another library: one that can be an index is an integer, others are real. Every array of NumPy's says
// that it can be an index, and refuses where it is not a single integer.
Scalar number_in(nb::handle h) {
  if (PyIndex_Check(h.ptr())) {
    if (const nb::object index = nb::steal(PyNumber_Index(h.ptr())); index.is_valid()) {
      std::int64_t value = 0;
      require(nb::try_cast(index, value), "tensor: {} does not fit an integer of 64 bits; write it as a float",
              nb::str(index).c_str());
      return Scalar(value);
    }
    PyErr_Clear();
  }
  const double real = PyFloat_AsDouble(h.ptr());
  if (real == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    fail(Error::Kind::type, "tensor: cannot make a number of {}", nb::cast<std::string>(h.type().attr("__name__")));
  }
  return Scalar(real);
}

// Numbers in nested lists, row by row.
struct Literal {
  std::vector<std::int64_t> shape;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  bool has_real = false, has_integer = false, has_bool = false;
  std::size_t count = 0;

  void add(nb::handle h, std::size_t depth) {
    PyObject* o = h.ptr();
    if (PyRange_Check(o)) return add(nb::list(h), depth);
    if (PyList_Check(o) || PyTuple_Check(o)) {
      require(depth < Shape::kMaxRank, "tensor: the lists are nested more than {} deep", Shape::kMaxRank);
      const auto n = static_cast<std::int64_t>(PySequence_Size(o));
      if (count == 0 && depth == shape.size()) shape.push_back(n);
      require(depth < shape.size() && shape[depth] == n, "tensor: the lists are ragged; level {} has {} and {} items",
              depth, depth < shape.size() ? shape[depth] : 0, n);
      for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* const item = PyTuple_Check(o) ? PyTuple_GetItem(o, i) : PyList_GetItem(o, i);
        if (!item) throw nb::python_error();  // the list has become shorter
        add(item, depth + 1);
      }
      return;
    }
    require(depth == shape.size(), "tensor: the lists are ragged; a number stands where a list is expected");
    Scalar value(0);
    if (!scalar_from_object(h, value)) {
      if (const Tensor* t = tensor_in(h)) {
        value = is_floating(t->dtype())      ? Scalar(t->item<double>())
                : t->dtype() == DType::bool_ ? Scalar(t->item<bool>())
                                             : Scalar(t->item<std::int64_t>());
      } else {
        value = number_in(h);
      }
    }
    has_real |= value.kind() == Scalar::Kind::real;
    has_integer |= value.kind() == Scalar::Kind::integer;
    has_bool |= value.kind() == Scalar::Kind::boolean;
    reals.push_back(value.real());
    integers.push_back(value.integer());
    ++count;
  }

  Tensor make(std::optional<DType> dtype) const {
    const DType natural = has_real || count == 0 ? DType::f32 : has_integer ? DType::i64 : DType::bool_;
    const DType wanted = dtype.value_or(natural);
    const Shape size(shape);
    if (has_real || is_floating(wanted)) return tensor_from(reals, size, wanted);
    return tensor_from(integers, size, wanted);
  }
};

Tensor array_in(nb::handle data, bool copy) {
  static const nb::object& convert =
      *new nb::object(nb::module_::import_("ebb._core").attr("_tensor_from_array"));  // outlives the interpreter
  return nb::cast<Tensor>(copy ? convert(data, true) : convert(data));
}

// Do the lists begin with a tensor or an array that has axes? Such lists are stacked: their items keep their dtypes.
bool holds_arrays(nb::handle data) {
  nb::object first = nb::borrow(data);
  for (int depth = 0; PyList_Check(first.ptr()) || PyTuple_Check(first.ptr()); ++depth) {
    if (depth == Shape::kMaxRank || PySequence_Size(first.ptr()) == 0) return false;
    first = nb::steal(PySequence_GetItem(first.ptr(), 0));
    if (!first.is_valid()) throw nb::python_error();
  }
  if (const Tensor* t = tensor_in(first)) return t->rank() > 0;
  if (!nb::hasattr(first, "__array__") || !nb::hasattr(first, "shape")) return false;
  const Py_ssize_t rank = PySequence_Size(nb::object(first.attr("shape")).ptr());
  if (rank < 0) throw nb::python_error();
  return rank > 0;
}

Tensor make_tensor(nb::handle data, std::optional<DType> dtype, bool requires_grad) {
  Tensor x;
  if (const Tensor* t = tensor_in(data)) {
    x = *t;  // a value: sharing is as good as copying
  } else if (is_array_like(data)) {
    x = array_in(data, true);
  } else if (nb::hasattr(data, "__array__")) {
    x = array_in(data.attr("__array__")(), true);
  } else if (holds_arrays(data)) {
    std::vector<Tensor> items;
    for (nb::handle item : data) items.push_back(make_tensor(item, dtype, false));
    x = stack(items);
  } else {
    Literal literal;
    literal.add(data, 0);
    x = literal.make(dtype);
  }
  if (dtype) x = cast(x, *dtype);
  return requires_grad ? variable(x) : x;
}

Tensor as_array(nb::handle data, std::optional<DType> dtype, std::optional<bool> copy) {
  if (const Tensor* t = tensor_in(data)) return dtype ? cast(*t, *dtype) : *t;
  if (is_array_like(data)) {
    static const nb::object& convert =
        *new nb::object(nb::module_::import_("ebb._core").attr("_tensor_from_array"));  // outlives the interpreter
    const Tensor x = nb::cast<Tensor>(convert(data, copy));
    return dtype ? cast(x, *dtype) : x;
  }
  if (nb::hasattr(data, "__array__")) return as_array(data.attr("__array__")(), dtype, copy);  // pandas and its like
  require(!copy || *copy, "asarray: a list cannot be shared, only copied");
  return make_tensor(data, dtype, false);
}

// Numbers that a formula written in Python brings along, as in C++: they belong to no device.
Tensor numbers_in_formula(nb::handle data, std::optional<DType> dtype) {
  Literal literal;
  literal.add(data, 0);
  const Shape shape(literal.shape);
  const Tensor x =
      literal.has_real ? numbers_of_formula(literal.reals, shape) : numbers_of_formula(literal.integers, shape);
  return cast(x, dtype.value_or(literal.has_real ? DType::f32 : DType::i64));
}

Tensor range(Scalar start, std::optional<Scalar> end, Scalar step, std::optional<DType> dtype) {
  return end ? arange(start, *end, step, dtype) : arange(0, start, step, dtype);
}

template <class F>
void creation(const Api& api, const char* name, F f) {
  function(
      api, name, [f](const Shape& shape, DType dtype) { return f(shape, dtype); }, "shape"_a,
      "dtype"_a = DTypeObject{DType::f32});
}

}  // namespace

void bind_create(const Api& api) {
  api.tensor.def(
      "__init__",
      [](Tensor* self, nb::handle data, std::optional<DType> dtype) {
        new (self) Tensor(make_tensor(data, dtype, false));
      },
      "data"_a, "dtype"_a.none() = nb::none());
  api.tensor.def("__init__", [](Tensor* self, ArrayLike a) { new (self) Tensor(tensor_from_array(a.object)); });
  nb::implicitly_convertible<ArrayLike, Tensor>();

  api.module.def("tensor", make_tensor, "data"_a, "dtype"_a.none() = nb::none(), nb::kw_only(),
                 "requires_grad"_a = false,
                 "A tensor with a copy of numbers: a number, nested lists, or an array. Reals are f32 and integers i64 "
                 "unless a dtype is asked for; arrays keep theirs. requires_grad makes it a variable.");
  api.module.def("asarray", as_array, "data"_a, "dtype"_a.none() = nb::none(), nb::kw_only(),
                 "copy"_a.none() = nb::none(),
                 "Anything that holds numbers as a tensor, sharing its memory where possible.");
  // The tensor where ok; reading it is an error with this sentence, the position and the value where ok is false.
  api.module.def("_checked", [](const Tensor& x, const Tensor& ok, const std::string& sentence) {
    static auto* const sentences = new std::set<std::string>;  // nodes keep the text's address
    static std::mutex mutex;                                   // Pythons without a global lock
    const std::lock_guard lock(mutex);
    return check(x, ok, sentences->insert(sentence).first->c_str());
  });
  api.module.def("_numbers_of_formula", numbers_in_formula, "data"_a, "dtype"_a.none() = nb::none());
  creation(api, "zeros", zeros);
  creation(api, "ones", ones);
  creation(api, "rand", rand);
  creation(api, "randn", randn);
  function(
      api, "full",
      [](const Shape& shape, Scalar value, std::optional<DType> dtype) { return full(shape, value, dtype); }, "shape"_a,
      "value"_a, "dtype"_a.none() = nb::none());
  function(api, "zeros_like", zeros_like, "x"_a);
  function(api, "ones_like", ones_like, "x"_a);
  function(api, "full_like", full_like, "x"_a, "value"_a);
  function(api, "rand_like", rand_like, "x"_a);
  function(api, "randn_like", randn_like, "x"_a);
  function(api, "randint_like", randint_like, "x"_a, "low"_a, "high"_a);
  function(api, "arange", range, "start"_a, "end"_a.none() = nb::none(), "step"_a = 1, "dtype"_a.none() = nb::none());
  function(api, "linspace", linspace, "start"_a, "end"_a, "count"_a, "dtype"_a = DTypeObject{DType::f32});
  function(api, "eye", eye, "rows"_a, "columns"_a.none() = nb::none(), "dtype"_a = DTypeObject{DType::f32});
  function(api, "randint", randint, "low"_a, "high"_a, "shape"_a, "dtype"_a = DTypeObject{DType::i64});
  function(
      api, "bernoulli", [](const Tensor& p) { return bernoulli(p); }, "p"_a);
  function(
      api, "bernoulli", [](const Shape& shape, double p, DType dtype) { return bernoulli(shape, p, dtype); }, "shape"_a,
      "p"_a, "dtype"_a = DTypeObject{DType::f32});
}

}  // namespace ebb::python
