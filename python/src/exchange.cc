// SPDX-License-Identifier: MIT
#include <algorithm>

#include "backend/backend.h"
#include "dlpack.h"
#include "exceptions.h"
#include "interpreter.h"
#include "memory_view.h"

// Arrays of other libraries as tensors and tensors as their arrays, without copies: the buffer protocol, NumPy, DLPack.
namespace ebb::python {
namespace {

// NumPy and the buffer protocol know the host's memory only; a copy is asked for, as in PyTorch.
void require_on_host(const Tensor& x, const char* op) {
  if (const Device device = place_of(x); device != Device{})
    throw Error(Error::Kind::type, std::string(op) + ": the tensor is on " + name(device) +
                                       "; copy it to the host's memory first with .cpu()");
}

// ---- the buffer protocol --------------------------------------------------------------------------------------------

const char* format_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "d";
    case DType::f32:
      return "f";
    case DType::f16:
      return "e";
    case DType::i64:
      return "q";
    case DType::i32:
      return "i";
    case DType::u8:
      return "B";
    case DType::bool_:
      return "?";
    default:
      return nullptr;
  }
}

bool dtype_of_format(const char* format, Py_ssize_t width, DType& out) {
  if (!format) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return false;
  switch (*format) {
    case 'd':
      return out = DType::f64, true;
    case 'f':
      return out = DType::f32, true;
    case 'e':
      return out = DType::f16, true;
    case 'l':
    case 'q':
    case 'i':
    case 'n':
      out = width == 8 ? DType::i64 : DType::i32;
      return width == 8 || width == 4;
    case 'B':
      return out = DType::u8, true;
    case '?':
      return out = DType::bool_, true;
    default:
      return false;
  }
}

// An array's elements in words: 'O' or '3w' means little to whoever has read a table.
std::string elements_of(const std::string& format) {
  if (format.starts_with("T{")) return "records";
  if (format.ends_with('w') || format.ends_with('s') || format.ends_with('u')) return "text";
  if (format.ends_with("Zf") || format.ends_with("Zd") || format.ends_with("Zg")) return "complex numbers";
  if (format == "O") return "Python objects";
  return "elements of format '" + format + "'";
}

struct Exported {
  std::unique_ptr<MemoryView> view;
  std::array<Py_ssize_t, Shape::kMaxRank> shape{}, strides{};
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  try {
    const Tensor& x = *nb::inst_ptr<Tensor>(nb::handle(self));
    require_on_host(x, "buffer");
    const char* format = format_of(x.dtype());
    if (!format) {
      PyErr_SetString(PyExc_BufferError,
                      "buffer: NumPy and the buffer protocol have no bf16; cast to f32, or exchange by DLPack");
      return -1;
    }
    if (flags & PyBUF_WRITABLE) {
      PyErr_SetString(PyExc_BufferError, "buffer: a tensor is a value and cannot be written to; ask for a copy");
      return -1;
    }
    auto exported = std::make_unique<Exported>();
    exported->view = view_memory(x);
    const auto width = static_cast<Py_ssize_t>(size_of(x.dtype()));
    Strides strides;
    for (int a = 0; a < x.rank(); ++a) strides[a] = exported->view->strides[static_cast<std::size_t>(a)];
    if (!(flags & PyBUF_STRIDES) && !is_contiguous(x.shape(), strides)) {
      exported->view = view_memory(x, ViewLayout::dense);  // the reader cannot take strides
    }
    for (std::size_t a = 0; a < static_cast<std::size_t>(x.rank()); ++a) {
      exported->shape[a] = exported->view->shape[a];
      exported->strides[a] = exported->view->strides[a] * width;
    }
    view->buf = exported->view->data;
    view->len = x.numel() * width;
    view->itemsize = width;
    view->readonly = 1;
    view->ndim = x.rank();
    view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
    view->shape = flags & PyBUF_ND ? exported->shape.data() : nullptr;
    view->strides = flags & PyBUF_STRIDES ? exported->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = exported.release();
    Py_INCREF(self);
    view->obj = self;
    return 0;
  } catch (const Error& e) {  // what computing the elements ran into
    PyErr_SetString(exception_of(e.kind()), e.what());
    return -1;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return -1;
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_BufferError, e.what());
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Exported*>(view->internal); }

