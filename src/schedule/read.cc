// SPDX-License-Identifier: MIT
// Reads a device's results on the host, and moves elements between devices.
#include "schedule/read.h"

#include "backend/backend.h"
#include "core/format_error.h"
#include "schedule/graph_run.h"

namespace ebb {
namespace {

std::size_t bytes_of(const Tensor& t) { return static_cast<std::size_t>(t.numel()) * size_of(t.dtype()); }

// The elements as contiguous memory, on any device.
const Storage& dense_storage(const Tensor& t) {
  t.eval();
  Node* n = t.node();
  if (is_contiguous(n->shape, n->storage.strides)) return n->storage;
  if (const Storage* dense = n->dense.load(std::memory_order_acquire)) return *dense;
  Tensor copy = [&] {
    NoHistory none;
    return make_node(Op::copy, n->dtype, n->shape, {t});
  }();
  copy.eval();
  auto made = std::make_unique<const Storage>(copy.node()->storage);
  const Storage* none = nullptr;
  if (n->dense.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *none;  // another thread was faster
}

}  // namespace

BufferPtr copied(const Storage& from, std::size_t bytes, std::size_t element, Device to) {
  BufferPtr host = from.buffer;
  std::size_t offset = static_cast<std::size_t>(from.offset) * element;
  if (from.buffer.device() != Device{}) {
    host = BufferPtr::allocate(bytes ? bytes : 1, "to");
    if (bytes) backend_of(from.buffer.device()).to_host(host.data(), *from.buffer.get(), offset, bytes);
    offset = 0;
  }
  if (to == Device{}) return host;  // from another device: a device never copies from itself
  BufferPtr there = BufferPtr::allocate(bytes ? bytes : 1, "to", to);
  if (bytes) backend_of(to).from_host(*there.get(), host.data() + offset, bytes);
  return there;
}

void move_between_devices(const Tensor& moved) {
  const Tensor source = input_of(moved, 0);
  if (!source.defined()) return;  // another thread has done it
  Storage there;
  if (source.node()->homeless && !source.evaluated()) {  // it can be computed where it is needed
    OnDevice made_there(moved.node()->device);
    source.eval();
  }
  if (source.eval().node()->storage.buffer.device() == moved.node()->device) {
    there = source.node()->storage;
  } else {
    there = {copied(dense_storage(source), bytes_of(source), size_of(source.dtype()), moved.node()->device), 0,
             contiguous_strides(source.shape())};
  }
  std::vector<Forgotten> forgotten;  // released after the lock
  GraphLock lock(moved.node());
  if (!moved.evaluated()) GraphRun::attach(moved.node(), there, forgotten);
}

const Storage& evaluated_storage(const Tensor& t) {
  const Storage& s = dense_storage(t);
  require(s.buffer.device() == Device{}, "data: the tensor is on {}; move it with .to(Device{{}}) first",
          name(s.buffer.device()));
  return s;
}

HostElements host_elements(const Tensor& t) {
  const Storage& s = dense_storage(t);
  const std::size_t bytes = bytes_of(t), element = size_of(t.dtype());
  if (s.buffer.device() == Device{})
    return {s.buffer, {s.buffer.data() + static_cast<std::size_t>(s.offset) * element, bytes}};
  const BufferPtr host = copied(s, bytes, element, {});
  return {host, {host.data(), bytes}};
}

Tensor Tensor::to(Device device) const {
  require(defined(), "to: this Tensor has no value (default-constructed or moved from)");
  backend_of(device);  // an error if there is none
  if (!node_->homeless && node_->device == device) return *this;
  Attrs attrs;
  attrs.i = {static_cast<std::int64_t>(device.kind), device.index};
  return make_node(Op::to_device, dtype(), shape(), {*this}, attrs);
}

namespace {

template <class From, class To>
void convert_all(const void* data, std::int64_t n, std::vector<To>& out) {
  const From* from = static_cast<const From*>(data);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
      out[static_cast<std::size_t>(i)] = static_cast<To>(to_float(from[i]));
    } else {
      out[static_cast<std::size_t>(i)] = static_cast<To>(from[i]);
    }
  }
}

}  // namespace
template <class T>
std::vector<T> Tensor::to_vector() const {
  require(std::is_floating_point_v<T> || std::is_same_v<T, bool> || !is_floating(dtype()), Error::Kind::type,
          "to_vector: a tensor of {} cannot be read as integers; cast it first", name(dtype()));
  const HostElements elements = host_elements(*this);
  std::vector<T> out(static_cast<std::size_t>(numel()));
  if (numel() == 0) return out;
  const void* data = elements.bytes.data();
  switch (dtype()) {
    case DType::f64:
      convert_all<double>(data, numel(), out);
      break;
    case DType::f32:
      convert_all<float>(data, numel(), out);
      break;
    case DType::f16:
      convert_all<Half>(data, numel(), out);
      break;
    case DType::bf16:
      convert_all<BFloat16>(data, numel(), out);
      break;
    case DType::i64:
      convert_all<std::int64_t>(data, numel(), out);
      break;
    case DType::i32:
      convert_all<std::int32_t>(data, numel(), out);
      break;
    case DType::u8:
    case DType::bool_:
      convert_all<std::uint8_t>(data, numel(), out);
      break;
  }
  return out;
}

template <class T>
T Tensor::item() const {
  require(numel() == 1, "item: the tensor has shape {}; only one element can be read as a number", shape());
  return to_vector<T>()[0];
}

template <class T>
const T* Tensor::data() const {
  require(dtype_of_type<T>::value == dtype(), Error::Kind::type, "data: the tensor is {}, not {}", name(dtype()),
          name(dtype_of_type<T>::value));
  const Storage& s = evaluated_storage(*this);
  return s.buffer ? reinterpret_cast<const T*>(s.buffer.data()) + s.offset : nullptr;
}

template double Tensor::item<double>() const;
template float Tensor::item<float>() const;
template std::int64_t Tensor::item<std::int64_t>() const;
template std::int32_t Tensor::item<std::int32_t>() const;
template bool Tensor::item<bool>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;
template std::vector<std::int32_t> Tensor::to_vector<std::int32_t>() const;
template std::vector<std::uint8_t> Tensor::to_vector<std::uint8_t>() const;
template std::vector<bool> Tensor::to_vector<bool>() const;
template const double* Tensor::data<double>() const;
template const float* Tensor::data<float>() const;
template const Half* Tensor::data<Half>() const;
template const BFloat16* Tensor::data<BFloat16>() const;
template const std::int64_t* Tensor::data<std::int64_t>() const;
template const std::int32_t* Tensor::data<std::int32_t>() const;
template const std::uint8_t* Tensor::data<std::uint8_t>() const;
template const bool* Tensor::data<bool>() const;

}  // namespace ebb
