// SPDX-License-Identifier: MIT
#include <sstream>

#include "bind.h"
#include "ebb/autograd.h"
#include "ebb/ops/numbers.h"
#include "graph/node.h"

// The class Tensor: what it is, its operators, and how it shows itself.
namespace ebb::python {

const Tensor* tensor_in(nb::handle source) noexcept {
  static const nb::handle type = nb::type<Tensor>();
  if (Py_TYPE(source.ptr()) == reinterpret_cast<PyTypeObject*>(type.ptr())) return nb::inst_ptr<Tensor>(source);
  return nullptr;
}

nb::object item(const Tensor& x) {
  if (x.dtype() == DType::bool_) return nb::cast(x.item<bool>());
  if (is_integer(x.dtype())) return nb::cast(x.item<std::int64_t>());
  return nb::cast(x.item<double>());
}

namespace {

nb::object nested(const Tensor& x, const std::vector<nb::object>& numbers, int axis, std::int64_t& next) {
  if (axis == x.rank()) return numbers[static_cast<std::size_t>(next++)];
  nb::list list;
  for (std::int64_t i = 0; i < x.shape()[axis]; ++i) list.append(nested(x, numbers, axis + 1, next));
  return list;
}

nb::object to_list(const Tensor& x) {
  std::vector<nb::object> numbers;
  numbers.reserve(static_cast<std::size_t>(x.numel()));
  if (is_floating(x.dtype())) {
    for (double v : x.to_vector<double>()) numbers.push_back(nb::cast(v));
  } else {
    for (std::int64_t v : x.to_vector<std::int64_t>())
      numbers.push_back(x.dtype() == DType::bool_ ? nb::cast(v != 0) : nb::cast(v));
  }
  std::int64_t next = 0;
  return nested(x, numbers, 0, next);
}

std::string shape_text(const Shape& shape) {
  std::ostringstream out;
  out << '(';
  for (int i = 0; i < shape.rank(); ++i) out << (i ? ", " : "") << shape[i];
  out << (shape.rank() == 1 ? ",)" : ")");
  return out.str();
}

// tensor([[1, 2],
//         [3, 4]], dtype=i64)
std::string representation(const Tensor& x) {
  std::string text;
  for (char c : x.str()) {
    text += c;
    if (c == '\n') text += "       ";  // below the bracket of "tensor("
  }
  std::string result = "tensor(" + text;
  if (x.numel() == 0 || x.numel() > 1000) result += ", shape=" + shape_text(x.shape());
  result += ", dtype=" + std::string(name(x.dtype()));
  if (x.device() != Device{}) result += ", device='" + name(x.device()) + "'";
  return result + (x.requires_grad() ? ", requires_grad=True)" : ")");
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

// For notebooks: what it is first, then a few of its numbers.
std::string html(const Tensor& x) {
  Tensor preview = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t most = axis + 2 < x.rank() ? 1 : 6;
    if (x.shape()[axis] > most) preview = slice(preview, axis, 0, most);
  }
  const bool part = preview.shape() != x.shape();
  return "<div><b>ebb.Tensor</b> shape " + escaped(shape_text(x.shape())) + ", dtype " + std::string(name(x.dtype())) +
         (x.device() != Device{} ? ", on " + name(x.device()) : "") + (part ? ", the first elements:" : "") + "<pre>" +
         escaped(preview.str()) + "</pre></div>";
}

bool truth(const Tensor& x) {
  if (x.numel() != 1)
    throw Error("bool: the truth of a tensor of shape " + x.shape().str() + " is not defined; use any(x) or all(x)");
  return x.item<bool>();
}

std::int64_t as_index(const Tensor& x) {
  if (!is_integer(x.dtype()) || x.numel() != 1)
    throw Error(Error::Kind::type, "index: only one integer can be an index, got a tensor of " +
                                       std::string(name(x.dtype())) + " " + x.shape().str());
  return x.item<std::int64_t>();
}

using OfOperands = Tensor (*)(TensorOrScalar, TensorOrScalar);
struct Operator {
  const char *name, *reflected;
  OfOperands f;
};
constexpr Operator kArithmetic[] = {{"__add__", "__radd__", add},      {"__sub__", "__rsub__", sub},
                                    {"__mul__", "__rmul__", mul},      {"__truediv__", "__rtruediv__", div},
                                    {"__pow__", "__rpow__", pow},      {"__floordiv__", "__rfloordiv__", floor_divide},
                                    {"__mod__", "__rmod__", remainder}};
constexpr Operator kComparisons[] = {{"__eq__", nullptr, eq}, {"__ne__", nullptr, ne}, {"__lt__", nullptr, lt},
                                     {"__le__", nullptr, le}, {"__gt__", nullptr, gt}, {"__ge__", nullptr, ge}};

// Bits of integers, logic of bools. A number beside a tensor has its dtype.
using OfBits = Tensor (*)(const Tensor&, const Tensor&);
void bind_bits(TensorClass& cls, const char* name, const char* reflected, OfBits f) {
  const auto beside = [](const Tensor& a, const TensorOrScalar& b) {
    return b.is_tensor() ? b.tensor()
                         : full({}, b.scalar(), a.dtype() == DType::bool_ ? std::optional<DType>() : a.dtype());
  };
  cls.def(
      name, [f, beside](const Tensor& a, TensorOrScalar b) { return f(a, beside(a, b)); }, nb::is_operator(),
      "other"_a);
  cls.def(
      reflected, [f, beside](const Tensor& a, TensorOrScalar b) { return f(beside(a, b), a); }, nb::is_operator(),
      "other"_a);
}

void bind_operators(TensorClass& cls) {
  for (const Operator& o : kArithmetic) {
    cls.def(
        o.name, [f = o.f](const Tensor& a, TensorOrScalar b) { return f(a, b); }, nb::is_operator(), "other"_a);
    cls.def(
        o.reflected, [f = o.f](const Tensor& a, TensorOrScalar b) { return f(b, a); }, nb::is_operator(), "other"_a);
  }
  for (const Operator& o : kComparisons)
    cls.def(
        o.name, [f = o.f](const Tensor& a, TensorOrScalar b) { return f(a, b); }, nb::is_operator(), "other"_a);
  bind_bits(cls, "__and__", "__rand__", bitwise_and);
  bind_bits(cls, "__or__", "__ror__", bitwise_or);
  bind_bits(cls, "__xor__", "__rxor__", bitwise_xor);
  bind_bits(cls, "__lshift__", "__rlshift__", bitwise_left_shift);
  bind_bits(cls, "__rshift__", "__rrshift__", bitwise_right_shift);
  cls.def("__invert__", [](const Tensor& a) { return bitwise_not(a); })
      .def("__neg__", [](const Tensor& x) { return neg(x); })
      .def("__pos__", [](const Tensor& x) { return x; })
      .def("__abs__", [](const Tensor& x) { return abs(x); })
      .def(
          "__matmul__", [](const Tensor& a, const Tensor& b) { return matmul(a, b); }, nb::is_operator(), "other"_a)
      .def(
          "__rmatmul__", [](const Tensor& a, const Tensor& b) { return matmul(b, a); }, nb::is_operator(), "other"_a);
}

nb::tuple to_pickle(const Tensor& x) {
  const HostElements elements = host_elements(x);
  const nb::bytes bytes = elements.bytes.empty()
                              ? nb::bytes("", 0)
                              : nb::bytes(reinterpret_cast<const char*>(elements.bytes.data()), elements.bytes.size());
  return nb::make_tuple(bytes, name(x.dtype()), x.shape(), x.node()->op == Op::variable, name(x.device()));
}

Tensor from_pickle(nb::bytes bytes, DType dtype, const Shape& shape, bool is_variable, const std::string& device) {
  if (bytes.size() != static_cast<std::size_t>(shape.numel()) * size_of(dtype))
    throw Error("pickle: " + std::to_string(bytes.size()) + " bytes do not make " + shape.str() + " of " +
                std::string(name(dtype)));
  const OnDevice there(device_from_name(device));
  const Tensor x = from_bytes(bytes.c_str(), dtype, shape);
  return is_variable ? variable(x) : x;
}

}  // namespace

void bind_tensor(const Api& api) {
  TensorClass& cls = api.tensor;
  cls.def_prop_ro(
         "shape", [](const Tensor& x) { return x.shape(); }, "The sizes of its dimensions, a tuple.")
      .def_prop_ro("dtype", [](const Tensor& x) { return x.dtype(); })
      .def_prop_ro("ndim", [](const Tensor& x) { return x.rank(); })
      .def_prop_ro(
          "size", [](const Tensor& x) { return x.numel(); }, "How many elements it has.")
      .def_prop_ro(
          "device", [](const Tensor& x) { return name(x.device()); }, "Where it is: 'cpu', 'cuda:0'...")
      .def_prop_rw(
          "requires_grad", [](const Tensor& x) { return x.requires_grad(); },
          [](const Tensor&, nb::handle) {
            throw Error(
                Error::Kind::type,
                "Tensor: requires_grad cannot be set, a tensor is a value; x = ebb.variable(x) asks for its "
                "gradient, and a layer is frozen by giving step the others: optimizer.step(model.head, gradients)");
          },
          nb::for_setter(nb::arg("value")), "Whether a variable is upstream and its history is kept.")
      .def_prop_ro("evaluated", [](const Tensor& x) { return x.evaluated(); })
      .def_prop_ro(
          "T", [](const Tensor& x) { return t(x); }, "The transpose of a matrix.")
      .def_prop_ro(
          "mT", [](const Tensor& x) { return transpose(x, -2, -1); }, "The last two axes exchanged.")
      .def_prop_ro("nbytes", [](const Tensor& x) { return static_cast<std::size_t>(x.numel()) * size_of(x.dtype()); })
      .def(
          "numel", [](const Tensor& x) { return x.numel(); }, "How many elements there are.")
      .def(
          "dim", [](const Tensor& x) { return x.rank(); }, "How many axes there are.")
      .def(
          "cpu", [](const Tensor& x) { return x.to(Device{}); }, "The same numbers in the host's memory.")
      .def(
          "cuda",
          [](const Tensor& x, nb::handle device) {
            if (device.is_none()) return x.to(device_from_name("cuda"));
            const bool is_number = PyLong_Check(device.ptr());
            return x.to(is_number ? device_from_name("cuda:" + nb::cast<std::string>(nb::str(device)))
                                  : device_from(device));
          },
          "device"_a.none() = nb::none(), "The same numbers on a GPU, the first one or the one with this number.")
      .def_prop_ro(
          "is_cuda", [](const Tensor& x) { return x.device().kind == Device::Kind::cuda; }, "Whether it is on a GPU.")
      .def(
          "eval",
          [](nb::handle_t<Tensor> self) {
            nb::inst_ptr<Tensor>(self)->eval();
            return nb::borrow<nb::typed<nb::object, Tensor>>(self);
          },
          "Computes it now; returns itself.")
      .def("item", item, "The value of a one-element tensor as a Python number.")
      .def("tolist", to_list, "The elements as nested lists of Python numbers.")
      .def(
          "detach", [](const Tensor& x) { return stop_gradient(x); }, "The same value as a constant.")
      .def("__float__", [](const Tensor& x) { return x.item<double>(); })
      .def("__int__",
           [](const Tensor& x) {
             return is_floating(x.dtype()) ? cast(x, DType::i64).item<std::int64_t>() : x.item<std::int64_t>();
           })
      .def("__bool__", truth)
      .def("__index__", as_index)
      .def("__len__",
           [](const Tensor& x) {
             if (x.rank() == 0) throw Error(Error::Kind::type, "len: a tensor of rank 0 has no length");
             return x.shape()[0];
           })
      .def("__iter__",
           [](const Tensor& x) {
             if (x.rank() == 0) throw Error(Error::Kind::type, "iter: a tensor of rank 0 has no elements to go over");
             nb::list rows;
             for (std::int64_t i = 0; i < x.shape()[0]; ++i) rows.append(x[i]);
             return nb::iter(rows);
           })
      .def("__hash__", [](const Tensor& x) { return reinterpret_cast<std::intptr_t>(x.node()) >> 4; })
      .def("__repr__", representation)
      .def("__str__", [](const Tensor& x) { return x.str(); })
      .def("__format__",
           [](const Tensor& x, nb::str spec) {
             if (nb::len(spec) == 0) return nb::str(x.str().c_str());
             return nb::str(item(x).attr("__format__")(spec));
           })
      .def("_repr_html_", html)
      .def("__copy__", [](const Tensor& x) { return x; })
      .def(
          "__deepcopy__", [](const Tensor& x, nb::handle) { return x; }, "memo"_a);
  api.module.def("_from_pickle", from_pickle);
  api.module.def("_to_pickle", to_pickle);
  bind_operators(cls);
}

}  // namespace ebb::python
