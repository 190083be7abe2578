// SPDX-License-Identifier: MIT
#include "memory_view.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/backend.h"
#include "core/format_error.h"

namespace ebb::python {
namespace {

// Copies a strided array into a dense one, a run of the last axis at a time.
void copy_packed(std::byte* to, const std::byte* from, const Foreign& f, int axis, std::size_t width) {
  if (axis == f.rank) {
    std::memcpy(to, from, width);
    return;
  }
  std::int64_t inner = static_cast<std::int64_t>(width);
  for (int a = axis + 1; a < f.rank; ++a) inner *= f.shape[a];
  if (axis + 1 == f.rank && f.strides[axis] == static_cast<std::int64_t>(width)) {
    std::memcpy(to, from, static_cast<std::size_t>(f.shape[axis]) * width);
    return;
  }
  for (std::int64_t i = 0; i < f.shape[axis]; ++i)
    copy_packed(to + i * inner, from + i * f.strides[axis], f, axis + 1, width);
}

// Where the last element lies beyond the first one, in bytes; {before, after} it. Neither, nor the bytes between them,
// are more than memory can have.
std::pair<std::int64_t, std::int64_t> reach(const Foreign& f, const Shape& shape, const char* op) {
  std::int64_t before = 0, after = 0, all = 0;
  if (shape.numel() == 0) return {0, 0};
  for (int a = 0; a < shape.rank(); ++a) {
    std::int64_t far = 0, &side = f.strides[a] < 0 ? before : after;
    require(!__builtin_mul_overflow(shape[a] - 1, f.strides[a], &far) && !__builtin_add_overflow(side, far, &side),
            "{}: the strides of the array lead out of memory", op);
  }
  require(!__builtin_sub_overflow(after, before, &all) &&
              !__builtin_add_overflow(all, static_cast<std::int64_t>(size_of(f.dtype)), &all),
          "{}: the strides of the array lead out of memory", op);
  return {-before, after};
}

// A GPU's memory may be read by strides: it is never copied unless that is asked for.
Tensor adopt_device_memory(Foreign& f, const Shape& shape, Copy copy, const char* op) {
  const auto width = static_cast<std::int64_t>(size_of(f.dtype));
  Strides strides;
  for (int a = 0; a < f.rank; ++a) strides[a] = f.strides[a] / width;
  const auto [before, after] = reach(f, shape, op);
  require(reinterpret_cast<std::uintptr_t>(f.data) % static_cast<std::uintptr_t>(width) == 0,
          "{}: elements of {} bytes at an address that is not a multiple of that; copy the array first", op, width);
  Streams* const streams = backend_of(f.device).streams();
  std::function<void()> release = streams ? streams->after_use(std::move(f.release)) : std::move(f.release);
  f.release = {};
  BufferPtr buffer = BufferPtr::wrap(static_cast<std::byte*>(f.data) - before,
                                     static_cast<std::size_t>(before + after + width), std::move(release), f.device);
  const Tensor x = make_data(f.dtype, shape, Storage{std::move(buffer), before / width, strides});
  return copy == Copy::always ? copy_of(x) : x;
}

}  // namespace

// Its last user may still be reading: what comes next waits for that.
MemoryView::~MemoryView() {
  if (!stream || !buffer || buffer.device() == Device{}) return;
  try {
    backend_of(buffer.device()).streams()->wait_for(reinterpret_cast<void*>(*stream));
  } catch (const Error&) {  // the driver is gone at the end of a program
  }
}

Device place_of(const Tensor& x) {
  const Node& n = *x.node();
  if (!n.homeless) return n.device;
  return n.evaluated.load(std::memory_order_acquire) ? n.storage.buffer.device() : default_device();
}

Tensor copy_of(const Tensor& x) {
  const NoHistory none;
  return make_node(Op::copy, x.dtype(), x.shape(), {x}).eval();
}

std::unique_ptr<MemoryView> view_memory(const Tensor& given, ViewLayout layout, Device device) {
  const Tensor x = given.to(device).eval();  // itself, unless it is on another device
  auto view = std::make_unique<MemoryView>();
  view->dtype = x.dtype();
  view->rank = x.rank();
  std::copy(x.shape().begin(), x.shape().end(), view->shape.begin());
  const bool here = device == Device{};
  Storage storage = layout == ViewLayout::as_it_lies ? x.node()->storage
                    : here                           ? evaluated_storage(x)
                                                     : copy_of(x).node()->storage;
  // Some libraries refuse strides that are 0 or negative; those are laid out anew.
  const auto plain = [&] {
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (x.shape()[axis] > 1 && storage.strides[axis] <= 0) return false;
    }
    return true;
  };
  if (!plain()) storage = here ? evaluated_storage(x) : copy_of(x).node()->storage;
  if (layout == ViewLayout::copied && here && x.numel() > 0) {
    const Storage& dense = evaluated_storage(x);
    const std::size_t width = size_of(x.dtype()), bytes = static_cast<std::size_t>(x.numel()) * width;
    storage = {BufferPtr::allocate(bytes, "__dlpack__"), 0, contiguous_strides(x.shape())};
    std::memcpy(storage.buffer.data(), dense.buffer.data() + static_cast<std::size_t>(dense.offset) * width, bytes);
  }
  for (int axis = 0; axis < x.rank(); ++axis) view->strides[static_cast<std::size_t>(axis)] = storage.strides[axis];
  if (storage.buffer)
    view->data = storage.buffer.data() + storage.offset * static_cast<std::int64_t>(size_of(x.dtype()));
  view->buffer = std::move(storage.buffer);
  return view;
}