Tensor from_buffer(nb::handle object, Copy copy, const char* op) {
  auto* view = new Py_buffer;
  if (PyObject_GetBuffer(object.ptr(), view, PyBUF_RECORDS_RO) != 0) {
    delete view;
    throw nb::python_error();
  }
  const auto release = [view] {
    with_interpreter([&] { PyBuffer_Release(view); });
    delete view;
  };
  DType dtype{};
  const auto refuse = [&](Error::Kind kind, const std::string& why) {
    release();
    throw Error(kind, std::string(op) + ": " + why);
  };
  if (view->ndim < 0 || view->ndim > Shape::kMaxRank)
    refuse(Error::Kind::value, "the array has " + std::to_string(view->ndim) + " dimensions, a tensor at most 8");
  const std::string format = view->format ? view->format : "B";
  if (!dtype_of_format(view->format, view->itemsize, dtype))
    refuse(Error::Kind::type,
           "there is no dtype for " + elements_of(format) + "; convert the array first, for example by astype(float)");
  // The buffer protocol's promise when strides are requested, and no indirection.
  if (view->itemsize != static_cast<Py_ssize_t>(size_of(dtype)))
    refuse(Error::Kind::type, "the array's elements have the format '" + format + "' and " +
                                  std::to_string(view->itemsize) + " bytes, which do not fit together");
  if ((view->ndim > 0 && (!view->shape || !view->strides)) || view->suboffsets)
    refuse(Error::Kind::value, "the array does not say where its elements are by sizes and strides; copy it first");
  std::array<std::int64_t, Shape::kMaxRank> shape{}, strides{};
  for (std::size_t a = 0; a < static_cast<std::size_t>(view->ndim); ++a) {
    shape[a] = view->shape[a];
    strides[a] = view->strides[a];
  }
  return adopt_memory({view->buf, dtype, view->ndim, shape.data(), strides.data(), release}, copy, op);
}

// ---- DLPack ---------------------------------------------------------------------------------------------------------

dlpack::DataType dlpack_type(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  const dlpack::Code code = dtype == DType::bf16    ? dlpack::Code::bfloat
                            : dtype == DType::bool_ ? dlpack::Code::boolean
                            : dtype == DType::u8    ? dlpack::Code::unsigned_integer
                            : is_floating(dtype)    ? dlpack::Code::real
                                                    : dlpack::Code::integer;
  return {code, bits, 1};
}

DType dtype_of(const dlpack::DataType& t) {
  for (int d = 0; d < kDTypeCount; ++d) {
    const dlpack::DataType own = dlpack_type(static_cast<DType>(d));
    if (own.code == t.code && own.bits == t.bits && t.lanes == 1) return static_cast<DType>(d);
  }
  throw Error(Error::Kind::type, "from_dlpack: there is no dtype for elements of kind " +
                                     std::to_string(static_cast<int>(t.code)) + " with " + std::to_string(t.bits) +
                                     " bits; convert the array first");
}

dlpack::Device dlpack_device(Device device) {
  return {device.kind == Device::Kind::cuda ? dlpack::kCuda : dlpack::kCpu, device.index};
}

template <class ManagedType>
struct Capsule {
  ManagedType managed;
  std::unique_ptr<MemoryView> view;
};

template <class ManagedType>
constexpr const char* kCapsuleName = std::is_same_v<ManagedType, dlpack::Managed> ? "dltensor" : "dltensor_versioned";

