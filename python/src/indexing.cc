// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>

#include "memory_view.h"
#include "ops/build.h"

// x[...] as in NumPy: numbers, slices, None, ..., and index arrays, which are integer or bool tensors.
namespace ebb::python {
namespace {

std::int64_t slice_end(const nb::object& bound, std::int64_t otherwise) {
  if (bound.is_none()) return otherwise;
  const Py_ssize_t v = PyNumber_AsSsize_t(bound.ptr(), nullptr);  // clamped, as in lists
  if (v == -1 && PyErr_Occurred()) throw nb::python_error();
  return std::min<std::int64_t>(v, kEnd - 1);  // kEnd itself means "to the end", whatever the step
}

Tensor slice_by(const Tensor& x, int axis, nb::handle source) {
  const std::int64_t step = slice_end(source.attr("step"), 1);
  const std::int64_t start = slice_end(source.attr("start"), step < 0 ? -1 : 0);
  return slice(x, axis, start, slice_end(source.attr("stop"), kEnd), step);
}

// x with the axes of a mask as one axis.
Tensor merged_axes(const Tensor& x, int axis, const Tensor& mask) {
  std::vector<std::int64_t> shape(x.shape().begin(), x.shape().begin() + axis);
  shape.push_back(mask.numel());
  shape.insert(shape.end(), x.shape().begin() + axis + mask.rank(), x.shape().end());
  return reshape(x, shape);
}

struct IndexArray {
  int axis;
  Tensor index;
  bool of_mask = false;  // within the axis, and not negative
};

// x at the index arrays' positions of their axes. Adjacent axes are replaced where they stand, others come first.
Tensor at_arrays(const Tensor& x, const std::vector<IndexArray>& arrays) {
  Tensor y = x;
  int first = arrays.front().axis;
  bool adjacent = true;
  for (std::size_t k = 1; k < arrays.size(); ++k) adjacent = adjacent && arrays[k].axis == arrays[k - 1].axis + 1;
  if (!adjacent) {
    std::vector<std::int64_t> order;
    for (const IndexArray& a : arrays) order.push_back(a.axis);
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (std::none_of(arrays.begin(), arrays.end(), [&](const IndexArray& a) { return a.axis == axis; }))
        order.push_back(axis);
    }
    y = permute(x, order);
    first = 0;
  }
  Shape shape;
  for (const IndexArray& a : arrays) shape = broadcast_shapes("index", shape, a.index.shape());
  Tensor flat;
  std::int64_t count = 1;
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    const std::int64_t size = y.shape()[first + static_cast<int>(k)];
    // Positions in the host's memory (a list, a NumPy array) are taken along, as in PyTorch.
    const bool of_host = !arrays[k].index.node()->homeless && place_of(arrays[k].index) == Device{};
    Tensor i = cast(of_host ? arrays[k].index.to(place_of(x)) : arrays[k].index, DType::i64);
    if (!arrays[k].of_mask) {
      i = check_index(i, -size, size, "index");
      i = where(i < 0, i + size, i);
    }
    i = broadcast_to(i, shape);
    flat = flat.defined() ? flat * size + i : i;
    count *= size;
  }
  std::vector<std::int64_t> merged, result;
  for (int axis = 0; axis < first; ++axis) merged.push_back(y.shape()[axis]);
  result = merged;
  merged.push_back(count);
  result.insert(result.end(), shape.begin(), shape.end());
  for (int axis = first + static_cast<int>(arrays.size()); axis < y.rank(); ++axis) {
    merged.push_back(y.shape()[axis]);
    result.push_back(y.shape()[axis]);
  }
  return reshape(index_select(reshape(y, merged), first, reshape(flat, {shape.numel()})), result);
}

std::optional<Tensor> index_array(nb::handle h) {
  if (const Tensor* t = tensor_in(h)) return *t;
  if (nb::isinstance<nb::list>(h)) {
    static const nb::object& make =
        *new nb::object(nb::module_::import_("ebb._core").attr("tensor"));  // outlives the interpreter
    return nb::cast<Tensor>(make(h));
  }
  if (PyIndex_Check(h.ptr()) && !is_array_like(h)) return {};
  if (is_array_like(h)) return tensor_from_array(h);
  return {};
}

