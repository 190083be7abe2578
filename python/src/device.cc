// SPDX-License-Identifier: MIT
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "bind.h"
#include "core/format_error.h"
#include "cuda/backend.h"
#include "cuda/library/cublaslt.h"
#include "cuda/runtime/driver.h"
#include "ebb/device.h"
#include "ebb/stream.h"
#include "graph/node.h"
#include "interpreter.h"

// Devices and their streams, as scopes.
namespace ebb::python {
namespace {

Device gpu(int index) { return device_from_name("cuda:" + std::to_string(index)); }

// Another library's allocator, by two functions of Python: address = allocate(bytes), release(address).
class LibraryMemory final : public StreamMemory {
 public:
  LibraryMemory(nb::callable allocate, nb::callable release)
      : allocate_(std::move(allocate)), release_(std::move(release)) {}
  ~LibraryMemory() override {
    with_interpreter([&] {
      allocate_.reset();
      release_.reset();
    });
  }
  void* allocate(std::size_t bytes) override {
    const nb::gil_scoped_acquire interpreter;
    return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(allocate_(bytes ? bytes : 1)));
  }
  void free(void* data) noexcept override {
    with_interpreter([&] {
      try {
        release_(reinterpret_cast<std::uintptr_t>(data));
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("freeing memory of a stream");
      }
    });
  }

 private:
  nb::object allocate_, release_;
};

// Entered by one thread at a time; what nothing else puts on a device is computed on this one.
struct StreamScope {
  Device device;
  void* stream;
  std::shared_ptr<StreamMemory> memory;
  std::unique_ptr<OnDevice> on_device;
  std::unique_ptr<OnStream> on_stream;
};

struct DeviceScope {
  Device device;
  std::vector<std::shared_ptr<OnDevice>> scopes;  // entered
};

void bind_streams(nb::module_& m) {
  nb::class_<StreamMemory>(m, "_StreamMemory");
  m.def(
      "_library_memory",
      [](nb::callable allocate, nb::callable release) -> std::shared_ptr<StreamMemory> {
        return std::make_shared<LibraryMemory>(std::move(allocate), std::move(release));
      },
      "allocate"_a, "release"_a);
  m.def(
      "_memory_of",
      [](const Tensor& x) {
        const Storage& s = x.eval().node()->storage;
        return std::make_pair(reinterpret_cast<std::uintptr_t>(s.buffer.data()), s.offset);
      },
      "x"_a);
  nb::class_<StreamScope>(m, "_OnStream")
      .def(
          "__init__",
          [](StreamScope* self, int device, std::uintptr_t stream, std::shared_ptr<StreamMemory> memory) {
            new (self) StreamScope{gpu(device), reinterpret_cast<void*>(stream), std::move(memory), {}, {}};
          },
          "device"_a, "stream"_a, "memory"_a.none() = nb::none())
      .def("__enter__",
           [](StreamScope& self) {
             require(!self.on_stream, "stream: the scope is entered already; make another one");
             auto on_device = std::make_unique<OnDevice>(self.device);
             self.on_stream = std::make_unique<OnStream>(self.device, self.stream, self.memory);
             self.on_device = std::move(on_device);
           })
      .def(
          "__exit__",
          [](StreamScope& self, nb::handle, nb::handle, nb::handle) {
            self.on_stream.reset();
            self.on_device.reset();
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
  m.def(
      "_scale",
      [](const Tensor& data, const Tensor& factor) {
        const auto view = [](const Tensor& x) {
          const Storage& s = x.eval().node()->storage;
          return View{s.buffer.data() + s.offset * static_cast<std::int64_t>(size_of(x.dtype())), x.dtype(), x.shape(),
                      s.strides};
        };
        const View d = view(data);
        backend_of(data.device()).scale(d, view(factor));
      },
      "data"_a, "factor"_a);
  // For tests: tables of functions in place of the driver, its compiler and cuBLASLt.
  m.def("_install_cuda", [](std::uintptr_t driver, std::uintptr_t compiler, std::uintptr_t lt) {
    cuda::install_driver(*reinterpret_cast<const cuda::Driver*>(driver),
                         *reinterpret_cast<const cuda::Compiler*>(compiler));
    cuda::install_lt(*reinterpret_cast<const cuda::Lt*>(lt));
  });
  // For tests: a backend in place of a GPU.
  m.def("_install_backend", [](nb::handle device, std::uintptr_t backend) {
    install_backend(device_from(device), *reinterpret_cast<Backend*>(backend));
  });
}

}  // namespace

void bind_device(const Api& api) {
  nb::module_& m = api.module;
  m.def(
      "default_device", [] { return name(default_device()); },
      "Where tensors are made that nothing else puts on a device.");
  m.def(
      "set_default_device", [](nb::handle device) { set_default_device(device_from(device)); }, "device"_a,
      "Makes this the default device of all threads.");
  m.def(
      "is_available", [](nb::handle device) { return is_available(device_from(device)); }, "device"_a,
      "Whether tensors can be put on this device.");
  m.def(
      "synchronize",
      [](nb::handle device) {
        const Device which = device_from(device);
        const nb::gil_scoped_release waiting;
        synchronize(which);
      },
      "device"_a = "cpu",
      "Waits until everything that was started on the device is done, and raises what failed there.");
  m.def("_gpu_count", cuda::count);
  m.def("_describe_gpu", cuda::describe, "index"_a);
  nb::class_<DeviceScope>(m, "device",
                          "A device by name ('cpu', 'cuda', 'cuda:1'), for device= and .to(). with ebb.device('cuda'): "
                          "tensors of this thread that nothing else puts on a device are made there.")
      .def(
          "__init__",
          [](DeviceScope* self, nb::handle given, std::optional<int> index) {
            const std::string name = nb::cast<std::string>(nb::str(given));
            new (self) DeviceScope{device_from_name(index ? name + ":" + std::to_string(*index) : name), {}};
          },
          "name"_a, "index"_a.none() = nb::none())
      .def_prop_ro(
          "type", [](const DeviceScope& self) { return self.device.kind == Device::Kind::cpu ? "cpu" : "cuda"; },
          "'cpu' or 'cuda'.")
      .def_prop_ro(
          "index",
          [](const DeviceScope& self) {
            return self.device.kind == Device::Kind::cpu ? std::optional<int>() : self.device.index;
          },
          "The number of a GPU; None for the CPU.")
      .def("__str__", [](const DeviceScope& self) { return name(self.device); })
      .def("__repr__", [](const DeviceScope& self) { return "ebb.device('" + name(self.device) + "')"; })
      .def("__hash__", [](const DeviceScope& self) { return nb::hash(nb::str(name(self.device).c_str())); })
      .def(
          "__eq__",
          [](const DeviceScope& self, nb::handle other) {
            if (!nb::isinstance<DeviceScope>(other) && !nb::isinstance<nb::str>(other)) return false;
            try {
              return self.device == device_from(other);
            } catch (const Error&) {
              return false;
            }
          },
          "other"_a.none())
      .def("__enter__",
           [](nb::object self) {
             DeviceScope& scope = nb::cast<DeviceScope&>(self);
             scope.scopes.push_back(std::make_shared<OnDevice>(scope.device));
             return self;
           })
      .def(
          "__exit__", [](DeviceScope& self, nb::handle, nb::handle, nb::handle) { self.scopes.pop_back(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
  bind_streams(m);
}

Device device_from(nb::handle given) { return device_from_name(nb::cast<std::string>(nb::str(given))); }

}  // namespace ebb::python