template <class ManagedType>
nb::object make_capsule(std::unique_ptr<MemoryView> view, std::uint64_t flags) {
  auto* capsule = new Capsule<ManagedType>;
  ManagedType& m = capsule->managed;
  const Device device = view->buffer.device();
  m.array = {view->data,         dlpack_device(device), view->rank, dlpack_type(view->dtype),
             view->shape.data(), view->strides.data(),  0};
  m.context = capsule;
  m.deleter = [](ManagedType* self) { delete static_cast<Capsule<ManagedType>*>(self->context); };
  if constexpr (std::is_same_v<ManagedType, dlpack::ManagedVersioned>) {
    m.major = 1;
    m.minor = 0;
    m.flags = flags;
  }
  capsule->view = std::move(view);
  // A capsule that somebody took has another name; one that nobody took frees its memory.
  PyObject* object = PyCapsule_New(&m, kCapsuleName<ManagedType>, [](PyObject* o) {
    if (!PyCapsule_IsValid(o, kCapsuleName<ManagedType>)) return;
    auto* managed = static_cast<ManagedType*>(PyCapsule_GetPointer(o, kCapsuleName<ManagedType>));
    managed->deleter(managed);
  });
  if (!object) {
    delete capsule;
    throw nb::python_error();
  }
  return nb::steal(object);
}

// The stream that a consumer will read on, as the protocol spells it: None is the default stream, -1 says that the
// consumer sees to the order by itself.
std::optional<std::uintptr_t> stream_of(nb::handle stream, Device device) {
  std::int64_t number = 1;
  if (!stream.is_none() && !nb::try_cast(stream, number))
    throw Error(Error::Kind::type,
                "__dlpack__: a stream is a number, got " + nb::cast<std::string>(stream.type().attr("__name__")));
  if (number == -1) return {};
  if (device == Device{}) {
    if (stream.is_none()) return {};
    throw Error("__dlpack__: a tensor in the host's memory has no stream, got one");
  }
  if (number <= 0) throw Error("__dlpack__: " + std::to_string(number) + " is not a stream; the default stream is 1");
  return static_cast<std::uintptr_t>(number);
}

nb::object to_dlpack(const Tensor& x, nb::handle stream, std::optional<std::pair<int, int>> max_version,
                     std::optional<std::pair<int, int>> dl_device, std::optional<bool> copy) {
  const Device at = place_of(x);
  const bool moved = dl_device && *dl_device != std::pair<int, int>{dlpack_device(at).type, dlpack_device(at).id};
  if (moved && (dl_device->first != dlpack::kCpu || copy == false)) {
    const std::string text = "__dlpack__: the tensor is on " + name(at) + ", and is copied only to the CPU" +
                             (copy == false ? ", for which copy must not be False" : "; move it first with .to()");
    PyErr_SetString(PyExc_BufferError, text.c_str());
    throw nb::python_error();
  }
  const std::optional<std::uintptr_t> consumer = stream_of(stream, at);
  // Before version 1 the protocol cannot say "read-only": who asks by it gets a copy, unless sharing was asked for.
  const bool versioned = max_version && max_version->first >= 1, copied = moved || copy.value_or(!versioned);
  std::unique_ptr<MemoryView> view =
      view_memory(x, copied ? ViewLayout::copied : ViewLayout::as_it_lies, moved ? Device{} : at);
  if (consumer && !moved) {
    backend_of(at).streams()->let_wait(reinterpret_cast<void*>(*consumer));
    view->stream = consumer;
  }
  if (versioned)
    return make_capsule<dlpack::ManagedVersioned>(std::move(view), copied ? dlpack::kCopied : dlpack::kReadOnly);
  return make_capsule<dlpack::Managed>(std::move(view), 0);
}