Tensor adopt_memory(Foreign f, Copy copy, const char* op) {
  struct Done {
    std::function<void()>* release;
    ~Done() {
      if (release && *release) (*release)();
    }
  } done{&f.release};
  const Shape shape(f.shape, f.rank);
  const auto width = static_cast<std::int64_t>(size_of(f.dtype));
  require(shape.numel() == 0 || f.data != nullptr, "{}: the array of shape {} has no memory", op, shape);
  std::array<std::int64_t, Shape::kMaxRank> row_major{};
  if (!f.strides) {
    const Strides dense = contiguous_strides(shape);
    for (int a = 0; a < f.rank; ++a) row_major[static_cast<std::size_t>(a)] = dense[a] * width;
    f.strides = row_major.data();
  }
  if (f.device != Device{}) return adopt_device_memory(f, shape, copy, op);
  reach(f, shape, op);
  // Axes from the outermost in memory to the innermost; dense if each stride is the extent of those within. An axis of
  // size 1 goes with the one after it, as its stride means nothing.
  std::array<int, Shape::kMaxRank> order{};
  std::array<std::int64_t, Shape::kMaxRank> step{};
  for (int a = f.rank - 1; a >= 0; --a) {
    const auto k = static_cast<std::size_t>(a);
    step[k] = shape[a] > 1 ? f.strides[a] : a + 1 < f.rank ? step[k + 1] : width;
  }
  std::iota(order.begin(), order.begin() + f.rank, 0);
  std::stable_sort(order.begin(), order.begin() + f.rank,
                   [&](int a, int b) { return step[static_cast<std::size_t>(a)] > step[static_cast<std::size_t>(b)]; });
  bool dense = reinterpret_cast<std::uintptr_t>(f.data) % static_cast<std::uintptr_t>(width) == 0;
  std::int64_t extent = width;
  for (int k = f.rank - 1; k >= 0; --k) {
    const int a = order[static_cast<std::size_t>(k)];
    if (shape[a] > 1 && f.strides[a] != extent) dense = false;
    extent *= shape[a];
  }
  if (shape.numel() == 0) dense = true;
  if (!dense || copy == Copy::always) {
    require(copy != Copy::never, "{}: elements that do not lie densely cannot be shared, only copied", op);
    BufferPtr buffer = BufferPtr::allocate(static_cast<std::size_t>(shape.numel() * width), op);
    if (shape.numel() > 0)
      copy_packed(buffer.data(), static_cast<const std::byte*>(f.data), f, 0, static_cast<std::size_t>(width));
    return make_data(f.dtype, shape, std::move(buffer));
  }
  std::vector<std::int64_t> in_memory, back(static_cast<std::size_t>(f.rank));
  bool sorted = true;
  for (int k = 0; k < f.rank; ++k) {
    const int a = order[static_cast<std::size_t>(k)];
    in_memory.push_back(shape[a]);
    back[static_cast<std::size_t>(a)] = k;
    sorted = sorted && a == k;
  }
  done.release = nullptr;
  const Tensor x = from_foreign(f.data, f.dtype, Shape(in_memory), std::move(f.release));
  return sorted ? x : permute(x, back);
}

}  // namespace ebb::python