int axes_taken(nb::handle h) {
  if (h.is_none() || h.ptr() == Py_Ellipsis) return 0;
  const Tensor* t = tensor_in(h);
  if (t && t->dtype() == DType::bool_) return t->rank();
  if (!t && is_array_like(h)) {
    const Tensor a = tensor_from_array(h);
    if (a.dtype() == DType::bool_) return a.rank();
  }
  return 1;
}

Tensor get_item(const Tensor& x, nb::handle key) {
  const nb::tuple keys = nb::isinstance<nb::tuple>(key) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(key);
  int taken = 0, ellipses = 0;
  for (nb::handle h : keys) {
    taken += axes_taken(h);
    ellipses += h.ptr() == Py_Ellipsis;
  }
  if (ellipses > 1) throw Error(Error::Kind::index, "index: there can be only one '...'");
  if (taken > x.rank())
    throw Error(Error::Kind::index,
                "index: " + std::to_string(taken) + " indices for a tensor of shape " + x.shape().str());
  Tensor y = x;
  int axis = 0;
  std::vector<IndexArray> arrays;
  for (nb::handle h : keys) {
    if (h.is_none()) {
      y = unsqueeze(y, axis++);
    } else if (h.ptr() == Py_Ellipsis) {
      axis += x.rank() - taken;
    } else if (PySlice_Check(h.ptr())) {
      y = slice_by(y, axis++, h);
    } else if (PyBool_Check(h.ptr())) {
      throw Error(Error::Kind::index, "index: True and False are no indices; use a bool tensor of the axis's length");
    } else if (std::optional<Tensor> index = index_array(h)) {
      if (index->dtype() == DType::bool_) {
        for (int k = 0; k < index->rank(); ++k) {
          if (index->shape()[k] != y.shape()[axis + k])
            throw Error(Error::Kind::index,
                        "index: the mask has shape " + index->shape().str() + ", the tensor " + x.shape().str());
        }
        if (index->rank() == 0) {  // a new axis, with one element or with none
          y = unsqueeze(y, axis);
          arrays.push_back({axis++, from_data(std::vector<std::int64_t>(index->item<bool>() ? 1 : 0, 0),
                                              Shape{index->item<bool>() ? 1 : 0})});
        }
        if (index->rank() > 0) {  // computed now: the shape depends on where the mask is true
          y = merged_axes(y, axis, *index);
          arrays.push_back({axis++, reshape(nonzero(reshape(*index, {index->numel()})), {-1}), true});
        }
      } else if (is_integer(index->dtype())) {
        arrays.push_back({axis++, *index});
      } else {
        throw Error(Error::Kind::index,
                    "index: positions are integers or a bool mask, got " + std::string(name(index->dtype())));
      }
    } else if (PyIndex_Check(h.ptr())) {
      const Py_ssize_t i = PyNumber_AsSsize_t(h.ptr(), PyExc_IndexError);
      if (i == -1 && PyErr_Occurred()) throw nb::python_error();
      y = select(y, axis, i);
    } else {
      throw Error(Error::Kind::index,
                  "index: only numbers, slices, None, '...' and integer or bool arrays can be "
                  "indices, got " +
                      nb::cast<std::string>(h.type().attr("__name__")));
    }
  }
  return arrays.empty() ? y : at_arrays(y, arrays);
}

}  // namespace

void bind_indexing(const Api& api) {
  api.tensor.def("__getitem__", get_item, nb::arg("key").none(), "x[...] as in NumPy; the result is a new tensor.")
      .def(
          "__setitem__",
          [](const Tensor&, nb::handle, nb::handle) {
            throw Error(
                Error::Kind::type,
                "Tensor: its elements cannot be assigned to, a tensor is a value; use where, scatter, index_add or "
                "cat to make a new one");
          },
          nb::arg("key").none(), nb::arg("value").none())
      // For ebb.array_api.assignment(): the Python object gets another value, tensors that were made of it keep theirs.
      .def(
          "_become", [](Tensor& x, const Tensor& value) { x = value; }, nb::arg("value"));
}

}  // namespace ebb::python