template <class ManagedType>
Tensor take_capsule(nb::handle capsule, const char* used_name, Copy copy) {
  auto* managed = static_cast<ManagedType*>(PyCapsule_GetPointer(capsule.ptr(), kCapsuleName<ManagedType>));
  if constexpr (std::is_same_v<ManagedType, dlpack::ManagedVersioned>) {  // another version may have other fields
    if (managed->major != 1)
      throw Error("from_dlpack: the array comes by version " + std::to_string(managed->major) +
                  " of DLPack, this is 1");
  }
  const dlpack::Array& a = managed->array;
  const bool on_gpu = a.device.type == dlpack::kCuda;
  if (a.device.type != dlpack::kCpu && a.device.type != dlpack::kCudaHost && !on_gpu)
    throw Error("from_dlpack: the array is on a device of type " + std::to_string(a.device.type) +
                "; copy it to the host first");
  const Device device = on_gpu ? device_from_name("cuda:" + std::to_string(a.device.id)) : Device{};
  if (on_gpu) backend_of(device);  // an error if there is none
  const DType dtype = dtype_of(a.dtype);
  if (a.rank < 0 || a.rank > Shape::kMaxRank)
    throw Error("from_dlpack: the array has " + std::to_string(a.rank) + " dimensions, a tensor at most 8");
  if (a.rank > 0 && !a.shape) throw Error("from_dlpack: the array has no sizes");
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  for (std::size_t k = 0; a.strides && k < static_cast<std::size_t>(a.rank); ++k) {
    if (__builtin_mul_overflow(a.strides[k], width, &strides[k]))
      throw Error("from_dlpack: the strides of the array lead out of memory");
  }
  PyCapsule_SetName(capsule.ptr(), used_name);
  return adopt_memory({a.data ? static_cast<std::byte*>(a.data) + a.byte_offset : nullptr, dtype, a.rank, a.shape,
                       a.strides ? strides.data() : nullptr,
                       [managed] {
                         if (managed->deleter) with_interpreter([&] { managed->deleter(managed); });
                       },
                       device},
                      copy, "from_dlpack");
}

Copy copy_mode(std::optional<bool> copy) { return !copy ? Copy::if_needed : *copy ? Copy::always : Copy::never; }

// Where the array will be read, if it is on a GPU: its owner makes that stream wait for what it is still computing.
nb::object stream_for(nb::handle source) {
  if (!nb::hasattr(source, "__dlpack_device__")) return nb::none();
  std::pair<int, int> at;
  if (!nb::try_cast(source.attr("__dlpack_device__")(), at) || at.first != dlpack::kCuda) return nb::none();
  Streams* const streams = backend_of(device_from_name("cuda:" + std::to_string(at.second))).streams();
  if (!streams) return nb::none();
  const auto stream = reinterpret_cast<std::uintptr_t>(streams->current());
  return nb::cast(stream ? stream : std::uintptr_t{1});
}

Tensor from_dlpack(nb::handle source, Copy copy) {
  nb::object capsule;
  if (PyCapsule_CheckExact(source.ptr())) {
    capsule = nb::borrow(source);
  } else {
    const nb::object give = nb::getattr(source, "__dlpack__"), stream = stream_for(source);
    nb::dict arguments;
    if (!stream.is_none()) arguments["stream"] = stream;
    try {
      capsule = give("max_version"_a = nb::make_tuple(1, 0), **arguments);
    } catch (nb::python_error& e) {
      if (!e.matches(PyExc_TypeError)) throw;
      capsule = give(**arguments);  // a library from before version 1
    }
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned"))
    return take_capsule<dlpack::ManagedVersioned>(capsule, "used_dltensor_versioned", copy);
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor"))
    return take_capsule<dlpack::Managed>(capsule, "used_dltensor", copy);
  throw Error("from_dlpack: the capsule holds no array, or one that was taken already");
}

// ---- NumPy ----------------------------------------------------------------------------------------------------------

nb::object to_numpy(const Tensor& x) {
  if (x.dtype() == DType::bf16)
    throw Error(Error::Kind::type, "numpy: NumPy has no bf16; cast to f32, or exchange by DLPack");
  require_on_host(x, "numpy");
  x.eval();
  return nb::module_::import_("numpy").attr("asarray")(nb::steal(PyMemoryView_FromObject(nb::cast(x).ptr())));
}

nb::object array_protocol(const Tensor& x, nb::handle dtype, nb::handle copy) {
  nb::object array = to_numpy(x);
  const bool other = !dtype.is_none() && !array.attr("dtype").equal(dtype);
  if (other) {
    if (copy.ptr() == Py_False) throw Error("__array__: another dtype needs a copy, and copy=False was asked for");
    return array.attr("astype")(dtype);
  }
  return copy.ptr() == Py_True ? array.attr("copy")() : array;
}

Tensor from_numpy(nb::handle array) {
  if (!PyObject_CheckBuffer(array.ptr()))
    throw Error(Error::Kind::type,
                "from_numpy: expected an array, got " + nb::cast<std::string>(array.type().attr("__name__")));
  return from_buffer(array, Copy::if_needed, "from_numpy");
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                       {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                       {0, nullptr}};

}  // namespace

PyType_Slot* tensor_slots() { return slots; }

bool is_array_like(nb::handle source) noexcept {
  PyObject* o = source.ptr();
  if (PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyTuple_CheckExact(o) || PyList_CheckExact(o) ||
      PyUnicode_CheckExact(o) || PyBytes_Check(o) || o == Py_None)
    return false;
  return PyObject_CheckBuffer(o) || PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)), "__dlpack__");
}

Tensor array_as_tensor(nb::handle array, Copy copy) {
  // A PyTorch tensor that is differentiated by PyTorch must not lose its history without a word: its __dlpack__ says
  // so.
  if (PyObject_CheckBuffer(array.ptr())) return from_buffer(array, copy, "asarray");
  return from_dlpack(array, copy);
}
Tensor tensor_from_array(nb::handle array) { return array_as_tensor(array, Copy::if_needed); }

void bind_exchange(const Api& api) {
  api.tensor
      .def("__dlpack__", to_dlpack, nb::kw_only(), "stream"_a.none() = nb::none(), "max_version"_a.none() = nb::none(),
           "dl_device"_a.none() = nb::none(), "copy"_a.none() = nb::none(),
           "A DLPack capsule of the elements. Where max_version is 1 or later it shares the tensor's memory and is "
           "marked "
           "read-only; a consumer that ignores the mark (PyTorch does) must not write to it, because the tensor would "
           "change. The older protocol has no such mark and gives a copy. copy says otherwise for both.")
      .def("__dlpack_device__",
           [](const Tensor& x) {
             const dlpack::Device d = dlpack_device(place_of(x));
             return std::make_pair(d.type, d.id);
           })
      .def("numpy", to_numpy,
           "The elements as a read-only NumPy array, without a copy. A tensor on a GPU is copied by .cpu() first.")
      .def("__array__", array_protocol, "dtype"_a.none() = nb::none(), nb::kw_only(), "copy"_a.none() = nb::none());
  api.tensor.attr("__array_ufunc__") = nb::none();  // array + tensor is a tensor
  api.module.def(
      "from_dlpack",
      [](nb::handle x, nb::handle device, std::optional<bool> copy) {
        const Tensor there = from_dlpack(x, copy_mode(copy));
        if (device.is_none()) return there;
        const Device wanted = device_from(device);
        if (copy == false && wanted != there.device())
          throw Error("from_dlpack: an array on " + name(there.device()) + " gets to " + name(wanted) +
                      " by a copy only, and copy=False was asked for");
        return there.to(wanted);
      },
      "x"_a, nb::kw_only(), "device"_a.none() = nb::none(), "copy"_a.none() = nb::none(),
      "A tensor on the memory of any array that speaks DLPack (both protocols), without a copy where it lies densely. "
      "The "
      "array must not be changed while the tensor, or anything not yet computed from it, is used: results would "
      "change. "
      "copy=True is safe from that.");
  api.module.def("from_numpy", from_numpy, "array"_a,
                 "A tensor on the memory of a NumPy array (or any buffer), without a copy where it lies densely. The "
                 "array must not be changed while the tensor, or anything not yet computed from it, is used: results "
                 "would change. ebb.tensor(array) copies.");
  api.module.def(
      "_tensor_from_array",
      [](nb::handle array, std::optional<bool> copy) { return array_as_tensor(array, copy_mode(copy)); }, "array"_a,
      "copy"_a.none() = nb::none());
  api.module.def("_is_array_like", is_array_like, nb::arg("x").none());
}

}  // namespace ebb::python
